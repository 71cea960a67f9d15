"""`potato-ray training run`: one run from start to end, through the server that is there or without one."""

from __future__ import annotations

import contextlib
import shlex
import signal
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from potato_ray.agent_tokens import is_agent_backend
from potato_ray.backends.grants import starts_agents
from potato_ray.cli.losing import controller_lost
from potato_ray.cli.output import out, print_json, say
from potato_ray.cli.param_options import parse_params
from potato_ray.cli.summary import end_lines
from potato_ray.cli.termination import Terminated, Termination
from potato_ray.cli.through_server import Server, server_of
from potato_ray.config import load
from potato_ray.errors import PotatoRayError, StartRefused
from potato_ray.registry.states import State
from potato_ray.starting import StartRequest, plan_new_start

if TYPE_CHECKING:
    from potato_ray.actors.session import Session
    from potato_ray.config.models import ProjectConfig
    from potato_ray.errors import Conflict
    from potato_ray.registry.reading import RegistryReader
    from potato_ray.registry.runs import Run

EXIT_INTERRUPTED = 130
CLEAR_UP_S = 120.0
LOOK_EVERY_S = 0.2
NEXT = "the next `potato-ray training run` or server"
NEXT_SERVER = "the next server (potato-ray start)"


def run_training(
    config: Path,
    trainer: str,
    schemas: Sequence[str],
    params: Sequence[str],
    backend: str,
    *,
    accept_licence: bool,
    as_json: bool,
) -> int:
    """Start a run, follow it, print its end.

    Answers 0 for success, 1 for an error, 130 when cancelled by Ctrl-C, 143 or 129 when SIGTERM or
    SIGHUP ended this process and left the run.
    """
    loaded = load(config)
    request = StartRequest(
        trainer=trainer,
        schemas=tuple(schemas),
        params=parse_params(params),
        backend=backend,
        accept_licence=accept_licence,
    )
    try:
        run, interrupted = train(loaded, request)
    except Terminated as terminated:
        return terminated.exit_code
    if as_json:
        print_json(run.as_json())
    else:
        for line in end_lines(run, loaded.task_dir):
            out(line)
    if interrupted:
        return EXIT_INTERRUPTED
    return 0 if run.state == State.SUCCESS else 1


def train(config: ProjectConfig, request: StartRequest) -> tuple[Run, bool]:
    """One run from start to end; the ended run, and whether Ctrl-C ended it.

    A server that holds the project is asked for it; without one the project is held for this run.
    Raises Terminated at SIGTERM or SIGHUP, after the project has been given back.
    """
    request = replace(request, idempotency_key=uuid.uuid4().hex)
    server = server_of(config)
    if server is not None:
        return _train_there(server, config, request)
    plan = plan_new_start(config, request)  # refuse before Ray is started
    _require_no_agent(config, plan.backend)
    return _train_here(config, request, plan.backend)


def _require_no_agent(config: ProjectConfig, backend: str) -> None:
    """Agents ask a server for work; without one they would never hear of the run."""
    if is_agent_backend(config, backend):
        raise StartRefused(
            f"A run on {backend} waits for an agent, and agents ask a server for work.",
            code="no_server",
            evidence="No server has the project at present.",
            next_step="Start one with potato-ray start, then start the run.",
        )


def _train_there(server: Server, config: ProjectConfig, request: StartRequest) -> tuple[Run, bool]:
    say(f"starting it on the server at {server.url}")
    with Termination() as termination, server:
        with _told_of_ctrl_c(
            termination,
            "the start may have reached the server: potato-ray training runs shows whether it did",
        ):
            run_id = server.start(request)
        return _follow(server, config, run_id, termination)


def _train_here(config: ProjectConfig, request: StartRequest, backend: str) -> tuple[Run, bool]:
    say("starting")
    with Termination() as termination, contextlib.ExitStack() as stack:
        with _told_of_ctrl_c(termination, "stopped; no run was made"):
            from potato_ray.actors.session import Session

            session = Session(config, purpose="potato-ray training run")
            session.hold()
            stack.callback(session.close)
            # First of all: the controller takes up every run that was left, those on other machines too.
            stack.enter_context(_answering_agents(config, needed=starts_agents(config, backend)))
            session.bring_up()
            termination.check()
        with _told_of_ctrl_c(
            termination, "stopped; a run may have been made: potato-ray training runs shows whether it was"
        ):
            answer = session.insist("start", request)
        if not answer["started"]:
            raise StartRefused(
                answer["error"],
                code=answer["error_code"],
                evidence=answer["evidence"],
                next_step=answer["next_step"],
            )
        run, interrupted = _follow(_Here(session, config), config, answer["run_id"], termination)
        if run.ended and starts_agents(config, backend):
            _let_clear_up(config.training_dir / "runs" / run.run_id, termination.sleep)
        return run, interrupted


