"""Every error of the agent.

    AgentError
    ├── ServerUnreachable     no answer, or none that counts: the same request may succeed later
    │   └── Misdirected       something answered that is not the server: a redirect, a page, another address
    ├── Refused               the server's problem answer to a request
    │   ├── WrongToken        401
    │   └── ProtocolMismatch  server and agent speak different versions
    ├── Stopped               a wait ended because it was told to
    ├── DownloadFailed        a file did not come whole, however often it was asked for
    ├── ArchiveRefused        an archive holds what is not unpacked
    ├── DiskFull              there is no space for what has to be written
    └── AgentMisconfigured    the agent was started with something that cannot work
        └── OtherBackend      its token is that of another backend

An error says what happened (`message`), what shows it (`evidence`) and what to do next (`next_step`); `code`
is stable. None of them ever holds the token or a lease.
"""

from __future__ import annotations

from typing import Any, Mapping

from potato_ray.agent.protocol import STALE, UNKNOWN_RUN, VERSION


class AgentError(Exception):
    """Base of all errors of the agent: message, evidence and next step are whole sentences."""

    default_code = "agent_failed"

    def __init__(self, message: str, *, code: str = "", evidence: str = "", next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.evidence = evidence
        self.next_step = next_step

    def __str__(self) -> str:
        return " ".join(part for part in (self.message, self.evidence, self.next_step) if part)

    def as_failure(self) -> dict[str, str]:
        """The `failure` of a result request."""
        message = " ".join(part for part in (self.message, self.evidence) if part)
        return {"code": self.code, "message": message, "next_step": self.next_step}


class ServerUnreachable(AgentError):
    """The request did not get the server's answer; try again, after `retry_after_s` where that was said."""

    default_code = "server_unreachable"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        evidence: str = "",
        next_step: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, code=code, evidence=evidence, next_step=next_step)
        self.retry_after_s = retry_after_s


class Misdirected(ServerUnreachable):
    """What answered is no server of ours: a proxy's page, a redirect, a wrong address or prefix."""

    default_code = "not_our_server"


class Refused(AgentError):
    """The server refused the request. `body` is the whole problem answer, {} when it was none."""

    default_code = "refused"

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str = "",
        evidence: str = "",
        next_step: str = "",
        body: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, code=code, evidence=evidence, next_step=next_step)
        self.status = status
        self.body: dict[str, Any] = dict(body or {})

    @property
    def lets_go(self) -> bool:
        """Whether the server says of the run that this agent has it no longer."""
        return (self.status, self.code) in ((404, UNKNOWN_RUN), (409, STALE))


class WrongToken(Refused):
    """The server does not know the token, or not for this run."""

    default_code = "wrong_token"


class ProtocolMismatch(Refused):
    """Server and agent speak different versions of the protocol; `theirs` is "" where it was not said."""

    default_code = "unknown_protocol"

    def __init__(self, status: int, theirs: str, *, evidence: str = "", body: Any = None) -> None:
        spoken = f"version {theirs}" if theirs else "another version"
        super().__init__(
            status,
            f"This agent speaks version {VERSION} of the protocol, and the server {spoken}.",
            evidence=evidence,
            next_step="Take the agent that the server offers: /api/training/agent.pyz.",
            body=body,
        )
        self.theirs = theirs


class Stopped(AgentError):
    """The wait was ended from inside: the agent is stopping, or the job is no longer wanted."""

    default_code = "stopped"


class DownloadFailed(AgentError):
    """A file did not arrive whole and undamaged."""

    default_code = "download_failed"


class ArchiveRefused(AgentError):
    """An archive is damaged, or holds what is not unpacked; nothing of it is left on the disk."""

    default_code = "archive_refused"


class DiskFull(AgentError):
    """There is not enough space on the agent's disk."""

    default_code = "disk_full"


class AgentMisconfigured(AgentError):
    """An option or a file given to the agent cannot be used."""

    default_code = "agent_misconfigured"


class OtherBackend(AgentMisconfigured):
    """The token is that of another backend than the agent was started for."""

    default_code = "other_backend"
