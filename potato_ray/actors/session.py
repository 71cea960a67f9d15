"""A project in one process's hands: its lock, the embedded Ray, and the controller."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from potato_ray.actors.embedded import EmbeddedRay, connect, namespace_of
from potato_ray.config.models import ProjectConfig
from potato_ray.errors import Conflict, NotSent, PotatoRayError
from potato_ray.job import processes
from potato_ray.job.folder import ProcessId, read_json
from potato_ray.lock import ProjectLock

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 5.0
ALIVE_TIMEOUT_S = 2.0
END_TIMEOUT_S = 5.0
RESTART_PATIENCE_S = 60.0
REPEATED = frozenset({"ready", "stop"})
REPEAT_AFTER_S = 0.2


class Session:
    """Holds a project from `open` to `close`; use it in a `with` block.

    A server does the same in parts: `hold`, then `bring_up` and `take_down` as often as Ray needs it,
    then `close`. `warm` keeps a spare worker and what scores a run loaded ahead: a run starts and ends
    sooner, for some 250 MB of memory. `hears_agents`: a server answers agents that somebody has started;
    without one their runs are left alone.

    Raises Conflict when another process holds the project.
    """

    def __init__(
        self, config: ProjectConfig, purpose: str, *, warm: bool = True, hears_agents: bool = False
    ) -> None:
        self.config = config
        self.purpose = purpose
        self.warm = warm
        self.hears_agents = hears_agents
        self.lock = ProjectLock(config.state_dir)
        self.cluster = EmbeddedRay(config.state_dir, namespace_of(config.task_dir))
        self._facts: dict[str, str] = {}
        self._controller: Any = None
        self._process: ProcessId | None = None

    def open(self) -> None:
        """Take the project and start everything. Takes 3 to 10 s."""
        self.hold()
        try:
            self.bring_up()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of what runs (launchers go on by themselves), stop Ray, give the project back."""
        try:
            self.take_down()
        finally:
            self.lock.release()

    def hold(self) -> None:
        """Take the project; nothing is started yet."""
        self.lock.acquire(self.purpose)

    def describe(self, **facts: str) -> None:
        """Add to the note that other commands read, for instance the `url`."""
        self._facts.update(facts)
        self.lock.describe(purpose=self.purpose, **self._facts)

    def bring_up(self, wanted: Callable[[], bool] = lambda: True) -> None:
        """Start Ray and the controller; gives up between two steps when it is not `wanted` any more.

        Raises what kept the controller from opening the registry, Conflict (controller_restarting)
        without an answer from it, or what Ray raises. `take_down` is to be called then too.
        """
        self.cluster.start(["local", *self.config.model_training.backends])
        if not wanted():
            return
        self._controller = _create(self.config, self.warm, self.hears_agents)
        self._greet(READY_TIMEOUT_S)
        self.describe(ray_address=self.cluster.address)
        if self.warm:
            _warm_up()

    def take_down(self, *, answers: bool = True) -> None:
        """Stop the controller and Ray. `answers`: whether the controller can be asked to stop by itself."""
        try:
            if answers:
                self._stop_controller()
        finally:
            self._controller = None
            self._facts.pop("ray_address", None)
            self.cluster.stop()
            self._end_process()

    def _stop_controller(self) -> None:
        if self._controller is None:
            return
        try:
            self.call("stop", timeout_s=STOP_TIMEOUT_S)
        except Exception:  # noqa: BLE001, S110 - Ray ends all the same, and the registry is durable
            pass

    def _end_process(self) -> None:
        """See the controller's process end: two of them must never write the same registry."""
        process, self._process = self._process, None
        deadline = time.monotonic() + END_TIMEOUT_S
        while process is not None and processes.is_alive(process):
            if time.monotonic() > deadline:
                processes.kill([process.pid])
            time.sleep(0.02)

    def _greet(self, timeout_s: float) -> None:
        answer = self.call("ready", timeout_s=timeout_s)
        self._process = processes.identify(answer["pid"])

    def call(self, method: str, *args: Any, timeout_s: float = 30.0) -> Any:
        """Call a method of the controller; raises what `call` raises."""
        if self._controller is None:
            raise NotSent(
                "The controller is not there at present, so the command was not sent.",
                evidence=f"It was '{method}'.",
                next_step="Try again in a few seconds.",
            )
        return call(self._controller, method, *args, timeout_s=timeout_s)

    def insist(
        self,
        method: str,
        *args: Any,
        patience_s: float = RESTART_PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> Any:
        """Call a command that may be repeated without harm until the controller has answered it.

        A controller that is being restarted gets `patience_s`; after that its Conflict is raised.
        """
        deadline = clock() + patience_s
        while True:
            try:
                return self.call(method, *args)
            except Conflict as unanswered:
                if unanswered.code != "controller_restarting" or clock() >= deadline:
                    raise
            self.call("ready", timeout_s=max(1.0, deadline - clock()))

    def is_alive(self, timeout_s: float = ALIVE_TIMEOUT_S) -> bool:
        """Whether Ray and the controller answer, each within `timeout_s`.

        Ray ends this process when its central server has been gone for a minute, and until then a
        controller may answer that can start nothing any more. So both are looked at.
        """
        try:
            alive = self.cluster.is_alive(timeout_s)
            if alive:
                self._greet(timeout_s)
        except Exception:  # noqa: BLE001 - Ray's failures are of many kinds when its processes are gone
            return False
        return alive

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
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, PotatoRayError):
                raise error.cause from None
            raise
        except SystemExit:
            # Ray says so to whoever asks it while its own processes end; nobody of ours has asked for an end.
            raise _unanswered(method, "Ray was ending") from None
        except ray.exceptions.RayError as error:
            # Of many kinds where Ray's own processes are going, which nobody may have noticed yet.
            if method not in REPEATED or time.monotonic() > deadline:
                raise _unanswered(method, f"it ended with {type(error).__name__}") from None
            time.sleep(REPEAT_AFTER_S)


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


def _create(config: ProjectConfig, keep_spare: bool, hears_agents: bool) -> Any:
    import ray

    from potato_ray.actors.controller import NAME, RunController

    # Ray does not repeat calls by itself: a start that was in flight may have been written.
    actor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0, max_concurrency=1000)(RunController)
    return actor.options(name=NAME, lifetime="detached").remote(config, keep_spare, hears_agents)


def _warm_up() -> None:
    from potato_ray.actors.tasks import warm_up

    warm_up.remote()


def _unanswered(method: str, why: str) -> Conflict:
    return Conflict(
        "The controller was restarting or busy, and may or may not have taken the command.",
        code="controller_restarting",
        evidence=f"The call '{method}' was not answered: {why}.",
        next_step="Look at the list of runs, then repeat the command if it is not there.",
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
