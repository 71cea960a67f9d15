"""Talking over stdin and stdout: JSON lines, and failures. Of stdin not a byte is taken too early."""

from __future__ import annotations

import json
import os
import select
from typing import Any, Mapping

INPUT_S = 60.0
"""How long a line or a piece of the archive may take to come."""
MOST_LINE_BYTES = 16 << 20


class Failed(Exception):
    """Why a request ends here; it is said as {"error": {"code", "message", "evidence", "next_step"}}."""

    def __init__(self, code: str, message: str, evidence: str = "", next_step: str = "") -> None:
        super().__init__(message)
        self.body = {"code": code, "message": message, "evidence": evidence, "next_step": next_step}


def say(body: Mapping[str, Any]) -> None:
    """Write one line to stdout. Raises OSError when nobody listens any more."""
    data = json.dumps(body).encode("ascii") + b"\n"
    while data:
        data = data[os.write(1, data) :]


def read_some(most: int, timeout_s: float = INPUT_S) -> bytes:
    """At least one byte of stdin, and at most `most`. Raises Failed (no_input) at its end, or too late."""
    if not select.select([0], [], [], timeout_s)[0]:
        raise Failed("no_input", f"Nothing more came over the connection for {timeout_s:.0f} s.")
    piece = os.read(0, most)
    if not piece:
        raise Failed("no_input", "The connection ended before all had come.")
    return piece


def read_line(timeout_s: float = INPUT_S) -> Any:
    """The object in the next line of stdin, of which not a byte more is taken. Raises Failed."""
    line = bytearray()
    while not line.endswith(b"\n"):
        if len(line) > MOST_LINE_BYTES:
            raise Failed("bad_input", f"A line came that is longer than {MOST_LINE_BYTES} bytes.")
        line += read_some(1, timeout_s)
    try:
        body = json.loads(bytes(line).decode("utf-8"))
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Failed("bad_input", "A line came that holds no JSON object.")
    return body
