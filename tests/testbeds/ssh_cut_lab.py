"""A server behind a router and the host that it logs in to on the other side, over a link that can be cut.

server 10.77.1.2 ── link ── router (masquerades) ── sshd 10.77.2.2

The two share a disk, so that tests see both sides whatever becomes of the link.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agent_lab import add_incompressible_items
from nat import SERVER, Nat
from server_process import API, ServerProcess
from slow_link import SlowLink
from ssh_lab import SshLab
from sshd import Sshd, end_processes
from whole_runs import MakeProject, add_items

from potato_ray.config import ProjectConfig
from potato_ray.host.run_folder import remove_socket_folder
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.registry.runs import Run

SOON_LOST = Path(__file__).parent / "soon_lost"
ALIVE_S = 1
"""Between two questions of ssh whether the host is there; after three without an answer it ends."""
LOST_AFTER_S = 12.0
DEADLINE_S = 120.0
SOON_S = 15.0
N_ITEMS = 2000
BUNDLE_MB = 1
QUICK_S = 6
"""heartbeat_timeout_s of the backends `quick` and `quick-packed`."""


def ask_often(sshd: Sshd) -> None:
    """Let its ssh notice soon that a host is away: what comes first on a command line of ssh holds."""
    wrapper = sshd.bin / "ssh"
    text = wrapper.read_text()
    wrapper.write_text(text.replace(" -F ", f" -o ServerAliveInterval={ALIVE_S} -F ", 1))


class SshCutLab(SshLab):
    """Its server is up once this is made. `keys` are those of its backends besides type and host."""

    def __init__(
        self, nat: Nat, link: SlowLink, sshd: Sshd, make: MakeProject, remote_dir: Path, keys: dict[str, Any]
    ) -> None:
        self.nat, self.link = nat, link
        self.runs: list[str] = []
        ask_often(sshd)
        super().__init__(sshd, _with_data(make, remote_dir), remote_dir, keys, grace_seconds=2)

    def _serve(self, port: int = 0) -> ServerProcess:
        path = os.environ.get("PYTHONPATH", "")
        changed = {
            "PATH": f"{self.sshd.bin}:{os.environ['PATH']}",
            "PYTHONPATH": f"{SOON_LOST}{os.pathsep}{path}",
            "LC_POTATO_RAY_LOST_AFTER": str(LOST_AFTER_S),
        }
        with _environment(changed):
            server = ServerProcess(self.config, port=port, inside=self.nat.inside(self.nat.workstation))
        try:
            return self._here(server.wait_ready)
        except BaseException:
            server.close()
            raise

    def _here(self, work: Callable[[], Any]) -> Any:
        """Do it in the server's network."""
        return self.nat.within(self.nat.workstation, work)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return dict(self._here(lambda: super(SshCutLab, self).post(path, body)))

    def log(self, run_id: str) -> str:
        return str(self._here(lambda: super(SshCutLab, self).log(run_id)))

    def start(
        self, act: str | None = None, backend: str = "gpu", trainer: str = "rehearsal", **params: Any
    ) -> str:
        self.runs.append(super().start(act, backend, trainer, **params))
        return self.runs[-1]

    # What there is of a run on both sides

    def run(self, run_id: str) -> Run:
        return self.reader.run(run_id)

    def mirror(self, run_id: str) -> MirrorFolder:
        """The run's folder on the server."""
        return MirrorFolder(self.config.training_dir / "runs" / run_id)

    def agent_note(self, run_id: str) -> dict[str, Any]:
        """What the host knows of the run's agent; {} for nothing."""
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads((self.remote_dir / f"runs/{run_id}.1/agent.json").read_text("utf-8")))
        return {}

    def there(self, run_id: str, pattern: str) -> int:
        """The bytes of the files in the run's job folder on the host that match."""
        return _sizes(self.remote_dir.glob(f"runs/{run_id}.1/jobs/{run_id}.1/{pattern}"))

    def here(self, run_id: str, pattern: str) -> int:
        """The bytes of the files in the run's folder on the server that match."""
        return _sizes(self.mirror(run_id).path.glob(pattern))

    def until(self, run_id: str, true: Callable[[], bool], within_s: float = DEADLINE_S) -> None:
        """Wait until something is true, and see it at once; fails at the deadline or at the run's end."""
        deadline = time.monotonic() + within_s
        while not true():
            run = self.run(run_id)
            assert not run.ended or true(), (run.state, run.error, run.error_evidence, self.log(run_id))
            assert time.monotonic() < deadline, (
                run.status,
                run.step,
                self.log(run_id),
                self.sshd.log[-3000:],
            )
            time.sleep(0.002)

    def ended(self, run_id: str, within_s: float = DEADLINE_S) -> Run:
        self.until(run_id, lambda: self.run(run_id).ended, within_s)
        return self.run(run_id)

    def sees_no_reservation(self) -> None:
        """No run holds a GPU, soon."""
        deadline = time.monotonic() + SOON_S
        while held := self.reader.reservations():
            assert time.monotonic() < deadline, held
            time.sleep(0.02)

    # The link, and what a test leaves

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """Every packet is lost for the length of a `with` block; neither side hears of it."""
        self.link.cut()
        try:
            yield
        finally:
            self.link.set_rate()
            self.link.mend()

    def dismiss(self) -> None:
        """Mend the link, and end what a test that failed has left."""
        self.link.restore()
        for run_id in self.runs:
            if not self.run(run_id).ended:
                self.post(f"{API}/runs/{run_id}/cancel", {})
                self.ended(run_id)
            self._end_there(run_id)
        self.runs.clear()

    def _end_there(self, run_id: str) -> None:
        """What nobody comes for: an agent with a good end in hand offers it for a day."""
        end_processes(self._agents(run_id))
        socket = self.agent_note(run_id).get("socket")
        if socket:
            remove_socket_folder(socket)


@contextlib.contextmanager
def host_behind_link(
    remote_dir: Path, make: MakeProject, keys: dict[str, Any], **env: str
) -> Iterator[SshCutLab]:
    """The whole of it; `env` is set in every session on the host."""
    with (
        Nat() as nat,
        SlowLink(nat, delay_ms=1.0, rate_mbit=200.0) as link,
        Sshd(address=SERVER, inside=nat.inside(nat.server), env=env) as sshd,
        SshCutLab(nat, link, sshd, make, remote_dir, keys) as lab,
    ):
        yield lab


def _packages(folder: Path) -> list[str]:
    """An archive of one module, for pip to install without a network."""
    wheel = folder / "ware-1.0-py3-none-any.whl"
    info = "ware-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("ware.py", "")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: ware\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return ["--no-index", str(wheel)]


def _with_data(make: MakeProject, remote_dir: Path) -> MakeProject:
    """Makes projects whose bundles and predictions take their time on a slow line, with more backends."""

    def made(**training: Any) -> ProjectConfig:
        backends = training["backends"]
        quick, packed = {"heartbeat_timeout_s": QUICK_S}, {"packages": _packages(remote_dir.parent)}
        more = {"quick": quick, "packed": packed, "quick-packed": {**quick, **packed}}
        others = {name: {**backends["gpu"], **keys} for name, keys in more.items()}
        config = make(**{**training, "backends": {**backends, **others}})
        add_items(config, N_ITEMS)
        add_incompressible_items(config, BUNDLE_MB)
        return config

    return made


@contextlib.contextmanager
def _environment(changed: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _sizes(paths: Iterator[Path]) -> int:
    total = 0
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # it has just become whole
            total += path.stat().st_size
    return total
