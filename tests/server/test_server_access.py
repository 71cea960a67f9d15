"""Who is let in, and what everybody else is told."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.server.access import Keeper
from potato_ray.server.app import create_app
from potato_ray.server.context import ServerContext
from potato_ray.server.problems import Rejected
from potato_ray.server.throttle import Throttle

KEY = "the-admin-key-of-the-tests"
RUNS = "/admin/training/api/runs"
PAGE = "/admin/training"


def here(served: Any, host: str = "127.0.0.1", url: str = "http://127.0.0.1:8000") -> TestClient:
    """A browser that is on this machine."""
    return TestClient(served.app, url, client=(host, 5000), raise_server_exceptions=False)


def code_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error_code"]


def test_the_key_in_the_header_opens_the_api(serve) -> None:
    assert serve().client.get(RUNS).status_code == 200


def test_without_anything_the_api_says_what_it_needs(serve) -> None:
    answer = serve().anonymous.get(RUNS)
    assert code_of(answer) == (401, "admin_key_required")
    assert "X-API-Key" in answer.json()["next_step"]
    assert answer.headers["www-authenticate"].startswith("ApiKey")


def test_a_wrong_key_is_told_to_be_wrong(serve) -> None:
    answer = serve().anonymous.get(RUNS, headers={"X-API-Key": KEY + "x"})
    assert code_of(answer) == (403, "admin_key_wrong")


def test_an_empty_header_is_no_guess(serve) -> None:
    served = serve()
    for _ in range(9):
        assert code_of(served.anonymous.get(RUNS, headers={"X-API-Key": ""})) == (401, "admin_key_required")


def test_the_right_key_beside_a_wrong_one_is_no_key(serve) -> None:
    headers = [("X-API-Key", "wrong"), ("X-API-Key", KEY)]
    assert serve().anonymous.get(RUNS, headers=headers).status_code == 403


def test_what_lies_below_admin_is_closed_whether_it_exists_or_not(serve) -> None:
    anonymous = serve().anonymous
    paths = ["/admin/training/api/nowhere", "/admin/model-review", "/admin/nowhere", "/admin/training/api"]
    assert [anonymous.get(path).status_code for path in paths] == [401] * 4


def test_the_key_is_asked_for_before_the_body_is_looked_at(serve) -> None:
    answer = serve().anonymous.post(RUNS, content=b"{", headers={"Content-Type": "text/plain"})
    assert code_of(answer) == (401, "admin_key_required")
    assert answer.json()["started"] is False


def test_health_and_the_pages_files_need_no_key(serve) -> None:
    anonymous = serve().anonymous
    assert [anonymous.get(path).status_code for path in ("/health", "/static/style.css")] == [200, 200]


@pytest.mark.parametrize(
    "path", ["/admin/training", "/admin/training/runs/abc", "/admin/training?status=error"]
)
def test_a_page_without_access_leads_to_the_login_and_back(serve, path) -> None:
    answer = serve().anonymous.get(path, follow_redirects=False)
    assert answer.status_code == 302
    led_to = urlsplit(answer.headers["location"])
    assert led_to.path == "/admin/login"
    assert parse_qs(led_to.query)["next"] == [path]


def test_a_page_that_is_asked_for_in_another_way_is_refused_plainly(serve) -> None:
    assert code_of(serve().anonymous.post(PAGE)) == (401, "admin_key_required")


# Guesses


def test_five_wrong_keys_make_their_address_wait_even_with_the_right_one(serve) -> None:
    served = serve()
    clock = SimpleNamespace(now=0.0)
    served.app.state.keeper.throttle = Throttle(lambda: clock.now)
    wrong = [served.anonymous.get(RUNS, headers={"X-API-Key": f"{n}"}).status_code for n in range(5)]
    assert wrong == [403] * 5
    answer = served.client.get(RUNS)
    assert code_of(answer) == (429, "too_many_guesses")
    assert answer.headers["retry-after"] == "60"
    clock.now = 60.0
    assert served.client.get(RUNS).status_code == 200


def test_another_address_does_not_wait(serve) -> None:
    served = serve()
    for n in range(6):
        served.anonymous.get(RUNS, headers={"X-API-Key": f"{n}"})
    assert here(served, "192.0.2.1").get(RUNS, headers={"X-API-Key": KEY}).status_code == 200


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=3))
def test_any_bytes_are_a_wrong_key(values) -> None:
    context: Any = SimpleNamespace(
        admin_key="schlüssel", config=SimpleNamespace(debug=False, task_dir="/srv/study")
    )
    keeper = Keeper(context, SimpleNamespace(), Throttle())  # type: ignore[arg-type]
    scope = {"type": "http", "headers": [(b"x-api-key", value) for value in values], "client": None}
    with pytest.raises(Rejected) as refusal:
        keeper.admit(SimpleNamespace(scope=scope, cookies={}))  # type: ignore[arg-type]
    assert refusal.value.code == "admin_key_wrong"


def test_a_key_beyond_ascii_is_recognised_in_utf_8(serve) -> None:
    served = serve()
    served.app.state.keeper._key = "schlüssel".encode()
    assert served.anonymous.get(RUNS, headers={"X-API-Key": "schlüssel".encode()}).status_code == 200


def test_a_server_without_a_key_lets_nobody_in_by_an_empty_one(serve) -> None:
    served = serve()
    served.app.state.keeper._key = b""
    assert served.anonymous.post("/admin/login", data={"key": ""}).status_code == 403
    assert served.anonymous.get(RUNS, headers={"X-API-Key": ""}).status_code == 401


# The debugging switch of the configuration


@pytest.fixture
def debugging(serve):
    served = serve()
    config = served.config.model_copy(update={"debug": True})
    app = create_app(ServerContext(config, served.reader, served.controller, admin_key=KEY))
    return SimpleNamespace(app=app, anonymous=TestClient(app))


@pytest.mark.parametrize("url", ["http://localhost:8000", "http://127.0.0.1:8000", "http://[::1]:8000"])
def test_debug_lets_this_machine_in(debugging, url) -> None:
    assert here(debugging, url=url).get(RUNS).status_code == 200
    assert here(debugging, "::1", url=url).get(PAGE).status_code == 200


def test_debug_lets_nobody_else_in(debugging) -> None:
    assert here(debugging, "192.0.2.1").get(RUNS).status_code == 401
    assert here(debugging, url="http://evil.example:8000").get(RUNS).status_code == 401
    assert here(debugging).get(RUNS, headers={"X-Forwarded-For": "127.0.0.1"}).status_code == 401
    assert debugging.anonymous.get(RUNS).status_code == 401


def test_debug_does_not_believe_a_wrong_key_or_a_foreign_page(debugging) -> None:
    assert code_of(here(debugging).get(RUNS, headers={"X-API-Key": "wrong"})) == (403, "admin_key_wrong")
    answer = here(debugging).post(RUNS, json={}, headers={"Origin": "http://evil.example"})
    assert code_of(answer) == (403, "cross_origin")


def test_debug_never_lets_in_what_comes_over_a_unix_socket(debugging) -> None:
    assert status_of_raw(debugging.app, client=None) == 401
    assert status_of_raw(debugging.app, client=("127.0.0.1", 5)) == 200


def test_without_debug_this_machine_is_like_any_other(serve) -> None:
    assert here(serve()).get(RUNS).status_code == 401


def status_of_raw(app: Any, *, client: Any) -> int:
    """The status of a GET whose ASGI scope is given, as a server on a unix socket gives it."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": RUNS,
        "raw_path": RUNS.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": client,
        "server": None,
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return int(sent[0]["status"])
