"""What stands before the routes: the form of a request, the switch of the project, the origin."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

KEY = "the-admin-key-of-the-tests"
RUNS = "/admin/training/api/runs"


def code_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error_code"]


@pytest.mark.parametrize(
    "path", ["/admin/training", "/admin/training/runs/x", RUNS, "/api/training/jobs/claim", "/api/training"]
)
def test_a_project_without_training_has_none_of_its_routes(serve, path) -> None:
    served = serve(enabled=False)
    for client in (served.anonymous, served.client):
        answer = client.get(path)
        assert code_of(answer) == (404, "training_disabled")
        assert "model_training.enabled" in answer.json()["next_step"]


def test_no_key_is_looked_at_where_training_is_disabled(serve) -> None:
    served = serve(enabled=False)
    for n in range(9):
        answer = served.anonymous.get(RUNS, headers={"X-API-Key": f"{n}"})
        assert code_of(answer) == (404, "training_disabled")


def test_health_and_login_stay_where_training_is_disabled(serve) -> None:
    anonymous = serve(enabled=False).anonymous
    assert [anonymous.get(path).status_code for path in ("/health", "/admin/login")] == [200, 200]


def test_neighbours_of_the_switched_routes_are_not_switched(serve) -> None:
    assert code_of(serve(enabled=False).client.get("/admin/trainings")) == (404, "not_found")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "ODD"])
@pytest.mark.parametrize(
    "origin", ["null", "http://evil.example", "https://testserver", "http://testserver:81"]
)
def test_a_foreign_page_changes_nothing(serve, method, origin) -> None:
    answer = serve().client.request(method, f"{RUNS}/x/predictions", headers={"Origin": origin})
    assert code_of(answer) == (403, "cross_origin")


def test_a_foreign_referer_without_an_origin_is_a_foreign_page(serve) -> None:
    answer = serve().client.post(RUNS, headers={"Referer": "http://evil.example/"})
    assert code_of(answer) == (403, "cross_origin")


def test_our_own_page_and_a_program_get_to_the_route(serve) -> None:
    client = serve().client
    own = client.post(RUNS, json={"trainer": "none"}, headers={"Origin": "http://testserver"})
    program = client.post(RUNS, json={"trainer": "none"})
    assert own.status_code == program.status_code == 400


def test_a_foreign_page_may_look_as_far_as_browsers_let_it(serve) -> None:
    answer = serve().client.get(RUNS, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("host", ["a b", "a/b", "user@a", "a:b", "é".encode()])
def test_a_host_that_is_none_is_refused(serve, host) -> None:
    answer = serve().client.get("/health", headers={"Host": host})
    assert code_of(answer) == (400, "bad_host")


def test_addresses_and_headers_have_their_limits(serve) -> None:
    client = serve().client
    assert code_of(client.get("/health?" + "a" * 17_000)) == (414, "address_too_long")
    assert code_of(client.get("/health", headers={"X-Long": "a" * 70_000})) == (431, "headers_too_long")


def test_a_nul_character_is_found_nowhere(serve) -> None:
    client = serve().client
    assert code_of(client.get(f"{RUNS}?trainer=%00")) == (400, "malformed_request")
    assert code_of(client.get(f"{RUNS}/a%00b")) == (404, "not_found")


def test_a_browser_gets_a_page_and_a_program_gets_json(serve) -> None:
    client = serve().client
    page = client.get("/nowhere", headers={"Accept": "text/html,*/*"})
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert '<a href="/admin/training">The Training page</a>' in page.text
    assert "not_found" in page.text
    assert client.get("/nowhere").headers["content-type"] == "application/problem+json"
    api = client.get("/admin/training/api/nowhere", headers={"Accept": "text/html"})
    assert api.headers["content-type"] == "application/problem+json"


def test_the_page_of_a_problem_says_nothing_of_the_project_to_strangers(serve) -> None:
    served = serve()
    page = served.anonymous.get("/nowhere", headers={"Accept": "text/html"})
    assert served.config.annotation_task_name not in page.text
    assert "Log out" not in page.text


HEADER = st.text(st.characters(min_codepoint=1, max_codepoint=255, blacklist_characters="\r\n"), max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    name=st.sampled_from(
        ["Origin", "Referer", "Host", "Cookie", "Content-Type", "X-API-Key", "Accept", "Range"]
    ),
    value=HEADER,
    method=st.sampled_from(["GET", "POST", "DELETE"]),
)
def test_no_header_brings_the_server_to_its_knees(serve_once, name, value, method) -> None:
    headers = {"X-API-Key": KEY.encode(), name: value.encode("latin-1")}
    answer = serve_once.anonymous.request(method, RUNS, headers=headers)
    assert answer.status_code < 500


@pytest.fixture
def serve_once(serve):
    return serve()
