"""Every error that potato_ray raises on the server's side.

    PotatoRayError
    ├── ConfigInvalid      the configuration has errors; carries every finding
    ├── ProjectUnreadable  the project on disk cannot be used as it is
    ├── ProjectUnwritable  nothing can be written into the project: its disk is full, read-only, broken
    ├── StartRefused       a start was refused at once (API: 400, 409 or 429)
    ├── RunFailed          a run ends as error; its code is one of the run's error codes
    ├── Cancelled          the work was stopped on request
    ├── NotFound           no such run, backend, artifact
    └── Conflict           the present state forbids it (wrong attempt, ended run, second server)
        └── NotSent        a command found no controller to take it

An error says what happened (`message`), what shows it (`evidence`) and what to do next
(`next_step`). `code` is stable: the API, the CLI and docs/errors.md use it.
"""

from __future__ import annotations

import errno
from typing import Any


class PotatoRayError(Exception):
    """Base of all errors of ours: message, evidence and next step are whole sentences."""

    default_code = "error"

    def __init__(self, message: str, *, code: str = "", evidence: str = "", next_step: str = "") -> None:
        super().__init__(message, code, evidence, next_step)
        self.message = message
        self.code = code or self.default_code
        self.evidence = evidence
        self.next_step = next_step

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only arguments would be lost when Ray pickles the error.
        return _rebuild, (type(self), self.message, self.code, self.evidence, self.next_step)

    def __str__(self) -> str:
        return " ".join(part for part in (self.message, self.evidence, self.next_step) if part)

    def as_dict(self) -> dict[str, str]:
        """The four parts, for JSON answers."""
        return {
            "error": self.message,
            "error_code": self.code,
            "evidence": self.evidence,
            "next_step": self.next_step,
        }


def _rebuild(
    kind: type[PotatoRayError], message: str, code: str, evidence: str, next_step: str
) -> PotatoRayError:
    return kind(message, code=code, evidence=evidence, next_step=next_step)


class ConfigInvalid(PotatoRayError):
    """The configuration has at least one error; `potato-ray validate` lists all of them."""

    default_code = "config_invalid"


class ProjectUnreadable(PotatoRayError):
    """The project's files cannot be used as they are (duplicate ids, no data file, ...)."""

    default_code = "project_unreadable"


class ProjectUnwritable(PotatoRayError):
    """Nothing can be written into the project at present, and nothing was.

    Its code is disk_full or project_unwritable.
    """

    default_code = "project_unwritable"

    @classmethod
    def because(cls, failure: OSError, where: object) -> ProjectUnwritable:
        """The error for what the operating system says of the file or folder `where`."""
        evidence = f"{where}: {failure.strerror or type(failure).__name__}."
        return cls.full(evidence) if failure.errno in FULL else cls.forbidden(evidence)

    @classmethod
    def full(cls, evidence: str) -> ProjectUnwritable:
        """The error for a disk without space."""
        return cls(
            "The disk of the project is full.",
            code="disk_full",
            evidence=evidence,
            next_step="Free some space there and try again.",
        )

    @classmethod
    def forbidden(cls, evidence: str) -> ProjectUnwritable:
        """The error for a disk that takes nothing, whatever is free on it."""
        return cls(
            "The project cannot be written to.",
            code="project_unwritable",
            evidence=evidence,
            next_step="Look whether its disk is mounted read-only or broken, and who owns task_dir.",
        )


FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What the operating system says when a disk, or somebody's share of it, is used up."""


class StartRefused(PotatoRayError):
    """A start that is refused at once; docs/errors.md lists the codes and their HTTP status."""

    default_code = "bad_params"


class RunFailed(PotatoRayError):
    """A run that ends in state error; `code` is the run's error_code."""

    default_code = "backend_failed"


class Cancelled(PotatoRayError):
    """Work that stopped because somebody asked for it."""

    default_code = "cancelled"


class NotFound(PotatoRayError):
    """The thing that was named does not exist."""

    default_code = "not_found"


class Conflict(PotatoRayError):
    """The present state forbids what was asked."""

    default_code = "conflict"


class NotSent(Conflict):
    """There was no controller that a command could be sent to, so nothing has come of it."""

    default_code = "controller_restarting"
