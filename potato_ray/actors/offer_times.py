"""How long runs have waited on offer. Time counts only while a slot is free: else no agent gets any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Offer = tuple[str, float | None]
"""The run, and since when it is on offer."""


@dataclass
class Waited:
    """Seconds of one offer: with a free slot, and without one."""

    free_s: float = 0.0
    full_s: float = 0.0


class OfferTimes:
    """Counts from look to look. `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._offers: dict[Offer, Waited] = {}
        self._looked_at = clock()
        self._was_free = True

    def look(self, *, is_free: bool) -> None:
        """Count the time since the last look; `is_free`: whether there is a free slot now.

        Of a change in between nobody knows when it was, so that time is taken for one without a slot.
        """
        now = self._clock()
        passed, self._looked_at = now - self._looked_at, now
        for waited in self._offers.values():
            if is_free and self._was_free:
                waited.free_s += passed
            else:
                waited.full_s += passed
        self._was_free = is_free

    def add(self, offer: Offer, waited: Waited) -> None:
        """Count an offer too, directly behind a look; it has waited so long already."""
        self._offers[offer] = waited

    def of(self, offer: Offer) -> Waited | None:
        """What is known of an offer; None: nothing."""
        return self._offers.get(offer)

    def keep(self, offers: set[Offer]) -> None:
        """Forget all others."""
        self._offers = {offer: waited for offer, waited in self._offers.items() if offer in offers}
