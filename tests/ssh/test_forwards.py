"""Reverse forwards of unix sockets: private, through the login that is there, refused with the reason."""

from __future__ import annotations

import http.client
import shutil
import socket
import socketserver
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from sshd import Accounts, Sshd

from potato_ray.ssh import Connection, Destination, SshFailed

ENDED = (ConnectionRefusedError, ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected)
"""What somebody over there may see of a forward that has ended or leads nowhere."""
BODY = bytes(range(256)) * 4096


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=20)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self._path)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short folder with mode 0700, as the ones on a host are."""
    made = Path(tempfile.mkdtemp(prefix="prt-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def local_socket(folder: Path) -> Iterator[str]:
    """The server's socket, on which one answers with what it was sent."""
    path = str(folder / "server")
    with socketserver.ThreadingUnixStreamServer(path, Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield path
        server.shutdown()
        thread.join()


def ask(path: str) -> bytes:
    """What comes back for a large body, twice over one connection."""
    connection = UnixConnection(path)
    try:
        connection.request("POST", "/", body=BODY)
        connection.getresponse().read()
        connection.request("POST", "/", body=BODY)
        return connection.getresponse().read()
    finally:
        connection.close()


def test_requests_on_the_host_reach_the_socket_here(
    connection: Connection, folder: Path, local_socket: str
) -> None:
    connection.forward(f"{folder}/s", local_socket)
    assert ask(f"{folder}/s") == BODY


def test_the_socket_over_there_is_its_owners_alone(
    accounts: Accounts, sshd_with: Callable[..., Sshd], local_socket: str
) -> None:
    sshd_with([accounts.with_shell("bash")])
    with Connection.open(Destination("gpubox")) as connection:
        remote = Path(connection.run("mktemp -d /tmp/prt-XXXXXX", timeout_s=20).text.strip())
        connection.forward(f"{remote}/s", local_socket)
        try:
            # Its folder opened to all, for the socket's own mode to be seen.
            connection.run(f"chmod 755 {remote}", timeout_s=20)
            assert stat.S_IMODE((remote / "s").stat().st_mode) == 0o600
            trying = f"import socket; socket.socket(socket.AF_UNIX).connect('{remote}/s')"
            # A Python that everybody may run: that of the tests may lie in somebody's home.
            python = shutil.which("python3", path="/usr/bin") or sys.executable
            nobody = ["setpriv", "--reuid", "nobody", "--clear-groups", python, "-c", trying]
            refused = subprocess.run(nobody, capture_output=True, text=True, timeout=20, check=False)
            assert "Permission denied" in refused.stderr
        finally:
            shutil.rmtree(remote)


def test_a_socket_that_is_there_already_is_named(
    connection: Connection, folder: Path, local_socket: str
) -> None:
    (folder / "s").touch()
    with pytest.raises(SshFailed, match="The forwarded socket could not be made there") as failure:
        connection.forward(f"{folder}/s", local_socket)
    assert "remote port forwarding failed for listen path" in failure.value.evidence
    assert f"whether {folder}/s is there already" in failure.value.next_step
    assert connection.run("echo well", timeout_s=20).out == b"well\n"


def test_a_folder_that_is_not_there_is_named(connection: Connection, folder: Path, local_socket: str) -> None:
    with pytest.raises(SshFailed, match="The forwarded socket could not be made there"):
        connection.forward(f"{folder}/none/s", local_socket)


def test_the_file_stays_after_the_forward_and_can_be_replaced(
    connection: Connection, folder: Path, local_socket: str
) -> None:
    connection.forward(f"{folder}/s", local_socket)
    connection.cancel_forward(f"{folder}/s", local_socket)
    assert (folder / "s").exists()
    with pytest.raises(ENDED):
        ask(f"{folder}/s")
    connection.run(f"rm -f {folder}/s", timeout_s=20)
    connection.forward(f"{folder}/s", local_socket)
    assert ask(f"{folder}/s") == BODY


def test_a_new_connection_takes_the_path_over_from_an_old_one(
    connection: Connection, folder: Path, local_socket: str
) -> None:
    connection.forward(f"{folder}/s", f"{folder}/nobody")
    with Connection.open(Destination("gpubox")) as second:
        second.run(f"rm -f {folder}/s", timeout_s=20)
        second.forward(f"{folder}/s", local_socket)
        assert ask(f"{folder}/s") == BODY


def test_a_forward_whose_near_end_is_not_there_ends_a_request_at_once(
    connection: Connection, folder: Path
) -> None:
    connection.forward(f"{folder}/s", f"{folder}/nobody")
    with pytest.raises(ENDED):
        ask(f"{folder}/s")
    assert connection.run("echo well", timeout_s=20).out == b"well\n"


def test_cancelling_a_forward_twice_is_no_failure(
    connection: Connection, folder: Path, local_socket: str
) -> None:
    connection.forward(f"{folder}/s", local_socket)
    connection.cancel_forward(f"{folder}/s", local_socket)
    connection.cancel_forward(f"{folder}/s", local_socket)
    assert connection.is_alive


@pytest.mark.parametrize("path", ["relative/s", "/tmp/a:b", "/tmp/" + "x" * 103])
def test_a_path_that_no_socket_can_have_is_refused_before_it_is_asked_for(
    connection: Connection, local_socket: str, path: str
) -> None:
    with pytest.raises(SshFailed, match="The path of a socket cannot be used"):
        connection.forward(path, local_socket)


def test_the_longest_path_works(connection: Connection, folder: Path, local_socket: str) -> None:
    path = f"{folder}/".ljust(107, "x")
    connection.forward(path, local_socket)
    assert ask(path) == BODY


@pytest.mark.parametrize(
    "line",
    [
        "AllowStreamLocalForwarding no",
        "AllowStreamLocalForwarding local",
        "DisableForwarding yes",
        "AllowTcpForwarding no",
    ],
)
def test_a_host_that_forwards_nothing_is_named_with_the_settings(
    line: str, sshd_with: Callable[..., Sshd], folder: Path, local_socket: str
) -> None:
    sshd_with(extra=f"{line}\n")
    with Connection.open(Destination("gpubox")) as connection:
        with pytest.raises(SshFailed) as failure:
            connection.forward(f"{folder}/s", local_socket)
        assert connection.run("echo well", timeout_s=20).out == b"well\n"
    assert failure.value.message == "ssh to gpubox failed: It refuses to forward a unix socket"
    for setting in ("AllowStreamLocalForwarding", "AllowTcpForwarding", "DisableForwarding", "restrict"):
        assert setting in failure.value.next_step


def test_a_key_that_may_forward_nothing_is_named(
    sshd_with: Callable[..., Sshd], folder: Path, local_socket: str
) -> None:
    sshd = sshd_with()
    keys = sshd.folder / "authorized_keys"
    keys.write_text("restrict " + keys.read_text())
    with Connection.open(Destination("gpubox")) as connection, pytest.raises(SshFailed) as failure:
        connection.forward(f"{folder}/s", local_socket)
    assert failure.value.message == "ssh to gpubox failed: It refuses to forward a unix socket"


def test_a_mask_of_the_hosts_that_opens_sockets_does_not_open_a_private_folder(
    sshd_with: Callable[..., Sshd], folder: Path, local_socket: str
) -> None:
    sshd_with(extra="StreamLocalBindMask 0000\n")
    with Connection.open(Destination("gpubox")) as connection:
        connection.forward(f"{folder}/s", local_socket)
        assert stat.S_IMODE((folder / "s").stat().st_mode) == 0o777
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert ask(f"{folder}/s") == BODY
