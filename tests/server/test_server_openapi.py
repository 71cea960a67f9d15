"""The OpenAPI document: every route of the API, what it may answer, and what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from run_history import RUNS, fail, succeed, wait

from potato_ray.server.openapi import NEEDS

A = "/admin/training/api"
AGENTS = "/api/training"
ROUTES = {
    ("get", f"{A}/trainers"): "list_trainers",
    ("get", f"{A}/schemas"): "list_schemas",
    ("get", f"{A}/backends"): "list_backends",
    ("post", f"{A}/backends/{{name}}/check"): "check_backend",
    ("get", f"{A}/status"): "get_status",
    ("get", f"{A}/stream"): "stream_status",
    ("get", f"{A}/runs"): "list_runs",
    ("post", f"{A}/runs"): "start_run",
    ("get", f"{A}/runs/{{run_id}}"): "get_run",
    ("post", f"{A}/runs/{{run_id}}/cancel"): "cancel_run",
    ("get", f"{A}/runs/{{run_id}}/events"): "list_run_events",
    ("get", f"{A}/runs/{{run_id}}/log"): "get_run_log",
    ("get", f"{A}/runs/{{run_id}}/predictions"): "get_run_predictions",
    ("delete", f"{A}/runs/{{run_id}}/predictions"): "withdraw_run_predictions",
    ("get", f"{A}/runs/{{run_id}}/artifacts"): "list_run_artifacts",
    ("get", f"{A}/runs/{{run_id}}/artifacts/{{path}}"): "get_run_artifact",
    ("get", f"{A}/runs/{{run_id}}/remote-files"): "list_remote_files",
    ("delete", f"{A}/runs/{{run_id}}/remote-files"): "remove_remote_files",
    ("post", f"{A}/runs/{{run_id}}/remote-files/{{path}}"): "fetch_remote_file",
    ("delete", f"{A}/runs/{{run_id}}/remote-files/{{path}}"): "stop_remote_file",
}


@pytest.fixture
def served(serve) -> Any:
    return serve()


@pytest.fixture
def document(served) -> dict[str, Any]:
    return served.anonymous.get("/openapi.json").json()


def operations(document: dict[str, Any]) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield (method, path), operation


def of_api(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {key: operation for key, operation in operations(document) if key[1].startswith(A)}


def test_the_document_names_every_route_of_the_api_and_its_operation(document) -> None:
    assert {key: operation["operationId"] for key, operation in of_api(document).items()} == ROUTES


def test_operation_ids_are_unique(document) -> None:
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert sorted(ids) == sorted(set(ids))


def test_every_operation_below_training_says_what_configuration_it_needs(document) -> None:
    found = {key: each.get("x-potato-requires-config") for key, each in operations(document)}
    for (method, path), needs in found.items():
        ours = path.startswith(("/admin/training", "/api/training"))
        assert needs == (NEEDS if ours else None), (method, path)


def test_every_operation_of_the_api_names_the_key_and_its_refusals(document) -> None:
    for (method, _), operation in of_api(document).items():
        assert {"AdminKey": []} in operation["security"]
        assert not any(each["name"].lower() == "x-api-key" for each in operation.get("parameters", ()))
        expected = {"400", "401", "403", "404", "414", "429", "431", "500"}
        expected |= {"408", "413", "415"} if method != "get" else set()
        assert expected <= set(operation["responses"])
        assert "422" not in operation["responses"]


def test_agents_are_known_by_their_token_and_nobody_else_is(document) -> None:
    found = {path: each["security"] for (_, path), each in operations(document) if path.startswith(AGENTS)}
    register = found.pop(f"{AGENTS}/backends/{{name}}/register")
    assert register == [{"AdminKey": []}, {"Session": []}]
    assert len(found) == 7
    assert all(each == [{"AgentToken": []}] for each in found.values())
    assert document["components"]["securitySchemes"]["AgentToken"]["scheme"] == "bearer"


def test_every_refusal_is_a_problem(document) -> None:
    for key, operation in operations(document):
        for status, answer in operation["responses"].items():
            if status >= "400":
                assert list(answer["content"]) == ["application/problem+json"], (key, status)


def test_every_reference_in_the_document_leads_somewhere(document) -> None:
    schemas = document["components"]["schemas"]

    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from (value["$ref"] for _ in [0] if isinstance(value.get("$ref"), str))
            for each in value.values():
                yield from references(each)
        elif isinstance(value, list):
            for each in value:
                yield from references(each)

    assert {each for each in references(document) if each.rpartition("/")[2] not in schemas} == set()
    assert "HTTPValidationError" not in schemas


def test_examples_are_of_the_form_that_they_are_examples_of(document) -> None:
    schemas = document["components"]["schemas"]
    shown = {name: schema["examples"] for name, schema in schemas.items() if "examples" in schema}
    bodies = {answer["schema"]["$ref"].rpartition("/")[2] for answer in json_answers(document)}
    assert bodies - set(shown) == set()
    for name, examples in shown.items():
        for example in examples:
            check(document, name, example)


def json_answers(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for operation in of_api(document).values():
        contents = [each.get("content", {}) for each in operation["responses"].values()]
        contents.append(operation.get("requestBody", {}).get("content", {}))
        found = [each["application/json"] for each in contents if "application/json" in each]
        yield from (each for each in found if each.get("schema"))


def check(document: dict[str, Any], name: str, value: Any) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


def test_runs_of_every_kind_are_as_the_document_says(served, document) -> None:
    runs = [succeed(served), succeed(served), fail(served), wait(served)]
    check(document, "RunList", served.client.get(RUNS).json())
    for run in runs:
        body = served.client.get(f"{RUNS}/{run.run_id}").json()
        check(document, "RunInFull", body)
        assert set(body) == set(document["components"]["schemas"]["RunInFull"]["properties"])


@pytest.mark.parametrize(
    ("route", "name"),
    [("trainers", "TrainerList"), ("schemas", "SchemaList"), ("backends", "BackendList")],
)
def test_the_catalogue_is_as_the_document_says(served, document, route: str, name: str) -> None:
    check(document, name, served.client.get(f"{A}/{route}").json())


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", RUNS, "GET, POST"),
        ("OPTIONS", RUNS, "GET, POST"),
        ("PATCH", f"{RUNS}/x/predictions", "GET, DELETE"),
        ("DELETE", f"{RUNS}/x/artifacts/y", "GET, HEAD"),
        ("POST", f"{A}/trainers", "GET"),
    ],
)
def test_another_method_is_answered_with_those_that_there_are(
    served, method: str, path: str, allowed: str
) -> None:
    answer = served.client.request(method, path)
    assert (answer.status_code, answer.json()["error_code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allowed


def test_the_document_itself_needs_no_key_and_no_training(serve) -> None:
    answer = serve(enabled=False).anonymous.get("/openapi.json")
    assert (answer.status_code, answer.json()["openapi"][:2]) == (200, "3.")
