"""A controller in the test's own process, without Ray, and a run for it to finish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from potato_ray.actors.controller import RunController
from potato_ray.config.models import ProjectConfig
from potato_ray.errors import Conflict
from potato_ray.registry import NewRun, Registry, State
from potato_ray.registry.runs import Run
from potato_ray.starting import StartRequest

LOCKED = Conflict("project.sqlite is locked by another program.", code="registry_locked")


def finishing(registry: Registry, *, cancelled: bool = False) -> Run:
    """A run whose worker has ended well; `cancelled`: a cancel was acknowledged just before."""
    new = NewRun("sklearn-text", ("sentiment",), ("nominal",))
    run_id = registry.create_run(new, queue_max=9, allow_queue=True, max_concurrent=9).run_id
    registry.begin(run_id, None, 9)
    registry.transition(run_id, 1, State.RUNNING)
    registry.transition(run_id, 1, State.EVALUATING)
    if cancelled:
        registry.request_cancel(run_id)
    return registry.transition(run_id, 1, State.FINISHING)


async def offered(controller: RunController, backend: str = "ws") -> Run:
    """A run that is on offer to the agents of a backend."""
    request = StartRequest(trainer="sklearn-text", schemas=("sentiment",), backend=backend)
    said = await controller.start(request)
    assert said["queued"], said
    while (run := await controller.write(controller.registry.run, said["run_id"])).state == State.QUEUED:
        await asyncio.sleep(0.005)
    return run


def controlled(
    config: ProjectConfig,
    scenario: Callable[[RunController], Coroutine[Any, Any, Any]],
    *,
    hears_agents: bool = True,
) -> Any:
    """What a scenario answers that has a controller, which is stopped behind it."""

    async def both() -> Any:
        controller = RunController(config, keep_spare=False, hears_agents=hears_agents)
        try:
            return await asyncio.wait_for(scenario(controller), 30)
        finally:
            await controller.stop()
            await asyncio.wait(controller._tasks or {asyncio.create_task(asyncio.sleep(0))}, timeout=10.0)

    return asyncio.run(both())
