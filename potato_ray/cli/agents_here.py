"""Answering the agents of runs on other machines while a command without a server holds the project."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from potato_ray.cli.output import say
from potato_ray.errors import PotatoRayError

if TYPE_CHECKING:
    from potato_ray.config.models import ProjectConfig
    from potato_ray.server.context import Phase

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def answering_agents(config: ProjectConfig, *, needed: bool = True) -> Iterator[None]:
    """Answer at the agents' socket alone, for the length of a `with` block.

    The project's lock is held. Raises PotatoRayError (cannot_listen); where the socket is not `needed`, the
    block goes on without one after a warning, and runs that need it say why they fail.
    """
    from potato_ray.registry.reading import RegistryReader
    from potato_ray.server.agent_socket import AgentListening
    from potato_ray.server.context import ServerContext

    reader = RegistryReader(config.registry_path, project=config.annotation_task_name)
    context = ServerContext(config, reader, _NoCommands(), admin_key="")
    try:
        listening = AgentListening(context, ended=_ended)
    except PotatoRayError as trouble:
        if needed:
            raise
        say(f"Warning: {trouble.message} {trouble.evidence} Machines that are reached by ssh cannot report")
        yield
        return
    listening.start()
    try:
        yield
    finally:
        listening.stop()


def _ended() -> None:
    logger.error("the agents' socket is answered no more; runs on other machines are lost soon")


class _NoCommands:
    """The link of an application in which nothing is commanded: agents of runs that have begun alone."""

    @property
    def phase(self) -> Phase:
        from potato_ray.server.context import Phase

        return Phase.READY

    @property
    def trouble(self) -> PotatoRayError | None:
        return None

    async def command(self, method: str, *args: Any) -> Any:
        from potato_ray.server.context import Unavailable

        raise Unavailable("There is no server.", next_step="Start one with potato-ray start.")
