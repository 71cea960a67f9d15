"""The OpenAPI document: what FastAPI derives from the routes, and what it cannot know of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from potato_ray.server.answers import StartBody
from potato_ray.server.problems import MEDIA_TYPE, Problem

NEEDS = "model_training.enabled: true"
KEY_HEADER = "X-API-Key"
_OURS = ("/admin/training", "/api/training")
_METHODS = frozenset({"get", "put", "post", "delete", "patch", "head", "options"})

DESCRIPTIONS = {
    400: "The request is not of the form that this route takes; or the start is refused.",
    401: "The admin key is missing or wrong.",
    403: "The request comes from another site.",
    404: "There is no such thing; or model_training.enabled is not true.",
    409: "The present state forbids it.",
    413: "The body is too large.",
    415: "The body is no JSON.",
    416: "The range lies outside the file.",
    429: "Too many of them; Retry-After says when to try again.",
    500: "The server met an unexpected error, or the project's files cannot be used.",
    503: "The controller cannot be reached at present; Retry-After says when to try again.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For `responses=` of a route: the problems that it answers with beside those that every route has."""
    return {status: _problem(status) for status in statuses}


def media(types: Mapping[str, Mapping[str, Any]], description: str) -> dict[str, Any]:
    """One entry of `responses=`: an answer in other media types than JSON."""
    return {"description": description, "content": {name: {"schema": dict(s)} for name, s in types.items()}}


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": DESCRIPTIONS[status], "content": {MEDIA_TYPE: {"schema": schema}}}


def install(app: FastAPI) -> None:
    """Let the application describe itself by `document`."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = document(app)
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def document(app: FastAPI) -> dict[str, Any]:
    """The whole document of an application."""
    body = get_openapi(
        title=app.title,
        version=app.version,
        summary="Train models on Potato annotations, on any GPU.",
        routes=app.routes,
    )
    components = body.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for model in (Problem, StartBody):
        schemas[model.__name__] = model.model_json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    components.setdefault("securitySchemes", {})["AdminKey"] = {
        "type": "apiKey",
        "in": "header",
        "name": KEY_HEADER,
        "description": "admin_api_key of the configuration, or the file admin_api_key.txt of the project.",
    }
    for path, operation in _operations(body):
        _complete(path, operation)
    return body


def _operations(body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in body["paths"].items():
        for method, operation in item.items():
            if method in _METHODS:
                yield path, operation


def _complete(path: str, operation: dict[str, Any]) -> None:
    """Say of an operation what holds for its whole group."""
    responses = operation["responses"]
    # What FastAPI says of malformed requests: here they are answered with 400.
    if responses.pop("422", None) is not None:
        responses.setdefault("400", _problem(400))
    if not path.startswith(_OURS):
        return
    operation["x-potato-requires-config"] = NEEDS
    common = [404, 500]
    if path.startswith("/admin/training"):
        common += [401, 429]
        operation["security"] = [{"AdminKey": []}]
        operation["parameters"] = [
            each for each in operation.get("parameters", ()) if each["name"].lower() != KEY_HEADER.lower()
        ]
    for status in common:
        responses.setdefault(str(status), _problem(status))
    operation["responses"] = dict(sorted(responses.items()))
