"""The server that holds a project, for the commands that go through it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from potato_ray.agent_tokens import is_agent_backend
from potato_ray.cli.losing import server_lost
from potato_ray.config.admin_key import find_admin_key
from potato_ray.errors import Conflict, PotatoRayError
from potato_ray.lock import SERVING, holder
from potato_ray.registry.states import State

if TYPE_CHECKING:
    from potato_ray.client import Run as ClientRun
    from potato_ray.config.models import ProjectConfig
    from potato_ray.registry.runs import Run
    from potato_ray.starting import StartRequest

ADDRESS_PATIENCE_S = 20.0
LOOK_EVERY_S = 0.1
ALIVE_TIMEOUT_S = 2.0


class Server:
    """A `potato-ray start` at `url`, spoken to over HTTP; use it in a `with` block."""

    def __init__(
        self, url: str, key: str | None, *, is_here: bool = True, agent_backends: Collection[str] = ()
    ) -> None:
        import httpx

        from potato_ray.client import Client, KeyInTheClear

        self.url = url
        self._agent_backends = agent_backends
        with warnings.catch_warnings():
            if is_here:  # what goes to this machine's own address does not leave it
                warnings.simplefilter("ignore", KeyInTheClear)
            # A transport of one's own is one without the environment's proxies.
            self.client = Client(url, key or "", transport=httpx.HTTPTransport())
        self._brisk = Client(
            url, "", timeout_s=ALIVE_TIMEOUT_S, patience_s=0.0, transport=httpx.HTTPTransport()
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self._brisk.close()

    def start(self, request: StartRequest) -> str:
        """The id of the run that was started, or waits. Raises StartRefused."""
        run = self.client.train(
            request.trainer,
            request.schemas,
            request.params,
            request.backend,
            accept_licence=request.accept_licence,
            queue=request.queue,
            idempotency_key=request.idempotency_key,
        )
        return run.id

    def cancel(self, run_id: str) -> dict[str, Any]:
        """The run as it is then, as the controller answers it; raises NotFound, Conflict."""
        record = self._run(run_id).cancel().record
        return {
            "run_id": run_id,
            "state": record.state,
            "cancelled": record.status == State.CANCELLED,
        }

    def withdraw(self, run_id: str) -> int:
        """How many pre-labels were taken off."""
        return self._run(run_id).withdraw_predictions()

    def register_backend(self, name: str) -> dict[str, str]:
        """A new token for an agent backend; raises NotFound, Conflict."""
        issued = self.client.register_backend(name)
        return {"backend": issued.backend, "token": issued.token}

    def _run(self, run_id: str) -> ClientRun:
        """The run to command. Nothing is asked before: a lost answer to that would keep the command back."""
        from potato_ray.client import Run, RunRecord

        return Run(self.client._driver, self.client._patience, RunRecord(run_id))

    def is_alive(self) -> bool:
        """Whether it answers, and has a controller or gets one."""
        try:
            return self._brisk.health().get("controller") not in ("failed", "stopping")
        except PotatoRayError:
            return False

    def left(self, run: Run) -> str:
        """What becomes of a run that this command follows no more."""
        if run.ended:
            return f"run {run.run_id} has ended: {run.state}"
        doing = "is being cancelled by" if run.cancel_requested_at else "goes on under"
        return f"run {run.run_id} {doing} the server at {self.url}"

    def lost(self, run: Run) -> Conflict:
        """The error that this server does not answer any more, or has lost its controller."""
        return server_lost(run.run_id, self.url, at_agent=run.backend in self._agent_backends)


def server_of(
    config: ProjectConfig,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Server | None:
    """The server that holds a project; None when nobody does, or another command.

    One that has just been started is waited for until it can be reached. Raises Conflict when it cannot
    be reached from here.
    """
    deadline = clock() + ADDRESS_PATIENCE_S
    while (note := holder(config.state_dir)) is not None and note.get("purpose") == SERVING:
        server = _server_at(note, config)
        if server is not None:
            return server
        if clock() >= deadline:
            raise _silent(note)
        sleep(LOOK_EVERY_S)
    return None


def _server_at(note: dict[str, Any], config: ProjectConfig) -> Server | None:
    # Imported where a server is there: most commands need no HTTP.
    from potato_ray.client.finding import is_here, reachable_url

    url = reachable_url(note)
    if url is None:
        return None
    ours = [name for name in config.model_training.backends if is_agent_backend(config, name)]
    return Server(url, find_admin_key(config), is_here=is_here(note), agent_backends=ours)


def _silent(note: dict[str, Any]) -> Conflict:
    return Conflict(
        "The server that holds the project does not say where it can be reached.",
        code="project_in_use",
        evidence=f"It is process {note.get('pid', 'unknown')}; its note has no address after "
        f"{ADDRESS_PATIENCE_S:.0f} s.",
        next_step="Look at what that server says, or stop it.",
    )
