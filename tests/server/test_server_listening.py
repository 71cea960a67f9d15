"""The server's socket: where it listens, and one clear sentence when it cannot."""

from __future__ import annotations

import asyncio
import socket

import pytest
from fastapi import FastAPI
from parts import missing

from potato_ray.errors import Conflict, PotatoRayError
from potato_ray.server.listening import Listening, bind, bind_next, is_loopback, url_of


def test_port_0_takes_a_free_one_and_the_url_names_it() -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener) == f"http://127.0.0.1:{port}"
        assert is_loopback(listener)


async def _delays(listener: socket.socket) -> bool:
    """Whether what asyncio writes into a connection waits until what it wrote before was received."""
    found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def look(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        found.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async with await asyncio.start_server(look, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname()[:2])
        no_delay = await asyncio.wait_for(found, 10.0)
        writer.close()
    return not no_delay


def test_the_body_of_an_answer_does_not_wait_for_the_receipt_of_its_head() -> None:
    assert not asyncio.run(_delays(bind("127.0.0.1", 0)))


def test_a_port_in_use_is_named_with_the_way_out() -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(Conflict) as refused:
            bind("127.0.0.1", port)
    assert refused.value.code == "port_in_use"
    assert refused.value.message == f"Port {port} is in use by another program."
    assert "--port" in refused.value.next_step


def test_the_next_free_port_is_taken() -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with bind_next("127.0.0.1", port) as second:
            assert second.getsockname()[1] != port


@pytest.mark.parametrize("host", ["203.0.113.7", "no such host"])
def test_an_address_that_is_not_this_machines_is_refused(host: str) -> None:
    with pytest.raises(PotatoRayError) as refused:
        bind(host, 0)
    assert refused.value.code == "cannot_listen"
    assert host in refused.value.message


def test_a_server_on_every_address_is_reached_through_loopback() -> None:
    with bind("0.0.0.0", 0) as listener:  # noqa: S104
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert not is_loopback(listener)


def test_an_ipv6_address_is_written_in_brackets() -> None:
    if not socket.has_ipv6:
        missing("this machine has no IPv6")
    with bind("::1", 0) as listener:
        assert url_of(listener) == f"http://[::1]:{listener.getsockname()[1]}"


def test_a_server_hangs_up_on_who_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("potato_ray.server.connections.HEAD_S", 0.1)
    listener = bind("127.0.0.1", 0)
    address = listener.getsockname()
    server = Listening(FastAPI(), listener, lambda: None)
    server.start()
    try:
        with socket.create_connection(address, timeout=10) as client:
            assert client.recv(1) == b""
    finally:
        server.stop()
