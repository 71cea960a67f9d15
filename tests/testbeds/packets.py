"""TCP in IPv4 packets: whose they are, what they carry, and the reset that ends a connection."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

TCP = 6
RESET_WITH_ACK = 0x14
TTL = 64
_REQUEST = re.compile(rb"(GET|POST|PUT) (\S+) HTTP/1\.1\r\n")
_RANGE = re.compile(rb"\r\nRange: (\S+)\r\n")


@dataclass(frozen=True)
class Segment:
    """What one packet carries of a connection; addresses are four bytes each."""

    source: bytes
    target: bytes
    source_port: int
    target_port: int
    seq: int
    ack: int
    payload: bytes

    @property
    def request(self) -> str:
        """The request that begins here, METHOD PATH RANGE with "-" for none; "" where none begins."""
        begin = _REQUEST.match(self.payload)
        if begin is None:
            return ""
        part = _RANGE.search(self.payload)
        return b" ".join((*begin.groups(), part[1] if part else b"-")).decode("ascii")


def segment_of(packet: bytes) -> Segment | None:
    """The segment in a packet; None for what is no TCP."""
    if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != TCP:
        return None
    begin = (packet[0] & 15) * 4
    numbers = struct.unpack_from("!HHII", packet, begin)
    payload = packet[begin + (packet[begin + 12] >> 4) * 4 : int.from_bytes(packet[2:4], "big")]
    return Segment(packet[12:16], packet[16:20], *numbers, payload)


def reset_for(segment: Segment) -> bytes:
    """The packet that ends a connection for whoever was to get this segment next."""
    ends = segment.source + segment.target
    internet = struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0, TTL, TCP, 0) + ends
    ports = (segment.source_port, segment.target_port)
    tcp = struct.pack("!HHIIBBHHH", *ports, segment.seq, segment.ack, 5 << 4, RESET_WITH_ACK, 0, 0, 0)
    pseudo = ends + struct.pack("!BBH", 0, TCP, len(tcp))
    return _summed(internet, internet, at=10) + _summed(tcp, pseudo + tcp, at=16)


def _summed(header: bytes, over: bytes, at: int) -> bytes:
    """The header with its checksum over some bytes of even number."""
    total = sum(struct.unpack(f"!{len(over) // 2}H", over))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return header[:at] + struct.pack("!H", total ^ 0xFFFF) + header[at + 2 :]
