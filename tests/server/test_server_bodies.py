"""Bodies of a start, whatever they hold: a documented answer, and never a run that should not be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from run_history import RUNS

MANY = settings(max_examples=150, suppress_health_check=list(HealthCheck))
STATUSES = {400, 409, 413, 415, 429}
KEYS = ["trainer", "schemas", "params", "backend", "accept_licence", "queue"]

leaf = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(["sklearn-text", "sentiment", "local", "min_instances", "true", "1"])
)
anything = st.recursive(
    leaf, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)
starts = st.fixed_dictionaries(
    {},
    optional={
        "trainer": st.just("sklearn-text") | anything,
        "schemas": st.sampled_from(["sentiment", ["sentiment"]]) | anything,
        "params": st.dictionaries(st.just("min_instances") | st.text(max_size=9), leaf, max_size=2)
        | anything,
        "backend": st.just("local") | anything,
        "accept_licence": anything,
        "queue": st.booleans() | anything,
    },
)


@pytest.fixture
def served(serve) -> Any:
    return serve(queue_max=3)


def fits(body: Any) -> bool:
    """Whether a run of this project may come of a body, written apart from the code that decides it."""
    if not isinstance(body, dict) or not set(body) <= set(KEYS):
        return False
    schemas = body.get("schemas")
    params = body.get("params", {})
    names = [schemas] if isinstance(schemas, str) else schemas
    return (
        body.get("trainer") == "sklearn-text"
        and isinstance(names, list)
        and bool(names)
        and all(name == "sentiment" for name in names)
        and isinstance(params, dict)
        and body.get("backend") in (None, "", "local")
        and all(isinstance(body.get(name, True), bool) for name in ("accept_licence", "queue"))
    )


def post(served: Any, content: bytes, kind: str = "application/json") -> Any:
    """The answer, which is a documented one; a start that was accepted is cancelled again."""
    before = len(served.reader.runs(500))
    answer = served.client.post(RUNS, content=content, headers={"Content-Type": kind})
    body = answer.json()
    made = len(served.reader.runs(500)) - before
    if answer.status_code in (200, 202):
        assert body["started"] is True
        assert made == 1
        served.client.post(f"{RUNS}/{body['run_id']}/cancel")
        return answer
    assert answer.status_code in STATUSES
    assert answer.headers["content-type"] == "application/problem+json"
    assert (body["started"], body["status"], made) == (False, answer.status_code, 0)
    assert body["error"]
    assert body["error_code"]
    assert body["next_step"]
    return answer


@pytest.mark.parametrize("bodies", [anything, starts], ids=["anything", "nearly a start"])
def test_no_body_starts_what_should_not_be_and_every_answer_is_documented(served, bodies: Any) -> None:
    @MANY
    @given(body=bodies)
    @example(body={"trainer": "sklearn-text", "schemas": ["sentiment"]})
    @example(body={"trainer": "sklearn-text", "schemas": ["sentiment"], "params": {"min_instances": 10**400}})
    def try_one(body: Any) -> None:
        answer = post(served, json.dumps(body).encode())
        if answer.status_code == 200:
            assert fits(body)

    try_one()


def test_a_run_that_was_accepted_has_what_the_body_asked_for(served) -> None:
    @settings(max_examples=30, suppress_health_check=list(HealthCheck))
    @given(number=st.integers(1, 10**6), text=st.sampled_from(["sentiment", ["sentiment"]]))
    def try_one(number: int, text: Any) -> None:
        body = {"trainer": "sklearn-text", "schemas": text, "params": {"min_instances": number}}
        run = served.reader.run(post(served, json.dumps(body).encode()).json()["run_id"])
        assert (run.schemas, run.params) == (("sentiment",), {"min_instances": number})

    try_one()


def test_bytes_that_are_no_json_are_refused(served) -> None:
    @MANY
    @given(content=st.binary(max_size=200))
    def try_one(content: bytes) -> None:
        post(served, content)

    try_one()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"NaN",
        b'{"trainer": NaN}',
        b'{"trainer": "\\ud800", "schemas": ["sentiment"]}',
        b'{"trainer": "sklearn-text", "schemas": ["\\u0000"]}',
        b'{"trainer": "sklearn-text", "schemas": ["sentiment"], "params": {"min_instances": 1e999}}',
        b'{"trainer": "sklearn-text", "schemas": ["sentiment"], "params": {"min_instances": '
        + b"9" * 5000
        + b"}}",
        b'{"trainer": ' + b"[" * 30000 + b"]" * 30000 + b"}",
        b"\xff\xfe{\x00}\x00",
        b'\xef\xbb\xbf{"trainer": "sklearn-text"}',
    ],
)
def test_a_malformed_body_is_refused_with_400(served, content: bytes) -> None:
    assert post(served, content).status_code == 400


def test_a_body_larger_than_any_start_is_refused_with_413(served) -> None:
    body = json.dumps({"trainer": "x" * 3_000_000, "schemas": ["sentiment"]}).encode()
    assert post(served, body).status_code == 413


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_a_body_of_another_kind_is_refused_with_415(served, kind: str) -> None:
    assert post(served, b'{"trainer": "sklearn-text", "schemas": ["sentiment"]}', kind).status_code == 415


@pytest.mark.parametrize(
    ("path", "status"), [("/health", 405), ("/static/style.css", 405), ("/nowhere", 404)]
)
def test_the_body_of_what_no_route_takes_is_not_looked_at(serve, path: str, status: int) -> None:
    answer = serve().anonymous.post(path, content=b"[", headers={"Content-Type": "application/json"})
    assert answer.status_code == status
