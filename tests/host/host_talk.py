"""A host for tests: this machine with a home of its own, spoken to through pipes as ssh would."""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_at_work import QUICK

from potato_ray.host.run_folder import remove_socket_folder
from potato_ray.job import processes
from potato_ray.shipping.host_archive import host_archive
from potato_ray.shipping.host_program import host_input, host_script
from potato_ray.shipping.packed import Packed

DEADLINE_S = 60.0
# Every process of ours hands variables of the locale on, the detached ones too.
MARK = "LC_POTATO_RAY_HOST_TEST"
NAME = "gpubox"
LEASE = "ab" * 16


class Host:
    """`ask` starts the program; `close` ends all that was started, and is to be called."""

    def __init__(self, folder: Path, python: str) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.python = python
        self.remote_dir = self.home / "training"
        self.archive: Packed = host_archive(folder / "state")
        self.mark = f"{MARK}={secrets.token_hex(8)}"
        self.environment = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            MARK: self.mark.partition("=")[2],
        }
        self.stderr: int | None = None
        """Where what is started says its errors; None: into a file."""
        self._talks: list[Talk] = []

    def ask(self, do: str, *, python: str | None = None, **request: Any) -> Talk:
        """Send a request; fields that are not given are those of a usual one."""
        script = host_script(python or self.python, NAME)
        talk = Talk(["/bin/sh", "-c", script], self.environment, self.stderr)
        self._talks.append(talk)
        talk.send(host_input({**self.usual(do), **request}))
        return talk

    def usual(self, do: str) -> dict[str, Any]:
        return {
            "do": do,
            "host": NAME,
            "remote_dir": "~/training",
            "run_id": "run-1",
            "attempt": 1,
            "code": self.archive.sha256,
        }

    def run(self, **request: Any) -> Talk:
        """Start an agent, up to its `ready`; the code is sent where it is missing."""
        talk = self.ask("run", **request)
        self.send_code(talk)
        return talk

    def send_code(self, talk: Talk) -> str:
        """Whether it was copied or found."""
        if not talk.line()["facts"]["has_code"]:
            data = self.archive.path.read_bytes()
            talk.send(json.dumps({"archive_bytes": len(data)}).encode() + b"\n" + data)
        return str(talk.line()["code"])

    def request(self, do: str, **request: Any) -> Any:
        """The answer to a short request, once the code is there."""
        talk = self.ask(do, **request)
        self.send_code(talk)
        answer = talk.line()
        talk.ended()
        return answer

    @property
    def folder(self) -> Path:
        return self.remote_dir / "runs" / "run-1.1"

    @property
    def job(self) -> Path:
        return self.folder / "jobs" / "run-1.1"

    def left(self) -> list[int]:
        """Every process that was started here and lives."""
        return processes.marked([self.mark])

    def close(self) -> None:
        for talk in self._talks:
            talk.close()
        processes.end_marked([self.mark], patience_s=5.0)
        for note in self.remote_dir.glob("runs/*/agent.json"):
            remove_socket_folder(json.loads(note.read_text())["socket"])


class Talk:
    """One started program."""

    def __init__(self, command: list[str], environment: Mapping[str, str], stderr: int | None) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as this
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors if stderr is None else stderr,
            env=dict(environment),
            bufsize=0,
            start_new_session=True,
        )
        self.early = b""

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def send_line(self, body: Mapping[str, Any]) -> None:
        self.send(json.dumps(body).encode() + b"\n")

    def read(self, n_bytes: int, timeout_s: float = DEADLINE_S) -> bytes:
        """As a channel of ssh reads."""
        if self.early:
            taken, self.early = self.early[:n_bytes], self.early[n_bytes:]
            return taken
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], timeout_s)[0]:
            raise TimeoutError
        return os.read(self.process.stdout.fileno(), n_bytes)

    def line(self, within_s: float = DEADLINE_S) -> Any:
        """The next line that it says."""
        line = b""
        deadline = time.monotonic() + within_s
        while not line.endswith(b"\n"):
            piece = self.read(1, max(0.0, deadline - time.monotonic()))
            assert piece, f"it has ended: {line!r} {self.said}"
            line += piece
        return json.loads(line)

    def line_with(self, key: str) -> Any:
        """What the next line with this key holds; those before it are passed over."""
        while True:
            line = self.line()
            assert "error" not in line or key == "error", line
            if key in line:
                return line[key]

    @property
    def said(self) -> str:
        """On stderr."""
        self.errors.seek(0)
        return self.errors.read()

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def stop_listening(self) -> None:
        """Whoever writes meets a broken pipe."""
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ended(self) -> int:
        return self.process.wait(DEADLINE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)
        for file in (self.process.stdin, self.process.stdout, self.errors):
            if file is not None:
                file.close()


def timing() -> dict[str, Any]:
    """Short waits for an agent."""
    return {name: value for name, value in vars(QUICK).items() if name != "launch_s"}


def secrets_for(socket: str, token: str, **more: Any) -> dict[str, Any]:
    """The line with the secrets."""
    return {
        "token": token,
        "lease": LEASE,
        "server": f"unix:{socket}",
        "backend": "far",
        "host": NAME,
        "patience_s": 10.0,
        "timing": timing(),
        **more,
    }
