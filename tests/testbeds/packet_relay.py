"""A program between two TUN devices: hands packets on when they are due, and can lose a chosen one.

    cut                     drop every packet, those on their way included
    mend                    hand packets on again; there is no cut ahead any more
    rate MBIT               carry so much from now on, in each direction
    cut-at request PATH     cut at the next request whose path has PATH in it: that is the first to be lost
    cut-at answer PATH      cut at the answer to one: that is the first to be lost
    cut-at reset PATH       the same, and the connection ends where it was asked: TCP cannot repeat the answer

come on its input, a line each; it ends, with its devices, at the end of that. The first of the two devices
is that of those who ask. What they ask for is written to the file `--record`, a line each, and `cut` once
a cut-at has come about.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import random
import select
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TextIO

from packets import Segment, reset_for, segment_of

READY, CUT = "ready", "cut"
REQUEST, ANSWER, RESET = "request", "answer", "reset"
TUN = "/dev/net/tun"
QUEUE_S = 0.4
"""What waits longer for the line than this is dropped, as routers do."""
CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN_WITHOUT_HEADER = 0x1001
PACKET_BYTES = 65536
PACKETS_AT_ONCE = 64
ORDER_BYTES = 4096


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

    def take(self) -> list[bytes]:
        """The packets that have come and are not lost by chance."""
        packets: list[bytes] = []
        try:
            while len(packets) < PACKETS_AT_ONCE:
                packets.append(os.read(self.source, PACKET_BYTES))
        except OSError:
            pass  # there is no more, or the device is down
        return [packet for packet in packets if random.random() >= self.loss]

    def send(self, packet: bytes) -> None:
        """Let a packet go when the line has carried it, unless too much waits."""
        now = time.monotonic()
        if self.free_at - now <= QUEUE_S:
            self.free_at = max(self.free_at, now) + len(packet) / self.bytes_per_s
            self.waiting.append((self.free_at + self.delay_s, packet))

    def hand_on(self) -> None:
        """Write what is due."""
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            self.write(self.waiting.popleft()[1])

    def write(self, packet: bytes) -> None:
        """Hand a packet on at once."""
        try:
            os.write(self.target, packet)
        except OSError:
            pass  # the device is down, or full: the packet is lost


class Requests:
    """The requests on the line, by the port of whoever asked; finds the packet at which to cut."""

    def __init__(self, record: TextIO) -> None:
        self._record = record
        self._asked: dict[int, tuple[int, str]] = {}
        self._cut_at: tuple[str, str] | None = None

    def cut_at(self, what: str, path: str) -> None:
        self._cut_at = (what, path)

    def let_pass(self) -> None:
        self._cut_at = None

    def lost(self, segment: Segment, asks: bool) -> str:
        """Note what a segment asks for; what it is where the line is to be cut at it, "" where it is not."""
        wanted, path = self._cut_at or ("", "")
        if asks:
            found = self._note(segment) and wanted == REQUEST and path in segment.request
        else:
            _, request = self._asked.get(segment.target_port, (0, ""))
            found = bool(segment.payload) and wanted in (ANSWER, RESET) and path in request
        if not found:
            return ""
        self._cut_at = None
        self._write(CUT)
        return wanted

    def _note(self, segment: Segment) -> bool:
        """Whether a request begins here that is not sent again by TCP alone."""
        asked = (segment.seq, segment.request)
        if not segment.request or self._asked.get(segment.source_port) == asked:
            return False
        self._asked[segment.source_port] = asked
        self._write(segment.request)
        return True

    def _write(self, line: str) -> None:
        self._record.write(line + "\n")
        self._record.flush()


class Relay:
    """Both directions of one line. The devices are descriptors, those who ask first."""

    def __init__(
        self, devices: list[int], delay_s: float, rate_mbit: float, loss: float, record: TextIO
    ) -> None:
        pairs = (devices, devices[::-1])
        self._ways = [Direction(*pair, delay_s, _bytes_per_s(rate_mbit), loss) for pair in pairs]
        self._requests = Requests(record)
        self._is_cut = False
        self._orders = b""

    def run(self) -> None:
        """Hand packets on until the input ends."""
        orders = sys.stdin.fileno()
        while True:
            self._hand_on()
            due = min(
                (way.waiting[0][0] for way in self._ways if way.waiting), default=time.monotonic() + 1.0
            )
            sources = [way.source for way in self._ways]
            wait_s = max(0.0, due - time.monotonic())
            readable, _, _ = select.select([orders, *sources], [], [], wait_s)
            if orders in readable and not self._read_orders(orders):
                return
            for way in self._ways:
                if way.source in readable:
                    self._take(way)

    def _hand_on(self) -> None:
        for way in self._ways:
            if self._is_cut:
                way.waiting.clear()
            way.hand_on()

    def _take(self, way: Direction) -> None:
        asks = way is self._ways[0]
        for packet in way.take():
            if self._is_cut:
                continue
            segment = segment_of(packet)
            lost = "" if segment is None else self._requests.lost(segment, asks)
            self._is_cut = bool(lost)
            if not lost:
                way.send(packet)
            elif segment is not None and lost == RESET:
                way.write(reset_for(segment))

    def _read_orders(self, orders: int) -> bool:
        """Obey what came; False at the end of the input."""
        came = os.read(orders, ORDER_BYTES)
        *lines, self._orders = (self._orders + came).split(b"\n")
        for line in lines:
            self._obey(*line.decode("ascii").split())
        return bool(came)

    def _obey(self, order: str, *words: str) -> None:
        if order == "cut-at":
            self._requests.cut_at(*words)
        elif order == "rate":
            for way in self._ways:
                way.bytes_per_s = _bytes_per_s(float(words[0]))
        else:
            self._is_cut = order == "cut"
            self._requests.let_pass()


def _bytes_per_s(mbit: float) -> float:
    return mbit * 1e6 / 8


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
    parser.add_argument("--record", required=True)
    told = parser.parse_args()
    devices = [_tun(told.first, told.first_device), _tun(told.second, told.second_device)]
    print(READY, flush=True)  # noqa: T201 - heard by the test
    with open(told.record, "a", encoding="ascii") as record:
        Relay(devices, told.delay_ms / 1000, told.rate_mbit, told.loss, record).run()


if __name__ == "__main__":
    _main()
