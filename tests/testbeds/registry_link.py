"""A controller without Ray for tests of the server: real plans, a real registry, nothing that trains."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from potato_ray.config.models import ProjectConfig
from potato_ray.errors import PotatoRayError, StartRefused
from potato_ray.registry.runs import NewRun, Run
from potato_ray.registry.states import State
from potato_ray.registry.store import Registry
from potato_ray.server.context import Phase, Unavailable
from potato_ray.starting import HTTP_STATUS, StartPlan, StartRequest, plan_new_start, require_same
from potato_ray.writeback import withdraw

T = TypeVar("T")


class RegistryLink:
    """A ControllerLink. Tests set `phase`, and move runs along with `write`, as the controller would."""

    def __init__(self, config: ProjectConfig) -> None:
        self.config = config
        self.registry = Registry(config.registry_path, project=config.annotation_task_name)
        self.phase = Phase.READY
        self.trouble: PotatoRayError | None = None
        self._writer = ThreadPoolExecutor(1)
        self.write(self.registry.open)

    def write(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a call of the registry in its one thread."""
        return self._writer.submit(function, *args, **kwargs).result(timeout=30)

    def close(self) -> None:
        self.write(self.registry.close)
        self._writer.shutdown()

    async def command(self, method: str, *args: Any) -> Any:
        if self.phase is not Phase.READY:
            raise Unavailable("The controller is starting.", next_step="Try again in a few seconds.")
        command = {"start": self._start, "cancel": self._cancel, "withdraw": self._withdraw}[method]
        return await asyncio.wrap_future(self._writer.submit(command, *args))

    def _start(self, request: StartRequest) -> dict[str, Any]:
        try:
            run = self._made_before(request) or self._make(request)
            require_same(run, request)
        except StartRefused as refusal:
            return {"started": False, **refusal.as_dict(), "status": HTTP_STATUS.get(refusal.code, 400)}
        return {"started": True, "run_id": run.run_id, "queued": bool(run.position), "position": run.position}

    def _made_before(self, request: StartRequest) -> Run | None:
        if request.idempotency_key is None:
            return None
        return self.registry.made_with(
            request.idempotency_key, self.config.model_training.max_concurrent_runs
        )

    def _make(self, request: StartRequest) -> Run:
        training = self.config.model_training
        plan = plan_new_start(self.config, request)
        return self.registry.create_run(
            _row(request, plan),
            queue_max=training.queue_max,
            allow_queue=request.queue,
            max_concurrent=training.max_concurrent_runs,
        )

    def _cancel(self, run_id: str) -> dict[str, Any]:
        run = self.registry.request_cancel(run_id)
        return {"run_id": run_id, "state": str(run.state), "cancelled": run.state == State.CANCELLED}

    def _withdraw(self, run_id: str) -> int:
        return withdraw(self.registry, run_id)


def _row(request: StartRequest, plan: StartPlan) -> NewRun:
    return NewRun(
        trainer=request.trainer,
        schemas=request.schemas,
        kinds=tuple(scheme.kind or "" for scheme in plan.schemes),
        params=dict(request.params),
        backend=plan.backend,
        trigger=request.trigger,
        accept_licence=request.accept_licence,
        idempotency_key=request.idempotency_key,
    )
