"""A slow line in place of the workstation's cable: delay, rate and loss, without the kernel's own netem.

It can be cut for a while, or at the very packet that carries a certain request or its answer: see
packet_relay.py, the program that carries the packets.
"""

from __future__ import annotations

import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

import packet_relay
from nat import Nat
from parts import missing

TIMEOUT_S = 20.0
DEADLINE_S = 60.0


class SlowLink:
    """Joins the workstation of a Nat to its router, for the length of a `with` block. Needs root.

    `delay_ms` and `rate_mbit` hold for each direction; `loss` is the share of packets that is lost.
    """

    def __init__(self, nat: Nat, *, delay_ms: float, rate_mbit: float, loss: float = 0.0) -> None:
        self._nat = nat
        self._rate_mbit = rate_mbit
        self._forgotten = 0
        self._line = ("--delay-ms", str(delay_ms), "--rate-mbit", str(rate_mbit), "--loss", str(loss))

    def __enter__(self) -> SlowLink:
        if not Path(packet_relay.TUN).exists():
            missing(f"there is no {packet_relay.TUN}")
        nat = self._nat
        _ip(nat.workstation, "link", "del", "toward")
        ends = (nat.workstation, "toward", nat.router, "inner")
        self._record = tempfile.NamedTemporaryFile("r")
        self._relay = subprocess.Popen(
            [sys.executable, packet_relay.__file__, *ends, *self._line, "--record", self._record.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self._wait_until_ready()
            self._give_addresses()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def cut(self) -> None:
        """Drop every packet, those on their way included, without a word to either side."""
        self._tell("cut")

    def mend(self) -> None:
        self._tell("mend")

    def set_rate(self, mbit: float | None = None) -> None:
        """Carry so much from now on, in each direction; None: as much as in the beginning."""
        self._tell(f"rate {self._rate_mbit if mbit is None else mbit}")

    def restore(self) -> None:
        """Whole again, of its first rate, with no cut ahead, and nothing on record."""
        self.set_rate()
        self.mend()
        self._forgotten += len(self.record())

    def cut_at(self, what: str, path: str) -> None:
        """Cut at the next request whose path has `path` in it, or at the answer to one.

        A "request" or an "answer" is the first that is lost, without a word. "reset" is an answer in whose
        place the connection ends, so that TCP cannot send it again.
        """
        self._tell(f"cut-at {what} {path}")

    def wait_until_cut(self) -> None:
        """Wait until what `cut_at` was told has come about."""
        deadline = time.monotonic() + DEADLINE_S
        while packet_relay.CUT not in self.record():
            assert time.monotonic() < deadline, f"it never came to that: {self.record()}"
            time.sleep(0.02)

    def record(self) -> list[str]:
        """The requests so far, METHOD PATH RANGE each, and `cut` where `cut_at` came about."""
        self._record.seek(0)
        return self._record.read().splitlines()[self._forgotten :]

    def close(self) -> None:
        """End the relay; there is no cable afterwards."""
        try:
            self._relay.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._relay.kill()
            self._relay.communicate()
        self._record.close()

    def _tell(self, order: str) -> None:
        assert self._relay.stdin is not None
        self._relay.stdin.write(order + "\n")
        self._relay.stdin.flush()

    def _wait_until_ready(self) -> None:
        out = self._relay.stdout
        assert out is not None
        if not select.select([out], [], [], TIMEOUT_S)[0] or out.readline().strip() != packet_relay.READY:
            missing("there can be no TUN devices in network namespaces here")

    def _give_addresses(self) -> None:
        nat = self._nat
        for name, device, address in (
            (nat.workstation, "toward", "10.77.1.2/24"),
            (nat.router, "inner", "10.77.1.1/24"),
        ):
            _ip(name, "addr", "add", address, "dev", device)
            _ip(name, "link", "set", device, "up")
        _ip(nat.workstation, "route", "add", "default", "via", "10.77.1.1")


def _ip(name: str, *command: str) -> None:
    subprocess.run(["ip", "-n", name, *command], capture_output=True, check=True, timeout=TIMEOUT_S)
