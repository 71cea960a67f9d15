"""What every route works with: the project, its registry, and the way to the controller."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request

from potato_ray.config.models import ProjectConfig
from potato_ray.errors import PotatoRayError
from potato_ray.registry.reading import RegistryReader


class Phase(StrEnum):
    """How far the controller is."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPING = "stopping"


class ControllerLink(Protocol):
    """The way from the routes to the controller. Routes that only read never use it."""

    @property
    def phase(self) -> Phase: ...

    @property
    def trouble(self) -> PotatoRayError | None:
        """Why `phase` is failed, else None."""

    async def command(self, method: str, *args: Any) -> Any:
        """Call a command of the controller (`start`, `cancel`, `withdraw`) and answer what it answers.

        Waits up to 30 s for a controller that is coming up, then raises Unavailable. A command that
        was sent, and may have been taken without an answer, is Unavailable (controller_restarting);
        only `start` is repeated then, so it must carry an idempotency key. Raises what the command
        raises: NotFound, Conflict, ...
        """


class Unavailable(PotatoRayError):
    """The controller cannot be reached at present (503); `retry_after_s` is when to try again.

    Under the code controller_restarting it may have taken the command, under any other it has not.
    """

    default_code = "controller_unavailable"
    retry_after_s = 5


@dataclass(frozen=True)
class ServerContext:
    """One per server. `findings` are the configuration's warnings, whole sentences."""

    config: ProjectConfig
    reader: RegistryReader
    controller: ControllerLink
    admin_key: str
    findings: tuple[str, ...] = ()


async def context_of(request: Request) -> ServerContext:
    """The context of the application that serves this request. Without `async` it would wait for a thread."""
    context: ServerContext = request.app.state.context
    return context


Context = Annotated[ServerContext, Depends(context_of)]
