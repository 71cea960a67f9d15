"""The token of an agent backend: made for an admin, and shown once."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from potato_ray.agent.protocol import PREFIX
from potato_ray.server.access import Admin
from potato_ray.server.agent_door import ItsDoor
from potato_ray.server.context import Context
from potato_ray.server.openapi import problems
from potato_ray.server.queries import KnownQuery
from potato_ray.server.run_answers import json_answer

router = APIRouter(tags=["agents"], dependencies=[Admin, KnownQuery])

REGISTER = f"{PREFIX}/backends/{{name}}/register"


class Registered(BaseModel):
    """The new token of a backend."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"backend": "workstation", "token": "prt_…, 47 characters"}]}
    )

    backend: str
    token: str = Field(description="Shown once; the server keeps its sha256 alone")


@router.post(
    REGISTER,
    operation_id="register_backend",
    summary="Make the token of an agent backend",
    responses={200: {"model": Registered}, **problems(409, 503, 507)},
)
async def register_backend(
    context: Context, door: ItsDoor, name: Annotated[str, Path(description="The backend.", min_length=1)]
) -> Response:
    """The one that it had is worth nothing from then on."""
    registered = await context.controller.command("register_backend", name)
    door.keeper.tokens.forget()
    return json_answer(registered)
