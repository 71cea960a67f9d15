"""A slow line in place of the workstation's cable: delay, rate and loss, without the kernel's own netem.

Two TUN devices, and between them this module as a program of its own, which hands the packets on when
they are due. It is told `cut` and `mend` on its input, and ends, with its devices, at the end of that.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from nat import Nat
from parts import missing

READY = "ready"
TUN = Path("/dev/net/tun")
TIMEOUT_S = 20.0
QUEUE_S = 0.4
"""What waits longer for the line than this is dropped, as routers do."""
CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN_WITHOUT_HEADER = 0x1001
PACKET_BYTES = 65536
PACKETS_AT_ONCE = 64


class SlowLink:
    """Joins the workstation of a Nat to its router, for the length of a `with` block. Needs root.

    `delay_ms` and `rate_mbit` hold for each direction; `loss` is the share of packets that is lost.
    """

    def __init__(self, nat: Nat, *, delay_ms: float, rate_mbit: float, loss: float = 0.0) -> None:
        self._nat = nat
        self._line = ("--delay-ms", str(delay_ms), "--rate-mbit", str(rate_mbit), "--loss", str(loss))

    def __enter__(self) -> SlowLink:
        if not TUN.exists():
            missing(f"there is no {TUN}")
        nat = self._nat
        _ip(nat.workstation, "link", "del", "toward")
        ends = (nat.workstation, "toward", nat.router, "inner")
        self._relay = subprocess.Popen(
            [sys.executable, __file__, *ends, *self._line],
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

    def close(self) -> None:
        """End the relay; there is no cable afterwards."""
        try:
            self._relay.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._relay.kill()
            self._relay.communicate()

    def _tell(self, word: str) -> None:
        assert self._relay.stdin is not None
        self._relay.stdin.write(word + "\n")
        self._relay.stdin.flush()

    def _wait_until_ready(self) -> None:
        out = self._relay.stdout
        assert out is not None
        if not select.select([out], [], [], TIMEOUT_S)[0] or out.readline().strip() != READY:
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


@dataclass
class Direction:
    """The packets from one device to the other. Times are seconds of the monotonic clock."""

    source: int
    target: int
    delay_s: float
    bytes_per_s: float
    loss: float
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque)
    free_at: float = 0.0

    def take(self, is_cut: bool) -> None:
        """Read what has come; each packet is due once the line has carried it."""
        for _ in range(PACKETS_AT_ONCE):
            try:
                packet = os.read(self.source, PACKET_BYTES)
            except OSError:
                return  # there is no more, or the device is down
            if not is_cut and random.random() >= self.loss:
                self._send(packet)

    def hand_on(self, is_cut: bool) -> None:
        """Write what is due."""
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            _, packet = self.waiting.popleft()
            try:
                if not is_cut:
                    os.write(self.target, packet)
            except OSError:
                pass  # the device is down, or full: the packet is lost

    def _send(self, packet: bytes) -> None:
        now = time.monotonic()
        if self.free_at - now <= QUEUE_S:
            self.free_at = max(self.free_at, now) + len(packet) / self.bytes_per_s
            self.waiting.append((self.free_at + self.delay_s, packet))


def relay(devices: list[int], delay_s: float, bytes_per_s: float, loss: float) -> None:
    """Hand packets on until the input ends."""
    orders, is_cut = sys.stdin.fileno(), False
    ways = [
        Direction(source, target, delay_s, bytes_per_s, loss) for source, target in (devices, devices[::-1])
    ]
    while True:
        for way in ways:
            way.hand_on(is_cut)
        due = min((way.waiting[0][0] for way in ways if way.waiting), default=time.monotonic() + 1.0)
        readable, _, _ = select.select([orders, *devices], [], [], max(0.0, due - time.monotonic()))
        if orders in readable:
            order = os.read(orders, 100).decode()
            if not order:
                return
            is_cut = order.split()[-1] == "cut"
        for way in ways:
            if way.source in readable:
                way.take(is_cut)


def _tun(name: str, device: str) -> int:
    """A TUN device in a namespace. This process stays in that namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"setns {name}")
    os.close(namespace)
    descriptor = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH14x", device.encode(), IFF_TUN_WITHOUT_HEADER))
    return descriptor


def _main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("first", "first_device", "second", "second_device"):
        parser.add_argument(name)
    for name in ("--delay-ms", "--rate-mbit", "--loss"):
        parser.add_argument(name, type=float, required=True)
    told = parser.parse_args()
    devices = [_tun(told.first, told.first_device), _tun(told.second, told.second_device)]
    print(READY, flush=True)  # noqa: T201 - heard by the test
    relay(devices, told.delay_ms / 1000, told.rate_mbit * 1e6 / 8, told.loss)


if __name__ == "__main__":
    _main()
