"""A real sshd that is some way off: everything takes its time to it and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from nat import SERVER, Nat
from slow_link import SlowLink
from sshd import Sshd

RATE_MBIT = 1000.0
"""Of the link; the program that carries its packets sets the real limit."""


@contextmanager
def far_sshd(rtt_ms: float, env: Mapping[str, str] | None = None) -> Iterator[Sshd]:
    """An Sshd that answers after `rtt_ms` at the earliest, which needs root; on loopback where that is 0.

    `env`: what is set for every session there.
    The `ssh` in its `bin` goes there from the other side of the link, whoever calls it.
    """
    if not rtt_ms:
        with Sshd(env=env) as near:
            yield near
        return
    with (
        Nat() as nat,
        SlowLink(nat, delay_ms=rtt_ms / 2, rate_mbit=RATE_MBIT),
        Sshd(address=SERVER, inside=nat.inside(nat.server), env=env) as far,
    ):
        wrapper = far.bin / "ssh"
        there = " ".join(nat.inside(nat.workstation))
        wrapper.write_text(wrapper.read_text().replace("exec ", f"exec {there} ", 1))
        yield far
