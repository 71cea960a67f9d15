"""What an agent does with a job: asks for it, reports, and says how it ended."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from potato_ray.agent.protocol import CLAIM, MAX_PROGRESS_BYTES, OTHER_BACKEND, PREFIX, job_path
from potato_ray.agent_tokens import digest_of
from potato_ray.mirror.refusals import EventsMissing, Malformed
from potato_ray.server.agent_access import Agent
from potato_ray.server.agent_claim import MAX_BYTES, Claim, claim_of
from potato_ray.server.agent_door import AgentJob, Door, ItsDoor, Job, Speaking, rejected
from potato_ray.server.agent_taking import Taken, take_progress, take_result
from potato_ray.server.openapi import json_body, problems
from potato_ray.server.problems import Rejected, answer
from potato_ray.server.run_answers import json_answer
from potato_ray.server.uploads import whole_body

router = APIRouter(tags=["agents"])

MAX_RESULT_BYTES = 2 * 2**20
STREAMED = (
    ("POST", re.compile(re.escape(CLAIM))),
    ("POST", re.compile(re.escape(PREFIX) + r"/jobs/[^/]+/(progress|result)")),
    ("PUT", re.compile(re.escape(PREFIX) + r"/jobs/[^/]+/predictions")),
)
"""The routes that read their bodies themselves, once it is known who sends them."""

RunId = Annotated[str, Path(description="The run's identifier.", min_length=1, max_length=255)]
_PAGE = "docs/agent-protocol.md has the fields."


@router.post(
    CLAIM,
    operation_id="claim_job",
    summary="Ask for a job",
    response_model=None,
    responses={
        200: {"description": "The job."},
        204: {"description": "There was none; ask again at once, with the same lease."},
        **problems(409, 503),
    },
    openapi_extra=json_body(f"lease, wait_s, backend and agent; {_PAGE}"),
)
async def claim_job(door: ItsDoor, agent: Speaking, request: Request) -> Response:
    """A long poll. Sent again with the same lease it is answered with the same job."""
    claim = _claim(await whole_body(request, MAX_BYTES))
    _check_backend(claim, agent)
    door.note(agent, claim.agent)
    gone = asyncio.ensure_future(_gone(request))
    lease_sha256 = digest_of(claim.lease)
    try:
        job = await door.polls.claim(
            agent.backend,
            lease_sha256,
            claim.agent,
            claim.wait_s,
            gone,
            agent.run_id,
            digest_of(agent.token),
        )
    finally:
        hung_up = gone.done()
        gone.cancel()
    if job is None and hung_up and not door.polls.has(lease_sha256, claim.agent):
        door.may_leave(agent, claim.agent)
    if job is None:
        return Response(status_code=204)
    door.note(agent, claim.agent, str(job.get("run_id", "")))
    return json_answer(job)


def _claim(raw: bytes) -> Claim:
    """The claim in a body; so short that it needs no thread. Raises Rejected (400)."""
    try:
        return claim_of(raw)
    except Malformed as error:
        raise rejected(400, error) from error


def _check_backend(claim: Claim, agent: Agent) -> None:
    """Raises Rejected (409) where an agent wants the runs of another backend than that of its token."""
    asked, whose = claim.backend, agent.backend
    if asked in ("", whose):
        return
    shown = asked[:100] if asked.isprintable() else "another one"
    raise Rejected(
        409,
        f"The token is that of backend {whose}, and the agent asks for runs of {shown}.",
        code=OTHER_BACKEND,
        next_step=f"Start the agent with --backend {shlex.quote(whose)}, or with the token that 'potato-ray "
        "training register' has shown for the other one.",
    )


async def _gone(request: Request) -> None:
    """Returns when the client hangs up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


@router.post(
    job_path("{run_id}", "progress"),
    operation_id="report_job_progress",
    summary="Report what a job says",
    response_model=None,
    responses={
        200: {"description": "Whether to cancel, and the number of the next event."},
        **problems(404, 409, 507),
    },
    openapi_extra=json_body(f"first_seq, events, notes and alive; {_PAGE}"),
)
async def report_job_progress(door: ItsDoor, job: Job, request: Request, run_id: RunId) -> Response:
    """Events that are there are passed over; 409 with `next_seq` where some are missing before these."""
    return await _taken(door, job, take_progress, await whole_body(request, MAX_PROGRESS_BYTES))


@router.post(
    job_path("{run_id}", "result"),
    operation_id="report_job_result",
    summary="Say how a job ended",
    response_model=None,
    responses={200: {"description": "It has been taken."}, **problems(404, 409, 507)},
    openapi_extra=json_body(f"exit, next_seq, artifact_uri, stderr_tail, agent_log and failure; {_PAGE}"),
)
async def report_job_result(door: ItsDoor, job: Job, request: Request, run_id: RunId) -> Response:
    """409 while events or predictions are missing. The same result is taken again, also after the end."""
    return await _taken(door, job, take_result, await whole_body(request, MAX_RESULT_BYTES))


async def _taken(
    door: Door, job: AgentJob, take: Callable[[Door, AgentJob, bytes], Taken], raw: bytes
) -> Response:
    """The answer to what was sent of a job."""
    try:
        taken = await door.in_thread(take, door, job, raw)
    except EventsMissing as missing:
        body: dict[str, Any] = {**missing.as_dict(), "next_seq": missing.next_seq}
        return answer(409, body)
    if taken.agent:
        door.note(job.agent, taken.agent, job.run_id if taken.in_hand else "")
    if taken.agent and not taken.in_hand:
        door.may_leave(job.agent, taken.agent)
    return json_answer(taken.answer)
