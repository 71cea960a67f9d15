"""A `potato-ray start` process, its memory, and everything that it has started."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
from training_libraries import EXTRAS

from potato_ray.config import ProjectConfig
from potato_ray.config.admin_key import find_admin_key
from potato_ray.job import processes
from potato_ray.job.folder import ProcessId, read_json

DEADLINE_S = 60.0
BASE_INSTALL = Path(__file__).parent / "base_install"
API = "/admin/training/api"
# Every process of ours hands variables of the locale on, the detached ones too.
MARK = "LC_POTATO_RAY_TEST"
# A background job of a shell ignores SIGINT, and hands that down to us and to the server.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from potato_ray.cli import main
main()
"""


class ServerProcess:
    """Started by its making; `url` is known once it has printed it (`wait_for_url`).

    `as_installed`: without what the tests need and a base install has not: pandas and pyarrow, which
    scikit-learn and Ray import where they are, and what trainers import. `tried` lists what somebody tried
    to import of it all the same.
    """

    def __init__(
        self,
        config: ProjectConfig,
        *arguments: str,
        port: int = 0,
        command: str = "start",
        as_installed: bool = False,
        inside: Sequence[str] = (),
    ) -> None:
        self.config = config
        self.mark = f"{MARK}={secrets.token_hex(8)}"
        self.url = ""
        self._seen: set[ProcessId] = set()
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - lives as long as this
        self._tried = tempfile.NamedTemporaryFile(prefix="prt-", suffix=".tried")  # noqa: SIM115 - the same
        start = (str(config.path), "--port", str(port), *arguments)
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [*inside, sys.executable, "-c", PROGRAM, command, *(arguments if command != "start" else start)],
            cwd="/",
            env={
                **os.environ,
                **dict([self.mark.split("=")]),
                **(_without_extras(self._tried.name) if as_installed else {}),
            },
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )

    @property
    def said(self) -> str:
        """What it has written to stderr so far."""
        self._errors.seek(0)
        return self._errors.read()

    @property
    def tried(self) -> list[str]:
        """See the class: a line for each try, the module and the process."""
        return Path(self._tried.name).read_text("utf-8").splitlines()

    def wait_for_url(self) -> str:
        assert self.process.stdout is not None
        found = None
        while found is None:
            line = self.process.stdout.readline()
            assert line, f"it ended with {self.process.wait(DEADLINE_S)} and said {self.said}"
            found = re.match(r"Training page: (http://\S+)/admin/training$", line.strip())
        self.url = found[1]
        return self.url

    def health(self) -> dict[str, Any]:
        url = self.url or self.wait_for_url()
        answer = httpx.get(f"{url}/health", timeout=10.0)
        assert answer.status_code == 200
        return dict(answer.json())

    def wait_ready(self) -> ServerProcess:
        self.wait_until(lambda: self.health()["controller"] == "ready")
        return self

    def wait_until(self, true: Callable[[], bool]) -> None:
        """Wait until something is true; fails at the deadline, or when the server has ended before."""
        deadline = time.monotonic() + DEADLINE_S
        while not true():
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.said}"
            assert time.monotonic() < deadline, f"it did not come to that in time: {self.said}"
            time.sleep(0.05)

    def start_run(self, act: str, trainer: str = "rehearsal") -> str:
        """POST the start of a run of one of the rehearsing trainers; its id."""
        body = {"trainer": trainer, "schemas": ["sentiment"], "params": {"act": act}}
        answer = httpx.post(self.url + f"{API}/runs", json=body, headers=self.headers(), timeout=40.0)
        assert answer.status_code in (200, 202), answer.text
        return str(answer.json()["run_id"])

    def headers(self) -> dict[str, str]:
        return {"X-API-Key": find_admin_key(self.config) or ""}

    def processes(self) -> list[int]:
        """Every process that it has started and that lives, the detached ones and itself included."""
        # Both ways: a detached process is no descendant, and one that names itself loses its mark.
        for root in (self.process.pid, *processes.marked([self.mark])):
            found = map(processes.identify, (root, *processes.descendants(root)))
            self._seen.update(process for process in found if process is not None)
        return sorted(process.pid for process in self._seen if processes.is_alive(process))

    def end(self, number: int | None = None) -> int:
        """Send a signal, if given, and wait for the end; the exit code."""
        self.processes()
        if number is not None:
            self.process.send_signal(number)
        return self.process.wait(timeout=DEADLINE_S)

    def close(self) -> None:
        """Kill what is left of it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=DEADLINE_S)
        processes.end_marked([self.mark], patience_s=5.0)
        self._remove_session()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._errors.close()
        self._tried.close()

    def _remove_session(self) -> None:
        """The folder of a Ray that nobody has ended: the next server of the project would remove it."""
        note = read_json(self.config.state_dir / "ray.json")
        if note is not None and note["pid"] == self.process.pid:
            shutil.rmtree(note["folder"], ignore_errors=True)


def _without_extras(tried: str) -> dict[str, str]:
    before = os.environ.get("PYTHONPATH")
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(BASE_INSTALL), before])),
        "LC_POTATO_RAY_LACKING": " ".join(EXTRAS),
        "LC_POTATO_RAY_TRIED": tried,
    }


def memory_mb(pids: list[int]) -> dict[str, float]:
    """MiB of each process, pages that several share divided among them, by pid and name."""
    measured = {}
    for pid in pids:
        try:
            command = (
                Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            )
            measured[f"{pid} {command.strip()}"] = processes.proportional_mb([pid])
        except OSError:
            continue  # it has just ended
    return measured
