"""A server and a workstation in network namespaces, and between them a router that hides the workstation.

workstation 10.77.1.2 ── router (masquerades) ── server 10.77.2.2     the server has no route back
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

from parts import missing, need_command

SERVER = "10.77.2.2"
TIMEOUT_S = 20.0
CLONE_NEWNET = 0x40000000
T = TypeVar("T")


class Nat:
    """The network, for the length of a `with` block. Needs root, iproute2 and iptables."""

    def __init__(self) -> None:
        tag = secrets.token_hex(2)
        self.workstation, self.router, self.server = f"prws{tag}", f"prrt{tag}", f"prsv{tag}"
        self._names: list[str] = []

    def __enter__(self) -> Nat:
        for command in ("ip", "iptables"):
            need_command(command)
        if os.geteuid():
            missing("network namespaces need root")
        try:
            self._build()
        except subprocess.CalledProcessError as failure:
            self.close()
            missing(f"there can be no network namespaces here: {failure.stderr}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def inside(self, name: str) -> list[str]:
        """What to put in front of a command that shall run in a namespace."""
        return ["ip", "netns", "exec", name]

    def within(self, name: str, work: Callable[[], T]) -> T:
        """Do some work in a thread of this process whose sockets belong to a namespace."""
        with ThreadPoolExecutor(1, initializer=_enter, initargs=(name,)) as thread:
            return thread.submit(work).result(timeout=60.0)

    def forget(self) -> None:
        """The router forgets every connection, as at a restart: no packet finds its way back any more."""
        for state in ("down", "up"):
            _run("ip", "-n", self.router, "link", "set", "outer", state)

    @contextlib.contextmanager
    def resetting(self) -> Iterator[None]:
        """The router ends every connection in which anybody says a word, for the length of a `with` block."""
        rule = ("FORWARD", "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset")
        self._router("iptables", "-I", *rule)
        try:
            yield
        finally:
            self._router("iptables", "-D", *rule)

    def close(self) -> None:
        """Everything in it goes with the namespaces."""
        while self._names:
            subprocess.run(
                ["ip", "netns", "del", self._names.pop()], capture_output=True, check=False, timeout=TIMEOUT_S
            )

    def _build(self) -> None:
        for name in (self.workstation, self.router, self.server):
            _run("ip", "netns", "add", name)
            self._names.append(name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
        self._join(self.workstation, "10.77.1.2/24", "toward", "10.77.1.1/24", "inner")
        self._join(self.server, f"{SERVER}/24", "toward", "10.77.2.1/24", "outer")
        _run("ip", "-n", self.workstation, "route", "add", "default", "via", "10.77.1.1")
        self._router("sysctl", "-qw", "net.ipv4.ip_forward=1")
        # Random ports: a connection that was forgotten is another one when it is seen again.
        hidden = ("-s", "10.77.1.0/24", "-o", "outer", "-j", "MASQUERADE", "--random-fully")
        self._router("iptables", "-t", "nat", "-A", "POSTROUTING", *hidden)
        self._router("iptables", "-P", "FORWARD", "DROP")
        self._router("iptables", "-A", "FORWARD", "-i", "inner", "-o", "outer", "-j", "ACCEPT")
        answers = ("-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j", "ACCEPT")
        self._router("iptables", "-A", "FORWARD", "-i", "outer", "-o", "inner", *answers)

    def _join(self, name: str, address: str, device: str, router_address: str, router_device: str) -> None:
        veth = ("type", "veth", "peer", "name", router_device, "netns", self.router)
        _run("ip", "link", "add", device, "netns", name, *veth)
        for where, what, which in ((name, address, device), (self.router, router_address, router_device)):
            _run("ip", "-n", where, "addr", "add", what, "dev", which)
            _run("ip", "-n", where, "link", "set", which, "up")

    def _router(self, *command: str) -> None:
        _run(*self.inside(self.router), *command)


def _enter(name: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(f"/run/netns/{name}", os.O_RDONLY)
    try:
        if libc.setns(descriptor, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {name}")
    finally:
        os.close(descriptor)


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
