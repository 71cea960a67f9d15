"""One thread sends while another reads, as paramiko does when it reads ahead."""

from __future__ import annotations

import os
import threading

from potato_ray.ssh.pipes import Pipes
from potato_ray.ssh.sftp import SftpPipe

DATA = b"".join(number.to_bytes(4, "big") for number in range(400_000))


def test_what_comes_keeps_its_order_whoever_takes_it_in() -> None:
    pipe = SftpPipe(Pipes(["cat"], dict(os.environ)), 20.0)

    def send() -> None:
        at = 0
        while at < len(DATA):
            at += pipe.send(DATA[at : at + 64])

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    got = bytearray()
    try:
        while len(got) < len(DATA):
            got += pipe.recv(1 << 15)
    finally:
        sender.join(20.0)
        pipe.close()
    assert got == DATA
