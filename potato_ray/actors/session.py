"""A project in one process's hands: its lock, the embedded Ray, and the controller."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from potato_ray.actors.embedded import EmbeddedRay, connect, namespace_of
from potato_ray.config.models import ProjectConfig
from potato_ray.errors import Conflict, PotatoRayError
from potato_ray.job.folder import read_json
from potato_ray.lock import ProjectLock

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
ALIVE_TIMEOUT_S = 2.0
REPEATED = frozenset({"ready", "stop"})
REPEAT_AFTER_S = 0.2


class Session:
    """Holds a project from `open` to `close`; use it in a `with` block.

    Raises Conflict when another process holds the project.
    """

    def __init__(self, config: ProjectConfig, purpose: str) -> None:
        self.config = config
        self.purpose = purpose
        self.lock = ProjectLock(config.state_dir)
        self.cluster = EmbeddedRay(config.state_dir, namespace_of(config.task_dir))
        self._controller: Any = None

    def open(self) -> None:
        """Take the project and start everything. Takes 3 to 10 s."""
        self.lock.acquire(self.purpose)
        try:
            self.cluster.start(["local", *self.config.model_training.backends])
            self.lock.describe(purpose=self.purpose, ray_address=self.cluster.address)
            self._controller = _create(self.config)
            self.call("ready", timeout_s=READY_TIMEOUT_S)
            _warm_up()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of what runs (launchers go on by themselves), stop Ray, give the project back."""
        try:
            self._stop_controller()
        finally:
            try:
                self.cluster.stop()
            finally:
                self.lock.release()

    def _stop_controller(self) -> None:
        if self._controller is None:
            return
        try:
            self.call("stop", timeout_s=STOP_TIMEOUT_S)
        except Exception:  # noqa: BLE001, S110 - Ray ends all the same, and the registry is durable
            pass
        finally:
            self._controller = None

    def call(self, method: str, *args: Any, timeout_s: float = 30.0) -> Any:
        """Call a method of the controller; raises what `call` raises."""
        return call(self._controller, method, *args, timeout_s=timeout_s)

    def is_alive(self) -> bool:
        """Whether Ray and the controller answer, within a few seconds.

        Ray ends this process when its central server has been gone for a minute, and until then a
        controller may answer that can start nothing any more. So both are asked.
        """
        host, _, port = self.cluster.address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=ALIVE_TIMEOUT_S).close()
            self.call("ready", timeout_s=ALIVE_TIMEOUT_S)
        except Exception:  # noqa: BLE001 - Ray's failures are of many kinds when its processes are gone
            return False
        return True

    def __enter__(self) -> Session:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def call(controller: Any, method: str, *args: Any, timeout_s: float) -> Any:
    """Call the controller; errors of ours arrive as themselves.

    Raises Conflict (controller_restarting) when there was no answer: the controller is gone, is being
    restarted, or needed longer than `timeout_s`. `ready` and `stop` are repeated until then.
    """
    import ray
    import ray.exceptions

    deadline = time.monotonic() + timeout_s
    while True:
        try:
            reference = getattr(controller, method).remote(*args)
            return ray.get(reference, timeout=max(0.1, deadline - time.monotonic()))
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as error:
            if method not in REPEATED or time.monotonic() > deadline:
                raise _unanswered(method, error) from None
            time.sleep(REPEAT_AFTER_S)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, PotatoRayError):
                raise error.cause from None
            raise


def reach(config: ProjectConfig) -> Any:
    """The controller that another process on this machine holds.

    Raises Conflict (project_in_use) when it cannot be reached.
    """
    note = read_json(config.state_dir / "server.json") or {}
    address = note.get("ray_address")
    if not address:
        raise Conflict(
            "The process that holds the project cannot be reached yet.",
            code="project_in_use",
            next_step="Try again in a few seconds.",
        )
    try:
        # First of all: it sets the switches that Ray reads when it is imported, for instance the one
        # that keeps Ray on 127.0.0.1.
        connect(str(address), Path(config.state_dir) / "ray.token", namespace_of(config.task_dir))
        return _controller()
    except (ValueError, ConnectionError, RuntimeError) as error:
        raise Conflict(
            "The process that holds the project cannot be reached.",
            code="project_in_use",
            evidence=f"{type(error).__name__}: {_first_line(error)}",
            next_step="It may be starting or ending: try again in a few seconds.",
        ) from None


def _controller() -> Any:
    import ray

    from potato_ray.actors.controller import NAME

    return ray.get_actor(NAME)


def _create(config: ProjectConfig) -> Any:
    import ray

    from potato_ray.actors.controller import NAME, RunController

    # Ray does not repeat calls by itself: a start that was in flight may have been written.
    actor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0, max_concurrency=1000)(RunController)
    return actor.options(name=NAME, lifetime="detached").remote(config)


def _warm_up() -> None:
    from potato_ray.actors.tasks import warm_up

    warm_up.remote()


def _unanswered(method: str, error: Exception) -> Conflict:
    return Conflict(
        "The controller was restarting or busy, and may or may not have taken the command.",
        code="controller_restarting",
        evidence=f"The call '{method}' ended with {type(error).__name__}.",
        next_step="Look at the list of runs, then repeat the command if it is not there.",
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
