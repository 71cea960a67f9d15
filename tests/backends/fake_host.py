"""A host that answers requests as the program over there does, without ssh and without processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from potato_ray.backends.base import Job
from potato_ray.backends.grants import Grant, Means
from potato_ray.backends.host_agent import AGENT_LIVES, HostAgent
from potato_ray.backends.host_dialogue import HostRefused
from potato_ray.backends.ssh_settings import SshSettings
from potato_ray.ssh import Destination, SshFailed

FACTS = {"host": "gpu1", "executable": "/py", "python": "/py", "version": "3.11", "remote_dir": "/r"}


class FakeHost:
    """`asked` are the requests, `sent` the lines that came behind them, `sockets` what leads home from there.

    `failing`: what a request raises.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[Mapping[str, Any]] = []
        self.sent: list[Mapping[str, Any]] = []
        self.logins = 0
        self.sockets: set[str] = set()
        self.agent: dict[str, Any] | None = None
        self.job = ""
        self.stopped: dict[str, Any] = {"ended": True, "has_artifacts": False}
        self.cleared: dict[str, Any] = {"killed": [], "left": [], "problem": ""}
        self.failing: dict[str, Exception] = {}
        self.refuses_logins: SshFailed | None = None
        self.channel_ended = False

    def open(self, destination: Destination, stop: Callable[[], bool] | None = None) -> FakeLine:
        """As Connection.open."""
        if self.refuses_logins is not None:
            raise self.refuses_logins
        self.logins += 1
        self.sockets.clear()
        return FakeLine(self)

    def does(self, do: str) -> int:
        """How often it was asked for that."""
        return sum(request["do"] == do for request in self.asked)

    def _taken_up(self, agent: dict[str, Any], request: Mapping[str, Any]) -> None:
        """As host.taking_up."""
        if request.get("end_waiting") == agent["socket"] and not agent["at_work"]:
            agent["alive"] = False
        if request.get("free_socket") and agent["at_work"]:
            self.sockets.discard(agent["socket"])

    def answers(self, request: Mapping[str, Any]) -> dict[str, Any]:
        do = request["do"]
        self.asked.append(request)
        if do in self.failing:
            raise self.failing[do]
        if do == "take_up" and self.agent is not None:
            self._taken_up(self.agent, request)
        if do == "run":
            if self.agent is not None and self.agent["alive"]:
                raise agent_lives()
            self.agent = {"alive": True, "at_work": True, "socket": f"/tmp/potato-{self.does('run')}/s"}
            self.channel_ended = False
        return {
            "facts": {**FACTS, "has_code": True},
            "code": "found",
            "take_up": {"agent": self.agent, "job": self.job},
            "ready": {"socket": (self.agent or {}).get("socket")},
            "agent": {"pid": 1},
            "stopped": self.stopped,
            "cleared": self.cleared,
        }


def agent_lives() -> HostRefused:
    """What the host says to who would start an agent beside another one of the run."""
    refused = HostRefused("An agent is at r1.1 already.", code="backend_failed")
    refused.host_code = AGENT_LIVES
    return refused


class FakeLine:
    """A login. As with OpenSSH, what is forwarded already is granted again, and nothing made."""

    def __init__(self, host: FakeHost) -> None:
        self.host = host
        self.is_alive = True
        self.folder = host.folder / f"login-{host.logins}"
        self.folder.mkdir()
        self._forwards: set[str] = set()

    def forward(self, remote: str, local: str) -> None:
        if remote not in self._forwards:
            self._forwards.add(remote)
            self.host.sockets.add(remote)

    def cancel_forward(self, remote: str, local: str) -> None:
        self._forwards.discard(remote)

    def run(self, script: str, *, timeout_s: float) -> Any:
        return SimpleNamespace(code=0, out=b"words of the agent")

    def lost(self) -> SshFailed | None:
        return None if self.is_alive else SshFailed("ssh to gpu1 failed: The connection was lost")

    def close(self) -> None:
        self.is_alive = False


class FakeDialogue:
    """A request, as host_dialogue.Dialogue has it."""

    def __init__(self, line: FakeLine, python: str, request: Mapping[str, Any], *_: Any) -> None:
        self._host = line.host
        self._body = line.host.answers(request)
        self.channel = SimpleNamespace(err_tail="", poll=lambda: 0 if line.host.channel_ended else None)

    def __enter__(self) -> FakeDialogue:
        return self

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None: ...

    def hear(self, key: str, timeout_s: float) -> Any:
        return self._body[key]

    def send_line(self, body: Mapping[str, Any]) -> None:
        self._host.sent.append(body)


def host_agent_on(host: FakeHost, monkeypatch: Any, **keys: Any) -> HostAgent:
    """The agent of a run that has its folder on this machine, and nothing else of a server."""
    from potato_ray.backends import host_agent

    monkeypatch.setattr(host_agent, "Dialogue", FakeDialogue)
    archive = SimpleNamespace(sha256="c0de", n_bytes=0, path=None)
    monkeypatch.setattr(host_agent, "host_archive", lambda _: archive)
    folder = host.folder / "runs" / "r1"
    folder.mkdir(parents=True, exist_ok=True)
    login: Any = host.open
    grant = Grant("token", "lease")
    means = Means(lambda run_id, attempt: grant, host.folder / "agents.sock", host.folder, login=login)
    settings = SshSettings(destination=Destination("gpu1"), **keys)
    return HostAgent(Job("r1", 1, folder), "gpu", settings, means)
