"""The OpenAPI document: what FastAPI derives from the routes, and what it cannot know of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from potato_ray.server.answers import RefusedStart, StartBody
from potato_ray.server.problems import MEDIA_TYPE, Problem

NEEDS = "model_training.enabled: true"
KEY_HEADER = "X-API-Key"
_OURS = ("/admin/training", "/api/training")
_CHANGES = frozenset({"post", "put", "delete", "patch"})
_METHODS = frozenset({"get", "put", "post", "delete", "patch", "head", "options"})

DESCRIPTIONS = {
    400: "The request is not of the form that this route takes.",
    401: "There is neither an admin key nor a session; for an agent: no token of the backend.",
    403: "The admin key is wrong, or the request comes from a page of another site.",
    404: "There is no such thing, or model_training.enabled is not true.",
    408: "The body did not arrive in time.",
    409: "The present state forbids it.",
    411: "The header Content-Length is missing.",
    413: "The body is too large.",
    414: "The address is too long.",
    415: "The body is of another kind than JSON.",
    416: "The range lies outside the file.",
    429: "Too many wrong keys came from this address; Retry-After says when to try again.",
    431: "The headers are too long.",
    500: "The server met an unexpected error, or the project's files cannot be used.",
    502: "The host that the run ran on cannot be reached, or the way to it broke off.",
    503: "The controller cannot be reached, or the registry not be written, at present; see Retry-After.",
    507: "The disk of the project is full, so nothing was changed.",
}
_OF_ALL = (400, 414, 431, 500)
_OF_TRAINING = (401, 403, 404, 429)
_OF_AGENTS = (401, 404, 429)
_OF_CHANGES = (408, 413, 415)
"""What any operation may answer; below /admin/training, or for agents, besides; where something changes."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For `responses=` of a route: the problems that it answers with beside those that every route has."""
    return {status: _problem(status) for status in statuses}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The same for a start: refused, with `"started": false`."""
    return {
        status: {**_problem(status, "RefusedStart"), "description": _REFUSED[status]} for status in statuses
    }


_REFUSED = {
    400: "Trainer, scheme, parameters or the body are not such that a run could start.",
    409: "The present state forbids it, or the Idempotency-Key stands for another start.",
    429: "The queue is full, or too many wrong keys came from this address; see Retry-After.",
}


def media(types: Mapping[str, Mapping[str, Any]], description: str) -> dict[str, Any]:
    """One entry of `responses=`: an answer in other media types than JSON."""
    return {"description": description, "content": {name: {"schema": dict(s)} for name, s in types.items()}}


def json_body(description: str) -> dict[str, Any]:
    """For `openapi_extra=` of a route that reads its JSON itself."""
    content = {"application/json": {"schema": {"type": "object"}}}
    return {"requestBody": {"required": True, "description": description, "content": content}}


def _problem(status: int, model: str = "Problem") -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{model}"}
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
    for model in (Problem, RefusedStart, StartBody):
        schemas[model.__name__] = model.model_json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    _restore_examples(schemas)
    components["securitySchemes"] = security_schemes(app)
    for path, method, operation in _operations(body):
        _complete(path, method, operation)
    return body


def _restore_examples(schemas: dict[str, Any]) -> None:
    """FastAPI leaves null out of the whole document, and so out of the examples."""
    for model in _models(BaseModel):
        extra = model.model_config.get("json_schema_extra")
        ours = model.__module__.startswith("potato_ray.server.") and model.__name__ in schemas
        if ours and isinstance(extra, dict) and "examples" in extra:
            schemas[model.__name__]["examples"] = extra["examples"]


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def security_schemes(app: FastAPI) -> dict[str, dict[str, str]]:
    """How an admin is known (programs send the key, browsers the cookie of their login), and an agent."""
    return {
        "AdminKey": {
            "type": "apiKey",
            "in": "header",
            "name": KEY_HEADER,
            "description": "admin_api_key of the configuration, or the content of admin_api_key.txt.",
        },
        "Session": {
            "type": "apiKey",
            "in": "cookie",
            "name": app.state.keeper.cookie,
            "description": "Given by the form at /admin/login.",
        },
        "AgentToken": {
            "type": "http",
            "scheme": "bearer",
            "description": "The token of an agent backend; docs/agent-protocol.md has what agents send.",
        },
    }


def _operations(body: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in body["paths"].items():
        for method, operation in item.items():
            if method in _METHODS:
                yield path, method, operation


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    """Say of an operation what holds for its whole group."""
    responses = operation["responses"]
    # What FastAPI says of malformed requests: here they are answered with 400.
    if responses.pop("422", None) is not None:
        responses.setdefault("400", _problem(400))
    common = [*_OF_ALL, *(_OF_CHANGES if method in _CHANGES else ())]
    if path.startswith(_OURS):
        operation["x-potato-requires-config"] = NEEDS
    if path.startswith(("/admin/training", "/api/training/backends")):
        operation["security"] = [{"AdminKey": []}, {"Session": []}]
        common += _OF_TRAINING
    elif path.startswith(_OURS):
        operation["security"] = [{"AgentToken": []}]
        common += _OF_AGENTS
    for status in common:
        responses.setdefault(str(status), _problem(status))
    operation["responses"] = dict(sorted(responses.items()))
