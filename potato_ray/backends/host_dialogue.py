"""Talking with the program on a host (potato_ray.host.entry): one channel, a request, lines of JSON back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

from potato_ray.errors import RunFailed
from potato_ray.shipping.host_program import host_input, host_script
from potato_ray.ssh import Channel, Connection, SshTimeout
from potato_ray.ssh.deadline import Deadline
from potato_ray.ssh.failures import too_slow

BEGIN_S: Final = 30.0
"""For the login shell and the interpreter; a home on a network file system takes its time."""
SEND_S: Final = 60.0
"""For the host to take something of what is sent."""

_CODES: Final = {
    "python_missing": "missing_dependency",
    "python_too_old": "missing_dependency",
    "packages_failed": "missing_dependency",
    "no_input": "ssh_failed",
    "bad_input": "ssh_failed",
}
"""Which of a run's error codes stands for what the program says; backend_failed for all others."""


class HostRefused(RunFailed):
    """The program on the host says why it cannot do what it was asked for; `host_code` is its own code."""

    host_code = ""


def _never() -> bool:
    return False


class Dialogue:
    """One request to the host; closed at the end of a `with` block. `said` hears lines of a log.

    `host_name` is how messages name the host. Once `stop` says so, every wait ends with Cancelled. All that
    is heard has to come `within_s`, however many questions it answers.
    """

    def __init__(
        self,
        connection: Connection,
        python: str,
        request: Mapping[str, Any],
        said: Callable[[str], None] = lambda line: None,
        stop: Callable[[], bool] = _never,
        within_s: float = math.inf,
    ) -> None:
        """Raises SshFailed, Cancelled."""
        self.host_name = connection.host
        self._said = said
        self._within_s = within_s
        self._deadline = Deadline(within_s)
        self.channel: Channel = connection.start(host_script(python, self.host_name), stop)
        try:
            self.channel.wait_for_sentinel(BEGIN_S)
            self.channel.send(host_input({"host": self.host_name, **request}), SEND_S)
        except BaseException:
            self.channel.close()
            raise

    def __enter__(self) -> Dialogue:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def hear(self, key: str, timeout_s: float) -> Any:
        """What stands under `key` in the next line that is no log. `timeout_s` is for each line.

        Raises HostRefused for an error that the host tells, SshFailed where nothing of ours comes.
        """
        while True:
            body = self._line(timeout_s)
            if "error" in body:
                raise _told(body["error"], self.host_name)
            if key in body:
                return body[key]
            if "log" in body:
                self._said(str(body["log"]))

    def send_line(self, body: Mapping[str, Any]) -> None:
        """Send one line of JSON. Raises SshFailed."""
        self.send(json.dumps(body).encode("ascii") + b"\n")

    def send(self, data: bytes) -> None:
        """Send bytes as they are. Raises SshFailed."""
        self.channel.send(data, SEND_S)

    def close(self) -> None:
        self.channel.close()

    def _line(self, timeout_s: float) -> dict[str, Any]:
        left_s = self._deadline.left_s
        try:
            line = self.channel.read_line(min(timeout_s, left_s))
        except SshTimeout as late:
            if left_s >= timeout_s:
                raise
            raise too_slow(self.host_name, "It did not do what it was asked for", self._within_s) from late
        if line is None:
            raise self.channel.why_ended()
        try:
            body = json.loads(line)
        except ValueError:
            body = None
        # Whatever else prints on that channel is no answer of ours.
        return body if isinstance(body, dict) else {}


def one_answer(
    connection: Connection, python: str, request: Mapping[str, Any], key: str, timeout_s: float
) -> Any:
    """Ask for one thing that is answered in one line. Raises RunFailed, SshFailed."""
    with Dialogue(connection, python, request, within_s=timeout_s) as dialogue:
        return dialogue.hear(key, timeout_s)


def _told(error: Any, host: str) -> HostRefused:
    parts = error if isinstance(error, dict) else {}
    code = str(parts.get("code") or "")
    message = str(parts.get("message") or f"Something went wrong on {host}")
    refused = HostRefused(
        message if message.endswith(".") else f"{message}.",
        code=_CODES.get(code, "backend_failed"),
        evidence=str(parts.get("evidence") or ""),
        next_step=str(parts.get("next_step") or "Look at the machine, then start the run again."),
    )
    refused.host_code = code
    return refused


class Bytes:
    """What a channel brings, for an ArtifactCopy."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def read(self, n_bytes: int, timeout_s: float, /) -> bytes:
        """At least one byte, b"" at the end. Raises TimeoutError, SshFailed, Cancelled."""
        try:
            return self._channel.read(n_bytes, timeout_s)
        except SshTimeout as silent:
            raise TimeoutError(silent.message) from silent
