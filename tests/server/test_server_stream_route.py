"""The stream over HTTP: where it may begin, and for whom."""

from __future__ import annotations

import contextlib
import threading

import pytest
from feed_clients import parsed

from potato_ray.server import feed as feeds

ROUTE = "/admin/training/api/stream"


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "9" * 30, "٣"])
def test_a_malformed_cursor_is_refused(serve, cursor) -> None:
    client = serve().client
    answers = [client.get(ROUTE, params={"after": cursor})]
    with contextlib.suppress(UnicodeEncodeError):
        answers.append(client.get(ROUTE, headers={"Last-Event-ID": cursor}))
    for answer in answers:
        assert (answer.status_code, answer.json()["error_code"]) == (400, "bad_cursor")
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["next_step"]


def test_an_empty_cursor_is_refused(serve) -> None:
    answer = serve().client.get(ROUTE, params={"after": ""})
    assert (answer.status_code, answer.json()["error_code"]) == (400, "bad_cursor")


def test_the_stream_of_a_run_that_is_not_there_is_refused(serve) -> None:
    answer = serve().client.get(ROUTE, params={"run_id": "nope"})
    assert (answer.status_code, answer.json()["error_code"]) == (404, "unknown_run")


def test_the_stream_of_a_browser_ends_with_its_session(serve, monkeypatch) -> None:
    monkeypatch.setattr(feeds, "HEARTBEAT_S", 0.05)
    served = serve()
    keeper = served.app.state.keeper
    token = keeper.sessions.open()
    served.anonymous.cookies.set(keeper.cookie, token)
    logout = threading.Timer(2.0, keeper.sessions.end, [token])
    logout.start()
    answer = served.anonymous.get(ROUTE)  # comes back when the stream has ended
    assert answer.status_code == 200
    assert [message.event for message in parsed(answer.content)][:2] == ["status", "status"]
    assert served.anonymous.get(ROUTE).status_code == 401


def test_without_the_key_there_is_no_stream(serve) -> None:
    assert serve().anonymous.get(ROUTE).status_code == 401
