"""Who is an agent: the bearer of the token of a backend, or of a run. An agent is no admin, and an admin
key is no token.

The tokens' digests are kept in memory, so neither a wrong token nor a right one costs a look into the
registry each time, and all of them are compared, so the time tells nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from starlette.types import Scope

from potato_ray.agent.protocol import UNKNOWN_PROTOCOL, VERSION, VERSION_HEADER
from potato_ray.agent_tokens import digest_of
from potato_ray.errors import PotatoRayError
from potato_ray.registry.agents import RunToken, TokenRecord
from potato_ray.server.context import Unavailable
from potato_ray.server.origins import header_values
from potato_ray.server.problems import Rejected
from potato_ray.server.throttle import Throttle

logger = logging.getLogger(__name__)

FRESH_S = 1.0
"""How long a token that was replaced by another process may still be taken."""
WRONG_TOKENS = 60
"""Of one address within a minute; after them, further wrong ones are told to wait. Right ones never are."""


@dataclass(frozen=True)
class Admitted:
    """For whom a token is good: a backend, and with `run_id` that run alone."""

    backend: str
    run_id: str | None = None


@dataclass(frozen=True)
class Agent:
    """A request of an agent: whose token it bears. The token is for hiding it alone."""

    backend: str
    token: str = field(repr=False)
    run_id: str | None = None


class BackendTokenReader(Protocol):
    """What reads the tokens of backends: a RegistryReader."""

    def token_of(self, backend: str) -> TokenRecord | None: ...


class RunTokenReader(Protocol):
    """What reads the tokens of runs: a RegistryReader."""

    def run_tokens(self) -> list[RunToken]: ...


Digests = Mapping[str, Admitted]
"""For whom each token is good, by the token's sha256 in hex."""


def of_backends(backends: Iterable[str], reader: BackendTokenReader) -> Callable[[], Digests]:
    """Reads the present tokens of backends: for agents that somebody has started."""
    names = tuple(backends)

    def read() -> Digests:
        records = (reader.token_of(backend) for backend in names)
        return {record.token_sha256: Admitted(record.backend) for record in records if record is not None}

    return read


def of_runs(reader: RunTokenReader) -> Callable[[], Digests]:
    """Reads the tokens of runs: for agents that the server itself starts, one for each run."""
    return lambda: {each.token_sha256: Admitted(each.backend, each.run_id) for each in reader.run_tokens()}


class Tokens:
    """Tokens that `read` gives, looked up again after FRESH_S. `clock` is monotonic seconds.

    `look_again`: also for a token that is unknown, which may have been made since the last look.
    """

    def __init__(
        self,
        read: Callable[[], Digests],
        clock: Callable[[], float] = time.monotonic,
        *,
        look_again: bool = False,
    ) -> None:
        self._read = read
        self._clock = clock
        self._look_again = look_again
        self._digests: Digests | None = None
        self._fresh_until = float("-inf")
        self._reading = asyncio.Lock()

    async def whose(self, token: str) -> Admitted | None:
        """For whom this token is good at present. Raises Unavailable where none can be read."""
        found = _found(await self._known(), token)
        if found is None and self._look_again:
            self.forget()
            found = _found(await self._known(), token)
        return found

    def read(self) -> Digests:
        """Every token as the registry has it now, in a thread. Raises PotatoRayError, sqlite3.Error."""
        return self._read()

    def forget(self) -> None:
        """A token has been replaced: look again before the next answer."""
        self._fresh_until = float("-inf")

    async def _known(self) -> Digests:
        async with self._reading:
            if self._digests is None or self._clock() >= self._fresh_until:
                now = self._clock()
                self._digests = await self._read_again()
                self._fresh_until = now + FRESH_S
            return self._digests

    async def _read_again(self) -> Digests:
        try:
            return await asyncio.to_thread(self._read)
        except (PotatoRayError, sqlite3.Error) as error:
            if self._digests is None:
                raise _unreadable() from error
            logger.warning("the tokens could not be read, those of before go on: %s", error)
            return self._digests


def _found(digests: Digests, token: str) -> Admitted | None:
    found, sent = None, digest_of(token)
    for digest, admitted in digests.items():
        if hmac.compare_digest(digest, sent):
            found = admitted
    return found


class AgentKeeper:
    """Lets agents in. Works in memory."""

    def __init__(self, tokens: Tokens, throttle: Throttle | None = None) -> None:
        self.tokens = tokens
        self._throttle = throttle or Throttle(guesses=WRONG_TOKENS)

    async def admit(self, scope: Scope) -> Agent:
        """The agent that sent this. Raises Rejected: 401, or 429 for one wrong token too many."""
        token = bearer_token(scope)
        admitted = await self.tokens.whose(token)
        if admitted is not None and token:
            return Agent(admitted.backend, token, admitted.run_id)
        if token:
            self._count_wrong(scope)
        raise not_admitted()

    def _count_wrong(self, scope: Scope) -> None:
        client = scope.get("client")
        wait_s = self._throttle.judge(client[0] if client else None, right=False)
        if wait_s:
            raise Rejected(
                429,
                "Too many wrong tokens came from this address.",
                code="too_many_guesses",
                evidence="Agents with the right token are not affected.",
                next_step=f"Correct the token, and try again in {wait_s} s.",
                headers={"Retry-After": str(wait_s)},
            )


def bearer_token(scope: Scope) -> str:
    """The token that a request bears; "" for none, and for what is not of that form."""
    sent = header_values(scope, "authorization")
    scheme, _, token = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else ""


def not_admitted() -> Rejected:
    """The one answer to a token that is missing, malformed, unknown, replaced, or of another backend."""
    return Rejected(
        401,
        "This needs the token of the backend.",
        code="agent_token_refused",
        next_step="Send Authorization: Bearer with the token that 'potato-ray training register' has shown; "
        "registering again replaces it.",
        headers={"WWW-Authenticate": 'Bearer realm="potato_ray"'},
    )


def check_protocol(scope: Scope) -> None:
    """Raises Rejected (400, unknown_protocol), which names both versions."""
    sent = ", ".join(header_values(scope, VERSION_HEADER.lower()))
    if sent == str(VERSION):
        return
    raise Rejected(
        400,
        "Agent and server do not speak the same version of the protocol.",
        code=UNKNOWN_PROTOCOL,
        evidence=f"The server speaks version {VERSION}; the request's header {VERSION_HEADER} says "
        f"{sent[:40] or 'nothing'}.",
        next_step="Use an agent of the server's version: GET /api/training/agent.pyz is one.",
    )


def _unreadable() -> Unavailable:
    return Unavailable(
        "The tokens of the agents cannot be read at present.",
        next_step=f"Try again in {Unavailable.retry_after_s} seconds.",
    )
