"""The agent's token: from a file or the environment, and out of the environment at once."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import MutableMapping

from potato_ray.agent.errors import AgentMisconfigured

VARIABLE = "POTATO_TRAINING_TOKEN"
_LONGEST_BYTES = 4096
_ADVICE = f"Put the token that `register` printed into {VARIABLE}, or into a file for --token-file."


def read_token(token_file: Path | None = None, environment: MutableMapping[str, str] | None = None) -> str:
    """The token in `token_file`, or else in the environment, from which it is removed either way.

    Call it before anything is started: children inherit the environment. Raises AgentMisconfigured.
    """
    from_environment = (os.environ if environment is None else environment).pop(VARIABLE, None)
    if token_file is not None:
        return check_token(_without_line_end(_read(token_file)), f"The token in {token_file}")
    if from_environment is None:
        raise AgentMisconfigured("The agent has no token.", code="no_token", next_step=_ADVICE)
    return check_token(_without_line_end(from_environment), f"The token in {VARIABLE}")


def read_again(token_file: Path) -> str | None:
    """The token that is in the file now; None where it was a pipe, which says nothing twice.

    Raises AgentMisconfigured.
    """
    try:
        if not stat.S_ISREG(token_file.stat().st_mode):
            return None
    except OSError as failure:
        raise _unusable(f"The token file {token_file} cannot be read: {failure.strerror}.") from failure
    return check_token(_without_line_end(_read(token_file)), f"The token in {token_file}")


def check_token(token: str, what: str) -> str:
    """The token, if it can be one: visible ASCII without blanks. Raises AgentMisconfigured, without it."""
    if not token:
        raise _unusable(f"{what} is empty.")
    if not all("!" <= each <= "~" for each in token):
        raise _unusable(f"{what} holds blanks, line ends or characters that no token has.")
    return token


def _read(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            _check_mode(os.fstat(handle.fileno()), path)
            raw = handle.read(_LONGEST_BYTES + 1)
    except OSError as failure:
        raise _unusable(f"The token file {path} cannot be read: {failure.strerror}.") from failure
    if len(raw) > _LONGEST_BYTES:
        raise _unusable(f"The token file {path} holds more than {_LONGEST_BYTES} bytes, so no token.")
    return raw.decode("ascii", "replace")


def _check_mode(found: os.stat_result, path: Path) -> None:
    # A pipe, as in --token-file <(command), has no mode that would say anything.
    if stat.S_ISREG(found.st_mode) and found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise AgentMisconfigured(
            f"The token file {path} can be read or changed by others: its mode is {mode:04o}.",
            code="token_file_open",
            next_step=f"Run: chmod 600 {path}",
        )


def _without_line_end(text: str) -> str:
    if text.endswith("\n"):
        text = text[:-1]
    return text[:-1] if text.endswith("\r") else text


def _unusable(message: str) -> AgentMisconfigured:
    return AgentMisconfigured(message, code="bad_token", next_step=_ADVICE)