def _let_clear_up(folder: Path, sleep: Callable[[float], object]) -> None:
    """A run that was cancelled or lost has ended before its host is cleared up; that is waited for."""
    from potato_ray.backends.remote_note import is_followed

    told = False
    try:
        for _ in range(int(CLEAR_UP_S / LOOK_EVERY_S)):
            if not is_followed(folder):
                return
            if not told:
                say("clearing up on the host; Ctrl-C leaves that to the next run there")
            told = True
            sleep(LOOK_EVERY_S)
    except KeyboardInterrupt:
        return


def _answering_agents(config: ProjectConfig, *, needed: bool) -> contextlib.AbstractContextManager[None]:
    """Answer the agents of runs on other machines; without a socket only where this run needs none."""
    from potato_ray.server.agent_socket import is_wanted

    if not is_wanted(config.model_training):
        return contextlib.nullcontext()
    from potato_ray.cli.agents_here import answering_agents

    return answering_agents(config, needed=needed)


@contextlib.contextmanager
def _told_of_ctrl_c(termination: Termination, words: str) -> Iterator[None]:
    """Say what a Ctrl-C in the block has come to; SIGTERM and SIGHUP may find nobody at the terminal."""
    try:
        yield
    except KeyboardInterrupt:
        if not termination.received:
            say(words)
        raise


class Holder(Protocol):
    """Whoever holds the project while a run is followed."""

    def is_alive(self) -> bool: ...

    def cancel(self, run_id: str) -> object: ...

    def left(self, run: Run) -> str:
        """What becomes of a run that is not followed any more."""

    def lost(self, run: Run) -> Conflict:
        """The error that this holder does not answer any more."""


class _Here:
    """This process holds the project."""

    def __init__(self, session: Session, config: ProjectConfig) -> None:
        self._session = session
        self._config = config

    def is_alive(self) -> bool:
        return self._session.is_alive()

    def cancel(self, run_id: str) -> object:
        return self._session.insist("cancel", run_id)

    def left(self, run: Run) -> str:
        return left(self._config, run)

    def lost(self, run: Run) -> Conflict:
        return controller_lost(run.run_id)


def _follow(holder: Holder, config: ProjectConfig, run_id: str, termination: Termination) -> tuple[Run, bool]:
    from potato_ray.cli.progress import follow
    from potato_ray.cli.runs import reader_of

    reader = reader_of(config)

    def follow_to_end() -> Run:
        return follow(reader, run_id, alive=holder.is_alive, lost=holder.lost, sleep=termination.sleep)

    try:
        return follow_to_end(), False
    except KeyboardInterrupt:
        _leave_if_terminated(termination, holder, reader, run_id)
        say(f"cancelling {run_id}; Ctrl-C again leaves it to end by itself")
    try:
        _cancel(holder, run_id)
        return follow_to_end(), True
    except KeyboardInterrupt:
        _leave_if_terminated(termination, holder, reader, run_id)
        say(holder.left(reader.run(run_id)))
        return reader.run(run_id), True


def _leave_if_terminated(
    termination: Termination, holder: Holder, reader: RegistryReader, run_id: str
) -> None:
    """When it was no Ctrl-C: say what becomes of the run, and raise Terminated."""
    if not termination.received:
        return
    with contextlib.suppress(OSError):  # a SIGHUP's terminal is gone
        say(f"stopped by {signal.Signals(termination.received).name}; {holder.left(reader.run(run_id))}")
    termination.check()


def _cancel(holder: Holder, run_id: str) -> None:
    try:
        holder.cancel(run_id)
    except PotatoRayError as refused:
        say(refused.message)


def left(config: ProjectConfig, run: Run) -> str:
    """What becomes of a run that nobody follows any more."""
    training = config.model_training
    at_agent = is_agent_backend(config, run.backend)
    if run.ended:
        return f"run {run.run_id} has ended: {run.state}"
    if run.state not in (State.RUNNING, State.EVALUATING):
        by = NEXT_SERVER if at_agent else NEXT
        return f"run {run.run_id} is left as it is ({run.state}); {by} takes it up"
    if at_agent:
        return _left_at_agent(config, run)
    if run.cancel_requested_at:
        latest = training.survive_s + training.grace_seconds
        cancel = f"potato-ray training cancel {run.run_id[-6:]} {shlex.quote(str(config.path))}"
        return (
            f"run {run.run_id} is left while it is being cancelled; its worker ends within {latest:.0f} s "
            f"at the latest, and {NEXT}, or `{cancel}`, records the end"
        )
    return (
        f"run {run.run_id} goes on by itself for {training.survive_s:.0f} s and is ended then, "
        f"unless {NEXT} takes it up"
    )


def _left_at_agent(config: ProjectConfig, run: Run) -> str:
    """The same for a run that an agent has in hand, which only a server hears."""
    from potato_ray.backends.making import lost_after_s

    within_s = lost_after_s(config, run.backend)
    if run.cancel_requested_at:
        return (
            f"run {run.run_id} is left while it is being cancelled; without a server its agent does not "
            f"hear of it and ends it after {within_s:.0f} s, and {NEXT_SERVER} records the end"
        )
    return (
        f"run {run.run_id} goes on at its agent for {within_s:.0f} s and is ended then, unless {NEXT_SERVER} "
        "takes it up"
    )
