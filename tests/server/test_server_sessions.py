"""Sessions of browsers: random, expiring, kept over a restart, and bound to the admin key."""

from __future__ import annotations

import json
import stat

import pytest
from clocks import Clock
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.server.sessions import LIFETIME_S, LIMIT, Sessions


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(tmp_path, clock) -> Sessions:
    return Sessions(tmp_path, "key", clock)


def test_a_session_holds_for_twelve_hours(sessions, clock) -> None:
    token = sessions.open()
    clock.now += LIFETIME_S - 1
    assert sessions.holds(token)
    clock.now += 1
    assert not sessions.holds(token)


def test_an_ended_session_holds_no_more_and_others_do(sessions) -> None:
    first, second = sessions.open(), sessions.open()
    sessions.end(first)
    assert not sessions.holds(first)
    assert sessions.holds(second)
    sessions.end("no session")


def test_a_restart_logs_nobody_out(sessions, tmp_path, clock) -> None:
    token = sessions.open()
    assert Sessions(tmp_path, "key", clock).holds(token)


def test_an_ended_session_stays_ended_over_a_restart(sessions, tmp_path, clock) -> None:
    token = sessions.open()
    sessions.end(token)
    assert not Sessions(tmp_path, "key", clock).holds(token)


def test_another_key_ends_all_sessions(sessions, tmp_path, clock) -> None:
    token = sessions.open()
    assert not Sessions(tmp_path, "another key", clock).holds(token)


def test_the_file_is_private_and_holds_neither_token_nor_key(sessions, tmp_path) -> None:
    token = sessions.open()
    path = tmp_path / "sessions.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text("utf-8")
    assert token not in text
    assert "key" not in text


def test_the_oldest_session_makes_room_for_the_newest(sessions, clock) -> None:
    tokens = []
    for _ in range(LIMIT + 2):
        tokens.append(sessions.open())
        clock.now += 1
    assert [sessions.holds(token) for token in tokens] == [False, False] + [True] * LIMIT


def test_expired_sessions_are_dropped_at_the_next_login(sessions, clock) -> None:
    sessions.open()
    clock.now += LIFETIME_S
    sessions.open()
    assert len(sessions) == 1


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"sessions": 3}', '{"sessions": {"a": "x"}}', '{"sessions": null}', "[" * 9999],
)
def test_a_damaged_file_logs_out_and_breaks_nothing(tmp_path, clock, content) -> None:
    (tmp_path / "sessions.json").write_text(content, "utf-8")
    sessions = Sessions(tmp_path, "key", clock)
    assert len(sessions) == 0
    assert sessions.holds(sessions.open())
    assert json.loads((tmp_path / "sessions.json").read_text("utf-8"))["sessions"]


def test_a_folder_that_cannot_be_written_costs_only_the_restart(tmp_path, clock, caplog) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    sessions = Sessions(tmp_path / "file", "key", clock)
    assert sessions.holds(sessions.open())
    assert "log everybody out" in caplog.text


@given(token=st.text())
def test_no_made_up_token_holds(tmp_path_factory, token) -> None:
    sessions = Sessions(tmp_path_factory.getbasetemp() / "none", "key")
    assert not sessions.holds(token)
