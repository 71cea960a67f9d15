"""Letting in the agents that the server starts itself: the lease of an attempt, and tokens for its run.

The lease is made once for an attempt and lies in the run's folder, readable by us alone: an agent that takes
the job up again shows the same. A token is made for each agent, and known by its sha256 alone.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING

from potato_ray.agent.protocol import LEASE_BYTES
from potato_ray.agent_tokens import digest_of, new_token
from potato_ray.backends.grants import Grant
from potato_ray.errors import Conflict, ProjectUnwritable
from potato_ray.mirror.folder import ClaimNote, MirrorFolder
from potato_ray.registry.runs import Run

if TYPE_CHECKING:
    from potato_ray.actors.controller import RunController


class Granting:
    """Gives out runs to agents of our own."""

    def __init__(self, controller: RunController) -> None:
        self.controller = controller

    async def claim_for_us(self, run: Run) -> None:
        """Take an attempt in hand for the agent that will be started, unless that was done.

        Raises ProjectUnwritable.
        """
        try:
            await asyncio.to_thread(self._claim, run)
        except OSError as failure:
            raise ProjectUnwritable.because(failure, "The run's folder") from failure

    def _claim(self, run: Run) -> None:
        mirror = MirrorFolder(self.controller.run_folder(run.run_id))
        if mirror.read_lease(run.attempt) is not None and _is_claimed(mirror, run.attempt):
            return
        mirror.clear()
        lease = secrets.token_hex(LEASE_BYTES)
        mirror.write_lease(run.attempt, lease)
        mirror.write_claim(ClaimNote(run.attempt, digest_of(lease), {}, time.time()))

    async def grant(self, run_id: str, attempt: int) -> Grant:
        """One more token for a run at work, and the lease of its attempt. Raises NotFound, Conflict."""
        mirror = MirrorFolder(self.controller.run_folder(run_id))
        lease = await asyncio.to_thread(mirror.read_lease, attempt)
        if lease is None:
            raise Conflict(
                f"Attempt {attempt} of run {run_id} is not given to an agent of the server's own.",
                code="stale_attempt",
                next_step="Let go of it; another one has taken over.",
            )
        token = new_token()
        registry = self.controller.registry
        await self.controller.write_surely(registry.put_run_token, run_id, attempt, digest_of(token))
        return Grant(token, lease)


def _is_claimed(mirror: MirrorFolder, attempt: int) -> bool:
    claim = mirror.read_claim()
    return claim is not None and claim.attempt == attempt
