"""The agent of one run, started over ssh: it says where its socket is to be, and gets its secrets.

    ─▶ {"ready": {"socket", "python"}}      the server forwards the socket, then sends
    ◀─ {"token", "lease", "server", "backend", "keep", …}      (see Secrets)
    ─▶ {"agent": {"pid", "start_ticks", "host", "socket", "log"}}
    ─▶ {"end": {"how", "why"}}      if somebody still listens

Nothing depends on the connection from there on: that it was dropped is a hint, and the requests to the
server say whether it is there. The token is in the memory of this process, and nowhere else.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence, TextIO

from potato_ray.agent.code_store import CodeStore
from potato_ray.agent.connection import ServerConnection
from potato_ray.agent.errors import AgentError, AgentMisconfigured
from potato_ray.agent.machine import python_version
from potato_ray.agent.privacy import hide_memory
from potato_ray.agent.server_contact import contacts
from potato_ray.agent.settings import Settings, Timing
from potato_ray.agent.slurm.keys import SlurmKeys
from potato_ray.agent.stop_request import StopRequest
from potato_ray.agent.voice import Voice
from potato_ray.host.early_lines import EarlyLines
from potato_ray.host.entry import answering
from potato_ray.host.one_run import NOT_CLAIMED, OneRun
from potato_ray.host.run_folder import (
    AgentNote,
    HostWorkdir,
    RunFolder,
    make_socket_folder,
    remove_socket_folder,
)
from potato_ray.host.talk import Failed, read_line, say
from potato_ray.job.processes import identify

SECRETS_S = 120.0
"""How long the server has to forward the socket and to send the secrets."""
SERVER = "the server that started it over ssh"
"""What a job is held for: the socket that leads to the server has another name each time."""
SOCKET = "s"


@dataclass(frozen=True)
class Secrets:
    """What comes over stdin. `host` is how messages name this host, `timing` fields of agent.settings.Timing.

    `patience_s`: how long the server may take to give out the job, where `job` is not it already.
    `min_free_gpu_mb`: see Settings. `slurm`: the keys of a backend that submits jobs (agent.slurm.keys).
    """

    token: str
    lease: str
    server: str
    backend: str
    keep: bool = False
    host: str = ""
    patience_s: float = 300.0
    min_free_gpu_mb: float | None = None
    job: Mapping[str, Any] | None = None
    slurm: Mapping[str, Any] | None = None
    timing: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls) -> Secrets:
        """Raises Failed, without a word of what came."""
        body = read_line(SECRETS_S)
        try:
            return cls(**body)
        except TypeError:
            raise Failed("bad_input", "The line for the agent holds other keys than it should.") from None


def main(arguments: Sequence[str]) -> int:
    """Be the agent; the exit code."""
    request: dict[str, Any] = json.loads(arguments[0])
    hide_memory()
    return answering(request, lambda: _work(request))


def _work(request: Mapping[str, Any]) -> int:
    folder = RunFolder.of(request)
    try:
        workdir = HostWorkdir(folder)
    except AgentMisconfigured as taken:
        if isinstance(taken.__cause__, OSError):
            raise taken.__cause__ from None
        raise Failed("agent_lives", f"An agent is at {folder.name} already.", taken.message) from taken
    with CodeStore(workdir.code).use(str(request["code"]), _never):
        return _with_socket(request, folder, workdir)


def _never(archive: Path) -> None:
    """The code was there a moment ago."""
    raise Failed("host_failed", "Our code was removed while it was started.", str(archive))


def _with_socket(request: Mapping[str, Any], folder: RunFolder, workdir: HostWorkdir) -> int:
    before = folder.read_note()
    if before is not None:
        remove_socket_folder(before.socket)
    socket = str(make_socket_folder() / SOCKET)
    keep = False
    try:
        process = identify(os.getpid())
        assert process is not None  # noqa: S101 - it is ourselves
        note = AgentNote(process, socket)
        folder.write_note(note)
        with EarlyLines(socket, SECRETS_S) as early:
            say({"ready": {"socket": socket, "python": request["python"]}})
            secrets = Secrets.read()
            workdir.lease, keep = secrets.lease, secrets.keep
            return _as_agent(request, secrets, folder, workdir, note, early)
    finally:
        remove_socket_folder(socket)
        if not keep:
            folder.remove_if_unused()


def _as_agent(
    request: Mapping[str, Any],
    secrets: Secrets,
    folder: RunFolder,
    workdir: HostWorkdir,
    note: AgentNote,
    early: EarlyLines,
) -> int:
    stop = _install_signals()
    folder.write_note(replace(note, at_work=True))
    for descriptor in (1, 2):
        os.set_blocking(descriptor, False)  # a reader that hangs holds up nothing
    with folder.log.open("a", encoding="utf-8") as log:
        voice = Voice(_Log(log))
        _tell({"agent": {**asdict(note.process), "socket": note.socket, "log": str(folder.log)}})
        _notice_end_of_input(lambda: voice.say("its line to the server has ended; the run goes on"))
        return _run(request, secrets, folder, workdir, stop, voice, early)


def _run(
    request: Mapping[str, Any],
    secrets: Secrets,
    folder: RunFolder,
    workdir: HostWorkdir,
    stop: StopRequest,
    voice: Voice,
    early: EarlyLines,
) -> int:
    python = str(request["python"])
    try:
        slurm = SlurmKeys.from_json(secrets.slurm) if secrets.slurm is not None else None
    except AgentMisconfigured as invalid:
        raise Failed("bad_input", invalid.message, next_step=invalid.next_step) from invalid
    settings = Settings(
        server=SERVER,
        backend=secrets.backend,
        workdir=workdir.path,
        python=python,
        once=True,
        keep=secrets.keep,
        timing=replace(Timing(), **secrets.timing),
        host=secrets.host or str(request.get("host") or "this host"),
        min_free_gpu_mb=secrets.min_free_gpu_mb,
        slurm=slurm,
        shared_dir=folder.remote_dir / "backends" / secrets.backend,
    )
    try:
        connection = ServerConnection(secrets.server, secrets.token)
        for line in early.taken():
            connection.keep(line)
        connect = contacts(connection, workdir, settings, python_version(python))
        one = OneRun(
            folder.name, settings, workdir, connect, stop, voice, secrets.patience_s, given=secrets.job
        )
        voice.say(f"agent for {folder.name} of backend {secrets.backend}; its folder is {folder.path}")
        how, why = one.run(), one.trouble
        connection.close()
    except AgentError as error:
        how, why = "failed", str(error)
    voice.say(f"ended: {how}")
    _tell({"end": {"how": how, "why": why if how in (NOT_CLAIMED, "failed") else ""}})
    return 1 if how in (NOT_CLAIMED, "failed") else 0


def _install_signals() -> StopRequest:
    # Nobody of ours sends a SIGHUP; that of a connection that ends is no request to stop.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop = StopRequest()
    stop.install()
    return stop


def _tell(body: Mapping[str, Any]) -> None:
    """Say it if somebody listens."""
    try:
        say(body)
    except OSError:
        pass


def _notice_end_of_input(noticed: Callable[[], None]) -> None:
    def watch() -> None:
        try:
            while True:
                select.select([0], [], [])
                try:
                    if not os.read(0, 4096):
                        break
                except BlockingIOError:
                    continue
        except OSError:
            pass
        noticed()

    threading.Thread(target=watch, name="input", daemon=True).start()


class _Log:
    """The agent's log, and stderr as long as somebody reads it."""

    def __init__(self, log: TextIO) -> None:
        self._log = log

    def write(self, text: str) -> object:
        try:
            os.write(2, text.encode("utf-8", "replace"))
        except OSError:
            pass
        return self._log.write(text)

    def flush(self) -> None:
        self._log.flush()
