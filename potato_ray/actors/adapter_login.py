"""How a run gets its backend's login: asks the SlurmAdapter for it, and joins it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import ray
import ray.exceptions

from potato_ray.errors import Cancelled, PotatoRayError
from potato_ray.ssh import Connection, Destination, JoinedLogin, SshFailed, SshTimeout

T = TypeVar("T")

START_S: Final = 30.0
"""For an adapter that has to be started first; a login takes up to twice connect_timeout_s besides."""
WHY_S: Final = 5.0
LOOK_EVERY_S: Final = 0.2


class AdapterLogin:
    """One for each run, for any of its threads: what Means.login is for runs that share a login.

    `adapter_for` gives the adapter that a login to a destination is asked of, started if there is none.
    """

    def __init__(self, adapter_for: Callable[[Destination], Any]) -> None:
        self._adapter_for = adapter_for
        self._adapter: Any = None

    def __call__(self, destination: Destination, stop: Callable[[], bool]) -> Connection:
        """Join the login, which is made if there is none. Raises SshFailed; Cancelled once `stop` says so."""

        def beside(full: Sequence[str], stop: Callable[[], bool]) -> JoinedLogin:
            return self._joined(
                destination, full, stop, lambda path: JoinedLogin(destination, path, self._why)
            )

        return self._joined(
            destination, (), stop, lambda path: Connection.join(destination, path, self._why, beside)
        )

    def _joined(
        self,
        destination: Destination,
        full: Sequence[str],
        stop: Callable[[], bool],
        join: Callable[[str], T],
    ) -> T:
        """What `join` makes of the control path of a login that stands, and is not `full`."""
        ends_at = time.monotonic() + START_S + 2 * destination.connect_timeout_s
        while True:
            if self._adapter is None:
                self._adapter = self._adapter_for(destination)
            try:
                path = self._asked(self._adapter.login.remote(list(full)), destination, ends_at, stop)
            except ray.exceptions.RayActorError as lost:
                self._adapter = None
                failure = _adapter_ended(destination, lost)
            else:
                try:
                    return join(path)
                except SshFailed as gone:  # it ended between the answer and now
                    failure = gone
            if time.monotonic() >= ends_at:
                raise failure
            if stop():
                raise _given_up(destination)
            time.sleep(LOOK_EVERY_S)

    def _asked(self, answer: Any, destination: Destination, ends_at: float, stop: Callable[[], bool]) -> str:
        """The control path in an adapter's answer."""
        while not ray.wait([answer], timeout=LOOK_EVERY_S)[0]:
            if stop():
                raise _given_up(destination)
            if time.monotonic() >= ends_at:
                raise _unanswered(destination)
        try:
            return str(ray.get(answer, timeout=WHY_S))
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, PotatoRayError):
                raise error.cause from None
            raise

    def _why(self, control_path: str) -> SshFailed | None:
        """What the adapter knows of a login's end; one that has been started since knows nothing."""
        if self._adapter is None:
            return None
        try:
            told: SshFailed | None = ray.get(self._adapter.why_lost.remote(control_path), timeout=WHY_S)
        except ray.exceptions.RayError:
            return None
        return told


def _given_up(destination: Destination) -> Cancelled:
    return Cancelled(f"The connection to {destination.host} was given up on request.")


def _adapter_ended(destination: Destination, lost: Exception) -> SshFailed:
    return SshFailed(
        f"ssh to {destination.host} failed: The process that keeps the login here has ended, again and again",
        evidence=(str(lost).splitlines() or [""])[0],
        next_step="Look what ends processes on this machine (memory?); the next try starts another.",
    )


def _unanswered(destination: Destination) -> SshTimeout:
    return SshTimeout(
        f"ssh to {destination.host} failed: The process that keeps the login here did not answer",
        next_step="See whether this machine is overloaded; the next try asks again.",
    )
