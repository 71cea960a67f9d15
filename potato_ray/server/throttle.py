"""Guesses at the admin key, counted by the address that they come from."""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

GUESSES = 5
FORWARDED_GUESSES = 50
"""Of all addresses together that were only said: whoever says another one with each guess has no more."""
WINDOW_S = 60.0
ADDRESSES = 10_000
"""The most addresses that are remembered: a few megabytes; the one heard of longest ago goes first."""


class Throttle:
    """After `guesses` wrong keys within `window_s`, an address waits; after FORWARDED_GUESSES, all that
    are forwarded. Safe to use in threads.

    `clock` gives seconds that never run backwards.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        guesses: int = GUESSES,
        window_s: float = WINDOW_S,
        addresses: int = ADDRESSES,
    ) -> None:
        self._clock = clock
        self._guesses = guesses
        self._window_s = window_s
        self._addresses = addresses
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        self._forwarded: deque[float] = deque()
        self._lock = threading.Lock()

    def judge(self, host: str | None, right: bool, forwarded: bool = False) -> int:
        """Count one guess from `host`; whole seconds that it has to wait, 0 when the guess counts.

        `forwarded`: that it comes from there was only said (forwarding.py).

        A right key is not let through either while its address waits, or waiting would tell which
        key is right. Judging and counting are one step: guesses side by side gain nothing.
        """
        address = network_of(host)
        with self._lock:
            now = self._clock()
            wrong = self._recent(address, now)
            together = self._fresh(self._forwarded, now)
            wait_s = self._wait_s(wrong, self._guesses, now)
            if forwarded:
                wait_s = max(wait_s, self._wait_s(together, FORWARDED_GUESSES, now))
            if not wait_s and not right:
                self._remember(address, wrong, now)
                if forwarded:
                    together.append(now)
            return wait_s

    def __len__(self) -> int:
        return len(self._wrong)

    def _recent(self, address: str, now: float) -> deque[float]:
        wrong = self._fresh(self._wrong.get(address, deque()), now)
        if not wrong:
            self._wrong.pop(address, None)
        return wrong

    def _fresh(self, wrong: deque[float], now: float) -> deque[float]:
        while wrong and wrong[0] <= now - self._window_s:
            wrong.popleft()
        return wrong

    def _wait_s(self, wrong: deque[float], most: int, now: float) -> int:
        return max(1, math.ceil(wrong[0] + self._window_s - now)) if len(wrong) >= most else 0

    def _remember(self, address: str, wrong: deque[float], now: float) -> None:
        wrong.append(now)
        self._wrong[address] = wrong
        self._wrong.move_to_end(address)
        if len(self._wrong) > self._addresses:
            self._wrong.popitem(last=False)


def network_of(host: str | None) -> str:
    """What counts as one address: an IPv4 address, or the /64 that an IPv6 host has to itself.

    None (a unix socket) and names are addresses of their own.
    """
    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        return (host or "")[:255]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), 64), strict=False))
