"""The operations of agents against their description: no 5xx, no undocumented status, type or body."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from agent_calls import AgentCalls
from agent_link import AGENT_BACKENDS, NAME, AgentLink
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.states import State
from potato_ray.server.app import create_app
from potato_ray.server.context import ServerContext

KEY = "the-admin-key-of-the-tests"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
JOB = "/api/training/jobs/{run_id}"
OPERATIONS = [
    ("/api/training/backends/{name}/register", "POST"),
    ("/api/training/jobs/claim", "POST"),
    ("/api/training/code/{sha256}", "GET"),
    ("/api/training/agent.pyz", "GET"),
    (f"{JOB}/bundle", "GET"),
    (f"{JOB}/progress", "POST"),
    (f"{JOB}/predictions", "PUT"),
    (f"{JOB}/result", "POST"),
]
FEW = settings(max_examples=10, suppress_health_check=list(HealthCheck))
MORE = settings(FEW, max_examples=60)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = {
    "progress": ("first_seq", "events", "notes", "alive"),
    "result": ("exit", "next_seq", "artifact_uri", "stderr_tail", "agent_log", "failure"),
}


class Served:
    def __init__(self, config: Any) -> None:
        self.link = AgentLink(config)
        reader = RegistryReader(config.registry_path)
        self.app = create_app(ServerContext(config, reader, self.link, admin_key=KEY))
        self.client = TestClient(self.app, raise_server_exceptions=False)
        self.calls = AgentCalls(self.client, self.link.token())
        self.link.offer()
        assert self.calls.claim().status_code == 200
        self.link.move(self.calls.run_id, State.RUNNING)

    def headers(self, path: str) -> dict[str, str]:
        return {"X-API-Key": KEY} if path.endswith("/register") else self.calls.job_headers


@pytest.fixture
def served(make_config, monkeypatch) -> Any:
    made = Served(make_config(backends=AGENT_BACKENDS, max_concurrent_runs=9))
    monkeypatch.setattr("potato_ray.server.agent_claim.MAX_WAIT_S", 0)
    yield made
    made.link.close()


def described(served: Any) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", served.app)


def test_every_operation_of_agents_is_tried(served) -> None:
    paths = served.client.get("/openapi.json").json()["paths"]
    found = {(path, method.upper()) for path, item in paths.items() for method in item}
    assert {each for each in found if each[0].startswith("/api/training/")} == set(OPERATIONS)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_what_the_document_allows_is_answered_as_it_says(served, path: str, method: str) -> None:
    @FEW
    @given(case=described(served)[path][method].as_strategy(generation_mode=GenerationMode.POSITIVE))
    def try_one(case: Any) -> None:
        case.call_and_validate(headers=served.headers(path), checks=CHECKS)

    try_one()


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_what_there_is_is_answered_as_the_document_says(served, path: str, method: str) -> None:
    given_path = {"run_id": served.calls.run_id, "name": NAME, "sha256": "0" * 64}
    case = described(served)[path][method].Case(path_parameters=given_path)
    case.call_and_validate(headers=served.headers(path), checks=CHECKS)


@pytest.mark.parametrize("what", FIELDS)
def test_whatever_the_fields_hold_is_taken_or_refused_with_a_reason(served, what: str) -> None:
    @MORE
    @given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS[what], VALUES)))
    def try_one(body: dict[str, Any]) -> None:
        answer = served.calls.send(what, body)
        assert answer.status_code in (200, 400, 409), answer.text
        if answer.status_code != 200:
            assert answer.json()["error_code"] in ("malformed_request", "events_missing", "stale_attempt")

    try_one()
