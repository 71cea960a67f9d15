"""Telling of ended runs: each notice that the registry holds is sent to the webhook until it is settled."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from potato_ray import webhook
from potato_ray.config.models import Notify, ProjectConfig
from potato_ray.hiding import hide_paths
from potato_ray.job.folder import read_json
from potato_ray.registry.notices import Notice
from potato_ray.registry.store import Registry
from potato_ray.webhook import Answer, Message

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger(__name__)

AFTER_TROUBLE_S = 60.0
LAST_CHANCE_S = 2.0
LET_GO_S = 1.0


class Notifier:
    """Sends notices one after the other, in a task of its own.

    `write` calls a method of the registry and waits while that cannot be written; `page_of` gives the
    address of a run's page.
    """

    def __init__(
        self,
        settings: Notify,
        registry: Registry,
        write: Callable[..., Awaitable[Any]],
        page_of: Callable[[str], str | None],
        *,
        clock: Callable[[], float] = time.time,
        environ: Mapping[str, str] = os.environ,
        timeout_s: float = webhook.TIMEOUT_S,
    ) -> None:
        self.settings = settings
        self.registry = registry
        self._write = write
        self._page_of = page_of
        self._clock = clock
        self._environ = environ
        self._timeout_s = timeout_s
        self._place = webhook.shown(settings.url)
        self._woken = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Deliver what is left from before, and from now on whatever comes."""
        self._task = asyncio.get_running_loop().create_task(self._live())

    def wake(self) -> None:
        """Look for notices: a run may have ended."""
        self._idle.clear()
        self._woken.set()

    async def close(self, patience_s: float = LAST_CHANCE_S) -> None:
        """Try what is due once more, for at most `patience_s`, and stop; the registry keeps the rest.

        Takes LET_GO_S longer at the most.
        """
        task, self._task = self._task, None
        if task is None:
            return
        self.wake()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), patience_s)
        task.cancel()
        await asyncio.wait({task}, timeout=LET_GO_S)

    async def _live(self) -> None:
        while True:
            self._woken.clear()
            try:
                wait_s = await self.deliver_due()
            except Exception as error:  # noqa: BLE001 - its text or traceback could hold the address
                logger.error("notices could not be looked at: %s", type(error).__name__)
                wait_s = AFTER_TROUBLE_S
            if not self._woken.is_set():
                self._idle.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), wait_s)

    async def deliver_due(self) -> float | None:
        """Try every notice that is due; seconds until the next one is, None when there is none."""
        while (notice := await self._write(self.registry.first_notice)) is not None:
            wait_s: float = notice.next_try_at - self._clock()
            if wait_s > 0:
                return wait_s
            await self._settle(notice, await self._try(notice))
        return None

    async def _try(self, notice: Notice) -> Answer:
        variable = self.settings.secret_env
        secret = self._environ.get(variable) if variable else None
        if variable and not secret:
            return Answer(False, f"was not asked: {variable}, which is to hold the secret, is not set")
        page = await asyncio.to_thread(self._page_of, notice.run_id)
        facts = without_paths(notice.facts, self.registry.path.parent)
        told = webhook.message(facts, notice.delivery_id, page, self._clock(), secret)
        return await post(self.settings.url, told, self._timeout_s, self._clock)

    async def _settle(self, notice: Notice, answer: Answer) -> None:
        if answer.delivered:
            said = f"The webhook was delivered: {self._place} {answer.said}."
            await self._write(self.registry.settle_notice, notice, said)
            return
        said = f"The webhook could not be delivered: {self._place} {answer.said}"
        at = webhook.next_try_at(notice.created_at, notice.tries + 1, self._clock(), answer.retry_after_s)
        if answer.final or at is None:
            said = f"{said}. It was given up after try {notice.tries + 1}; see model_training.notify."
            await self._write(self.registry.settle_notice, notice, said, "warning")
        else:
            said = f"{said}; next try in {_pause(at - self._clock())}."
            await self._write(self.registry.postpone_notice, notice, at, said)


def without_paths(facts: Mapping[str, Any], project: Path) -> dict[str, Any]:
    """The facts of a notice as anybody may read them: whoever receives it is not on this machine."""
    shown = {name: hide_paths(facts[name], project) for name in ("error", "next_step") if facts.get(name)}
    return {**facts, **shown}


def page_of(config: ProjectConfig, run_id: str) -> str | None:
    """The address of a run's page, when a server holds the project and says where it can be reached."""
    try:
        address = (read_json(config.state_dir / "server.json") or {}).get("url")
    except (OSError, ValueError):
        return None
    if not address or not config.model_training.enabled:
        return None
    return f"{str(address).rstrip('/')}/admin/training/runs/{run_id}"


async def post(url: str, told: Message, timeout_s: float, clock: Callable[[], float] = time.time) -> Answer:
    """Send one message; whatever goes wrong is an Answer. The answer's body is not read."""
    try:
        # Its import and its certificates take too long for the event loop.
        client = await asyncio.to_thread(_client, timeout_s)
        async with (
            asyncio.timeout(timeout_s),
            client,
            client.stream("POST", url, content=told.body, headers=told.headers) as response,
        ):
            return webhook.answer_of(response.status_code, response.headers.get("Retry-After"), clock())
    except TimeoutError:
        return Answer(False, f"gave no answer within {timeout_s:g} s")
    except Exception as error:  # noqa: BLE001 - an address that cannot be used must not stop the others
        return Answer(False, f"could not be asked: {_reason(error)}")


def _client(timeout_s: float) -> httpx.AsyncClient:
    import httpx

    # They log whole addresses.
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return httpx.AsyncClient(timeout=timeout_s, follow_redirects=False)


def _reason(error: BaseException) -> str:
    """The failure's kind and the system's own words for it; its text could hold the address."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f"{type(error).__name__} ({cause.strerror})"
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def _pause(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
