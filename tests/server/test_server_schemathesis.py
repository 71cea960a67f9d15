"""Every operation against its description: no 5xx, no undocumented status, type or body."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from run_history import begin, fail, succeed, wait
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from potato_ray.backends.base import Check, CheckReport
from potato_ray.server.routes import catalogue

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
RUNS = "/admin/training/api/runs"
ONE = f"{RUNS}/{{run_id}}"
OPERATIONS = [
    ("/health", "GET"),
    ("/admin/training/api/trainers", "GET"),
    ("/admin/training/api/schemas", "GET"),
    ("/admin/training/api/backends", "GET"),
    ("/admin/training/api/backends/{name}/check", "POST"),
    ("/admin/training/api/status", "GET"),
    (RUNS, "GET"),
    (RUNS, "POST"),
    (ONE, "GET"),
    (f"{ONE}/cancel", "POST"),
    (f"{ONE}/events", "GET"),
    (f"{ONE}/log", "GET"),
    (f"{ONE}/predictions", "GET"),
    (f"{ONE}/predictions", "DELETE"),
    (f"{ONE}/artifacts", "GET"),
    (f"{ONE}/artifacts/{{path}}", "GET"),
    (f"{ONE}/remote-files", "GET"),
    (f"{ONE}/remote-files", "DELETE"),
    (f"{ONE}/remote-files/{{path}}", "POST"),
    (f"{ONE}/remote-files/{{path}}", "DELETE"),
]
OF_A_RUN = [(path, method) for path, method in OPERATIONS if "{run_id}" in path]
WITH_INPUT = [(RUNS, "GET"), (RUNS, "POST"), (f"{ONE}/events", "GET")]
STREAM = "/admin/training/api/stream"
AGENTS = "/api/training/"
FEW = settings(max_examples=12, suppress_health_check=list(HealthCheck))
MORE = settings(FEW, max_examples=30)


@pytest.fixture
def served(serve, monkeypatch) -> Any:
    """An application with runs of each kind, whose check takes no time."""
    served = serve()
    report = CheckReport("local", "local", "local: this machine", (Check("python", True, "3.11"),), {"n": 1})
    monkeypatch.setattr(catalogue, "make_backend", _checking(catalogue.make_backend, report))
    succeed(served)
    fail(served)
    begin(served, wait(served).run_id)
    wait(served)
    return served


def _checking(make: Any, report: CheckReport) -> Any:
    def make_checking(name: str, config: Any) -> Any:
        backend = make(name, config)
        backend.check = lambda: report
        return backend

    return make_checking


def described(served: Any) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", served.app)


def run_checks(served: Any, case: Any, checks: list[Any] = CHECKS) -> None:
    case.call_and_validate(headers={"X-API-Key": served.context.admin_key}, checks=checks)


def test_every_operation_of_the_document_is_tried_but_the_stream_and_those_of_agents(served) -> None:
    """test_server_agent_schemathesis.py has those."""
    paths = served.client.get("/openapi.json").json()["paths"]
    found = {(path, method.upper()) for path, item in paths.items() for method in item}
    of_agents = {each for each in found if each[0].startswith(AGENTS)}
    assert found - {(STREAM, "GET")} - of_agents == set(OPERATIONS)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_what_the_document_allows_is_answered_as_it_says(served, path: str, method: str) -> None:
    @FEW
    @given(case=described(served)[path][method].as_strategy(generation_mode=GenerationMode.POSITIVE))
    def try_one(case: Any) -> None:
        run_checks(served, case)

    try_one()


@pytest.mark.parametrize(("path", "method"), WITH_INPUT)
def test_what_the_document_does_not_allow_is_refused_as_it_says(served, path: str, method: str) -> None:
    @MORE
    @given(case=described(served)[path][method].as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def try_one(case: Any) -> None:
        run_checks(served, case, [*CHECKS, negative_data_rejection])

    try_one()


@pytest.mark.parametrize(("path", "method"), OF_A_RUN)
def test_a_run_that_there_is_is_answered_as_the_document_says(served, path: str, method: str) -> None:
    operation = described(served)[path][method]
    for run in served.reader.runs():
        given_path = {"run_id": run.run_id, "path": "model/weights.bin"}
        run_checks(served, operation.Case(path_parameters=given_path))


@pytest.mark.parametrize(("path", "method"), [each for each in OPERATIONS if each[0] != "/health"])
def test_nobody_gets_past_without_the_key(served, path: str, method: str) -> None:
    operation = described(served)[path][method]
    case = operation.Case(path_parameters={"run_id": "x", "name": "local", "path": "y"})
    case.call_and_validate(headers={"X-API-Key": served.context.admin_key}, checks=[ignored_auth])
    assert case.call().status_code == 401
