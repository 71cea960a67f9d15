"""What validation found: one Finding per problem, and the Validation that holds them all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from potato_ray.errors import ConfigInvalid

if TYPE_CHECKING:
    from potato_ray.config.models import ProjectConfig

Level = Literal["error", "warning"]
Code = Literal[
    "config_unreadable",
    "not_utf8",
    "syntax",
    "not_a_mapping",
    "too_large",
    "duplicate_key",
    "duplicate_name",
    "unknown_key",
    "missing_key",
    "wrong_type",
    "wrong_value",
    "out_of_range",
    "boolean_label",
    "duplicate_label",
    "unknown_type",
    "data_file_missing",
    "data_file_unreadable",
    "duplicate_id",
    "field_missing",
    "field_differs",
    "unknown_schema",
    "untrainable_schema",
    "unknown_trainer",
    "planned_trainer",
    "not_prefilled",
    "planned_key",
    "bad_params",
    "licence_not_confirmed",
    "unknown_backend",
    "local_only",
    "reserved_name",
    "no_job_python",
    "secret_missing",
    "not_encrypted",
    "long_slurm_time",
    "short_heartbeat",
    "debug_on",
    "acknowledge_too_short",
    "acknowledge_unused",
]
"""What kind of problem it is; docs/configuration.md has a table of them."""


@dataclass(frozen=True)
class Finding:
    """One problem in a configuration.

    `key` is the full dotted key, "" for the file as a whole; `line` counts from 1, None where no line
    can be named. `suggestion` is what to write instead, "" where nothing is close. `code` is stable.
    """

    level: Level
    key: str
    message: str
    line: int | None = None
    suggestion: str = ""
    code: Code = "wrong_value"

    @property
    def text(self) -> str:
        """The finding as one sentence, without its line; acknowledgements are compared with it."""
        # A sentence that people search for may begin with its key.
        named = not self.key or self.message.startswith(self.key)
        hint = f" (did you mean {self.suggestion}?)" if self.suggestion else ""
        return f"{'' if named else self.key + ': '}{self.message}{hint}"

    def as_json(self) -> dict[str, Any]:
        """The fields, and `text`."""
        return {**asdict(self), "text": self.text}

    def __str__(self) -> str:
        return self.text if self.line is None else f"line {self.line}: {self.text}"


@dataclass(frozen=True)
class Validation:
    """The result for one file. `config` is None exactly when there are errors."""

    path: Path
    config: ProjectConfig | None
    findings: tuple[Finding, ...]
    acknowledged: tuple[Finding, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What keeps the server from starting."""
        return tuple(finding for finding in self.findings if finding.level == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What fails only under --strict, without those that were acknowledged."""
        return tuple(finding for finding in self.findings if finding.level == "warning")

    def exit_code(self, strict: bool = False) -> int:
        """0 or 1: errors always fail, warnings only under `strict`."""
        return 1 if self.errors or (strict and self.warnings) else 0

    def as_json(self) -> dict[str, Any]:
        """All of it for `--json`; `ok` says that there are no errors."""
        return {
            "config_file": str(self.path),
            "ok": not self.errors,
            "errors": [finding.as_json() for finding in self.errors],
            "warnings": [finding.as_json() for finding in self.warnings],
            "acknowledged": [finding.as_json() for finding in self.acknowledged],
        }

    def as_text(self, strict: bool = False) -> str:
        """What `potato-ray validate` prints."""
        sections = [
            *_section("ERRORS", self.errors),
            *_section("WARNINGS", self.warnings),
            *_section("ACKNOWLEDGED", self.acknowledged),
        ]
        text = "\n".join([f"Config: {self.path}", "", *sections, self._verdict(strict)])
        # Half a surrogate pair in a value could not be printed.
        return text.encode("utf-8", "backslashreplace").decode("utf-8")

    def _verdict(self, strict: bool) -> str:
        warnings = _counted(len(self.warnings), "warning")
        if self.errors:
            return f"FAILED — {_counted(len(self.errors), 'error')}."
        if self.warnings and strict:
            return f"FAILED — {warnings}; --strict fails on warnings."
        return f"OK with {warnings}." if self.warnings else "OK — no issues found."

    def require(self) -> ProjectConfig:
        """The configuration. Raises ConfigInvalid, which lists every error."""
        if self.config is not None:
            return self.config
        if self.errors[0].code == "config_unreadable":
            raise ConfigInvalid(self.errors[0].message, next_step="Name the project's configuration file.")
        raise ConfigInvalid(
            f"{self.path} has {_counted(len(self.errors), 'error')}.",
            evidence="\n" + "\n".join(f"- {finding}" for finding in self.errors) + "\n",
            next_step="Correct the file; `potato-ray validate` checks it again.",
        )


def _section(title: str, findings: Iterable[Finding]) -> list[str]:
    lines = [f"  - {finding}" for finding in findings]
    return [f"{title}:", *lines, ""] if lines else []


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
