"""docs/security.md says what the server does."""

from __future__ import annotations

from pathlib import Path

import pytest

from potato_ray.server import bodies, connections, gate, sessions, shields, throttle

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "value"),
    [("Content-Security-Policy", shields.CONTENT_SECURITY_POLICY), *shields.HEADERS.items()],
)
def test_every_header_is_told_as_it_is_sent(name, value) -> None:
    assert f"    {name}: {value}\n" in PAGE


def test_the_limits_are_those_of_the_code() -> None:
    assert (bodies.LIMIT, bodies.TIMEOUT_S, bodies.DEPTH) == (1024**2, 60, 64)
    assert (connections.HEAD_S, connections.STALL_S) == (30, 60)
    assert (gate.LONGEST_ADDRESS, gate.MOST_HEADERS) == (16 * 1024, 64 * 1024)
    for told in ("| 1 MiB,", "| 30 s |", "| 60 s |", "| 64 levels |", "| 16 KiB |", "| 64 KiB |"):
        assert told in PAGE


def test_guesses_and_sessions_are_told_as_they_are() -> None:
    assert (throttle.GUESSES, throttle.WINDOW_S) == (5, 60)
    assert "five wrong keys from one address within a minute" in PAGE
    assert (sessions.LIFETIME_S, sessions.LIMIT) == (12 * 3600, 100)
    assert "12 hours" in PAGE
    assert "At most 100 sessions" in PAGE
