"""Where agents come in: what all their routes share, one for each application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import anyio
import anyio.to_thread
from fastapi import Depends, FastAPI, Request, Response
from starlette.requests import ClientDisconnect

from potato_ray.errors import NotFound, ProjectUnwritable
from potato_ray.mirror.mirror import Holder, Mirror, mirror_of
from potato_ray.mirror.refusals import Malformed, TooLarge, stale
from potato_ray.registry.runs import Run
from potato_ray.registry.states import ACTIVE
from potato_ray.run_lookup import run_folder
from potato_ray.server.agent_access import (
    Agent,
    AgentKeeper,
    Tokens,
    check_protocol,
    not_admitted,
    of_backends,
    of_runs,
)
from potato_ray.server.agent_headers import holder_of, lease_of
from potato_ray.server.agent_polls import Polls
from potato_ray.server.agent_sightings import Sightings
from potato_ray.server.context import ServerContext
from potato_ray.server.problems import Rejected

T = TypeVar("T")

THREADS = 16
"""For the files of all agents together: pages and admins keep theirs."""


class Door:
    """All on the application's event loop. `keeper` says who comes in, and for which runs."""

    def __init__(self, context: ServerContext, keeper: AgentKeeper, polls: Polls) -> None:
        self.context = context
        self.keeper = keeper
        self.polls = polls
        self.sightings = Sightings(context.controller)
        self._threads = anyio.CapacityLimiter(THREADS)

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        """Call what works with files. Raises what it raises, and Rejected for what the mirror refuses."""
        try:
            return await anyio.to_thread.run_sync(function, *args, limiter=self._threads)
        except Malformed as error:
            raise rejected(400, error) from error
        except TooLarge as error:
            raise rejected(413, error) from error
        except OSError as failure:
            raise ProjectUnwritable.because(failure, "The folder of the run") from failure

    def note(self, agent: Agent, said: Mapping[str, Any], run_id: str = "") -> None:
        """An agent was heard of. Those that the server has started for a run are not listed."""
        if agent.run_id is None:
            self.sightings.note(agent.backend, said, run_id)

    def may_leave(self, agent: Agent, said: Mapping[str, Any]) -> None:
        """An agent has hung up, or has ended its job, and may not come back."""
        if agent.run_id is None:
            self.sightings.may_leave(agent.backend, said)

    def run_of(self, job: AgentJob) -> Run:
        """The row of the run, in a thread. Raises NotFound, Rejected (401) for one of another backend."""
        if job.agent.run_id not in (None, job.run_id):
            raise _unknown(job.run_id)
        run = self.context.reader.run(job.run_id)
        if run.made_by != "potato_ray" or run_folder(self.context.config, run.run_id) is None:
            raise _unknown(job.run_id)
        if run.backend != job.agent.backend:
            raise not_admitted()
        return run

    def present_run(self, job: AgentJob) -> Run:
        """The same, for the attempt that goes on. Raises Conflict (stale_attempt) besides."""
        run = self.run_of(job)
        self.require_present(run, job)
        return run

    @staticmethod
    def require_present(run: Run, job: AgentJob) -> None:
        """Raises Conflict (stale_attempt) for an attempt that does not go on."""
        if run.state not in ACTIVE:
            raise stale(f"The run is {run.status}.")
        if run.attempt != job.holder.attempt:
            raise stale(f"Its present attempt is {run.attempt}.")

    def mirror(self, job: AgentJob) -> Mirror:
        """The mirror of a run whose row was found."""
        path = run_folder(self.context.config, job.run_id)
        if path is None:
            raise _unknown(job.run_id)
        return mirror_of(path)


@dataclass(frozen=True)
class AgentJob:
    """A request about a job: the agent, the run, and what it shows to have it in hand."""

    agent: Agent
    run_id: str
    holder: Holder
    lease: str = field(repr=False)

    @property
    def secrets(self) -> tuple[str, str]:
        """What must not be written anywhere."""
        return self.agent.token, self.lease


def door_for_backends(context: ServerContext) -> Door:
    """For the agents that people start, with the tokens of their backends."""
    tokens = Tokens(of_backends(context.config.model_training.backends, context.reader))
    return Door(context, AgentKeeper(tokens), Polls(context, tokens=tokens))


def door_for_runs(context: ServerContext) -> Door:
    """For the agents that the server starts, with the tokens of their runs alone."""
    return Door(context, AgentKeeper(Tokens(of_runs(context.reader), look_again=True)), Polls(context))


def install(app: FastAPI, door: Door) -> None:
    """Let the routes of an application find the door."""
    app.state.agent_door = door
    app.add_exception_handler(ClientDisconnect, _hung_up)


async def _hung_up(request: Request, error: Exception) -> Response:
    """Nobody reads it any more."""
    return Response(status_code=400)


async def door_of(request: Request) -> Door:
    """The door of the application that serves this request."""
    door: Door = request.app.state.agent_door
    return door


ItsDoor = Annotated[Door, Depends(door_of)]


async def bearer(request: Request, door: ItsDoor) -> Agent:
    """The agent that sent this, whatever protocol it speaks. Raises Rejected (401, 429)."""
    return await door.keeper.admit(request.scope)


async def speaking_agent(request: Request, door: ItsDoor) -> Agent:
    """The agent that sent this, in our version of the protocol. Raises Rejected (400, 401, 429)."""
    check_protocol(request.scope)
    return await door.keeper.admit(request.scope)


async def agent_job(
    request: Request, run_id: str, agent: Annotated[Agent, Depends(speaking_agent)]
) -> AgentJob:
    """The job that a request is about. Raises Rejected (400) besides."""
    lease = lease_of(request.scope)
    return AgentJob(agent, run_id, holder_of(request.scope, lease), lease)


Bearer = Annotated[Agent, Depends(bearer)]
Speaking = Annotated[Agent, Depends(speaking_agent)]
Job = Annotated[AgentJob, Depends(agent_job)]


def rejected(status: int, error: Malformed | TooLarge) -> Rejected:
    """What the mirror does not take, as an answer."""
    return Rejected(
        status, error.message, code=error.code, evidence=error.evidence, next_step=error.next_step
    )


def _unknown(run_id: str) -> NotFound:
    return NotFound(
        f"No such run: {run_id}"[:300],
        code="unknown_run",
        next_step="Stop the worker, clear up, and ask for the next job.",
    )
