"""What can be started: trainers, schemes, backends; and the check of a backend."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import Path, Request, Response

from potato_ray.backends.making import make_backend
from potato_ray.server.answers import BackendList, CheckBody, SchemaList, TrainerList
from potato_ray.server.backend_checks import BackendChecks
from potato_ray.server.catalogue import backends_body, check_body, schemas_body, trainers_body
from potato_ray.server.context import Context
from potato_ray.server.routes.api import api_router
from potato_ray.server.run_answers import json_answer

router = api_router("catalogue")


@router.get(
    "/trainers",
    operation_id="list_trainers",
    summary="Trainers, with their parameters",
    responses={200: {"model": TrainerList}},
)
def list_trainers(context: Context) -> Response:
    """Kinds, parameters, licence, and whether their packages are here; imports none of these packages."""
    return json_answer(trainers_body(context.config))


@router.get(
    "/schemas",
    operation_id="list_schemas",
    summary="Annotation schemes, with the trainers that fit",
    responses={200: {"model": SchemaList}},
)
def list_schemas(context: Context) -> Response:
    """In the order of the configuration."""
    return json_answer(schemas_body(context.config))


@router.get(
    "/backends",
    operation_id="list_backends",
    summary="Places where runs execute",
    responses={200: {"model": BackendList}},
)
def list_backends(context: Context) -> Response:
    """`local` first; `default` marks the one of model_training.backend; agent backends tell their agents."""
    return json_answer(backends_body(context.config, context.reader, time.time()))


@router.post(
    "/backends/{name}/check",
    operation_id="check_backend",
    summary="Check a backend",
    responses={200: {"model": CheckBody}},
)
async def check_backend(
    context: Context, request: Request, name: Annotated[str, Path(min_length=1, description="The backend.")]
) -> Response:
    """Looks at Python, GPUs and packages now. 200 whatever it finds; `ok`: a run could start."""
    backend = make_backend(name, context.config)
    report = await _checks(request).check(name, backend.check, backend.type)
    return json_answer(check_body(report))


def _checks(request: Request) -> BackendChecks:
    state = request.app.state
    if not hasattr(state, "backend_checks"):
        state.backend_checks = BackendChecks()
    checks: BackendChecks = state.backend_checks
    return checks
