"""The key form, its session, and the way back."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from potato_ray.server.app import create_app
from potato_ray.server.context import ServerContext

KEY = "the-admin-key-of-the-tests"
RUNS = "/admin/training/api/runs"


@pytest.fixture
def served(serve):
    return serve()


def log_in(client: TestClient, key: str = KEY, next: str | None = None, **headers: str) -> Any:  # noqa: A002
    data = {"key": key} | ({} if next is None else {"next": next})
    return client.post("/admin/login", data=data, headers=headers, follow_redirects=False)


def test_the_form_asks_for_the_key_and_carries_the_destination(served) -> None:
    answer = served.anonymous.get("/admin/login?next=/admin/training/runs/abc")
    assert answer.status_code == 200
    assert 'type="password"' in answer.text
    assert 'value="/admin/training/runs/abc"' in answer.text
    assert served.config.annotation_task_name not in answer.text


def test_the_form_names_every_place_of_the_key_in_their_order(served) -> None:
    text = served.anonymous.get("/admin/login").text
    places = [text.index(name) for name in ("admin_api_key<", "POTATO_ADMIN_API_KEY<", "admin_api_key.txt<")]
    assert places == sorted(places)


def test_the_right_key_opens_a_session_and_leads_on(served) -> None:
    answer = log_in(served.anonymous, next="/admin/training/runs/abc")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/admin/training/runs/abc"
    assert served.anonymous.get(RUNS).status_code == 200
    assert served.anonymous.get("/admin/training").status_code == 200


def test_blanks_around_a_pasted_key_do_not_matter(served) -> None:
    assert log_in(served.anonymous, f" {KEY}\n").status_code == 303


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(served) -> None:
    attributes = log_in(served.anonymous).headers["set-cookie"].lower().split("; ")
    assert {"httponly", "samesite=lax", "path=/", "max-age=43200"} <= set(attributes)
    assert "secure" not in attributes
    assert KEY not in "".join(attributes)


def test_the_cookie_is_secure_where_the_request_was(served) -> None:
    client = TestClient(served.app, "https://testserver")
    assert "secure" in log_in(client).headers["set-cookie"].lower().split("; ")


def test_a_wrong_key_is_told_on_the_form(served) -> None:
    answer = log_in(served.anonymous, "wrong", "/admin/training/runs/abc")
    assert answer.status_code == 403
    assert "That key was not recognised." in answer.text
    assert 'value="/admin/training/runs/abc"' in answer.text
    assert "set-cookie" not in answer.headers


def test_too_many_guesses_in_the_form_wait_and_sessions_go_on(served) -> None:
    logged_in = TestClient(served.app)
    log_in(logged_in)
    for n in range(5):
        assert log_in(served.anonymous, f"{n}").status_code == 403
    answer = log_in(served.anonymous)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
    assert "Try again in" in answer.text
    assert served.client.get(RUNS).status_code == 429
    assert logged_in.get(RUNS).status_code == 200


@pytest.mark.parametrize(
    "next", ["//evil.example", "\\\\evil.example", "http://evil.example", "/%5cevil", ""]
)
def test_the_login_leads_to_no_other_site(served, next) -> None:  # noqa: A002
    assert log_in(served.anonymous, next=next).headers["location"] == "/admin/training"


def test_the_login_of_a_foreign_page_is_refused(served) -> None:
    answer = log_in(served.anonymous, Origin="http://evil.example")
    assert answer.status_code == 403
    assert answer.json()["error_code"] == "cross_origin"
    assert log_in(served.anonymous, Origin="http://testserver").status_code == 303


def test_logging_out_ends_the_session_on_the_server(served) -> None:
    log_in(served.anonymous)
    kept = dict(served.anonymous.cookies)
    answer = served.anonymous.post("/admin/logout", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin/login")
    assert not served.anonymous.cookies
    ended = TestClient(served.app, cookies=kept).get(RUNS)
    assert (ended.status_code, ended.json()["error_code"]) == (401, "admin_key_required")
    assert "ended" in ended.json()["evidence"]


def test_logging_in_again_ends_the_former_session(served) -> None:
    log_in(served.anonymous)
    former = dict(served.anonymous.cookies)
    log_in(served.anonymous)
    assert TestClient(served.app, cookies=former).get(RUNS).status_code == 401
    assert served.anonymous.get(RUNS).status_code == 200


def test_a_session_outlives_the_server_and_not_the_key(served) -> None:
    log_in(served.anonymous)
    cookies = dict(served.anonymous.cookies)
    for key, status in ((KEY, 200), ("another key", 401)):
        context = ServerContext(served.config, served.reader, served.controller, admin_key=key)
        assert TestClient(create_app(context), cookies=cookies).get(RUNS).status_code == status


def test_two_projects_on_one_machine_keep_their_cookies_apart(serve) -> None:
    first, second = serve(), serve("shapes")
    assert first.app.state.keeper.cookie != second.app.state.keeper.cookie


def test_the_form_takes_urlencoded_text_alone(served) -> None:
    for kind, status in (("application/json", 415), ("multipart/form-data; boundary=x", 415)):
        answer = served.anonymous.post("/admin/login", content=b"{}", headers={"Content-Type": kind})
        assert answer.status_code == status


def test_an_empty_form_holds_no_key(served) -> None:
    assert served.anonymous.post("/admin/login").status_code == 403


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.binary(max_size=80))
def test_any_form_is_answered(served, body) -> None:
    answer = served.anonymous.post(
        "/admin/login", content=body, headers={"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert answer.status_code in (400, 403, 429)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.text(max_size=40))
def test_any_destination_makes_a_form(served, wanted) -> None:
    assert served.anonymous.get("/admin/login", params={"next": wanted}).status_code in (200, 400)
