"""A connection to a host: commands, forwards and files through one login."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from potato_ray.ssh.answer import Answer, answer
from potato_ray.ssh.channel import REFUSED, Channel
from potato_ray.ssh.deadline import Deadline
from potato_ray.ssh.destination import Destination
from potato_ray.ssh.failures import SshFailed, channel_failure, could_not_start, explain, failed
from potato_ray.ssh.forwarding import refusal, specification
from potato_ray.ssh.joined_login import JoinedLogin, Why
from potato_ray.ssh.login import ORDER_TIMEOUT_S, Login
from potato_ray.ssh.master import Master
from potato_ray.ssh.options import command_channel, sftp_channel
from potato_ray.ssh.pipes import Pipes
from potato_ray.ssh.script import MarkedScript
from potato_ray.ssh.sftp import SftpPipe

MAX_MASTERS = 32
"""Where a host allows few sessions in one connection, so many connections are made at most."""
SFTP_STALL_S = 60.0
_WORDS_S = 1.0

Beside = Callable[[Sequence[str], Callable[[], bool]], Login]
"""Gives a login beside those at these control paths, which are full, unless the second says to stop."""


def _never() -> bool:
    return False


def _unknown(_: str) -> None:
    return None


class Connection:
    """Closed by `close` or at the end of a `with` block; with it everything that goes through it ends.

    Threads may share it. Where the process that has it dies, however, its ssh ends and its folder goes; where
    it has joined a login, that one goes on, and the folder goes with it.
    """

    def __init__(self, master: Login, beside: Beside | None = None) -> None:
        self.destination = master.destination
        self.host = master.destination.host
        self._master = master
        self._beside = beside
        self._more: list[Login] = []
        self._under_way: weakref.WeakSet[Pipes] = weakref.WeakSet()
        self._closed = False
        self._lock = threading.Lock()

    @classmethod
    def open(cls, destination: Destination, stop: Callable[[], bool] | None = None) -> Connection:
        """Log in. Raises SshFailed; Cancelled as soon as `stop` says so."""
        return cls(Master(destination, stop))

    @classmethod
    def join(
        cls, destination: Destination, control_path: str, why: Why = _unknown, beside: Beside | None = None
    ) -> Connection:
        """Go through a login that another process keeps (see SharedLogin). Raises SshFailed.

        `why` asks that process why the login at a control path has ended, `beside` for another one; without
        it this connection logs in by itself where the login has no session left.
        """
        return cls(JoinedLogin(destination, control_path, why), beside)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        """Whether the login stands, as far as is known: a host that is silent is lost after a while only."""
        return self._master.is_alive

    @property
    def folder(self) -> Path:
        """A private folder with a short path, which goes with the login, however this process ends."""
        return self._master.folder

    def lost(self) -> SshFailed | None:
        """Why there is no connection any more; None while there is one."""
        return self._master.lost()

    def run(self, script: str, *, input: bytes = b"", timeout_s: float) -> Answer:  # noqa: A002 - as subprocess.run
        """Run a POSIX sh script to its end, in whatever login shell. Raises SshFailed, SshTimeout.

        Its output is what comes between two marks, so that no start-up file can add to it, and nothing that
        it leaves running can hold up its end.
        """
        deadline = Deadline(timeout_s)
        marked = MarkedScript(script, takes_input=bool(input), is_closed=True)
        with self._channel(marked) as channel:
            if not input:
                channel.end_input()
            channel.wait_for_sentinel(timeout_s)
            return answer(channel, marked, input, deadline)

    def start(self, script: str, stop: Callable[[], bool] = _never) -> Channel:
        """Start a POSIX sh script that stays; the caller closes the channel. Raises SshFailed.

        Once `stop` says so, every wait for that channel ends with Cancelled.
        """
        return self._channel(MarkedScript(script, takes_input=True), stop)

    def forward(self, remote_socket: str, local_socket: str, *, timeout_s: float = ORDER_TIMEOUT_S) -> None:
        """Let who connects to a unix socket on the host come out at one here.

        The socket is made over there with mode 0600, in a folder that is there already; it must not be there
        yet, and it stays when the forward ends. Raises SshFailed, SshTimeout.
        """
        wanted = specification(self.host, remote_socket, local_socket)
        code, words = self._master.forward(wanted, timeout_s)
        if code and self._closed:
            raise _closed_meanwhile(self.host)
        if code:
            raise self._master.lost() or refusal(self._master, wanted, words)

    def cancel_forward(
        self, remote_socket: str, local_socket: str, *, timeout_s: float = ORDER_TIMEOUT_S
    ) -> None:
        """End a forward; what goes through it already goes on. Raises SshFailed, SshTimeout."""
        wanted = specification(self.host, remote_socket, local_socket)
        code, words = self._master.cancel(wanted, timeout_s)
        if code:
            raise self._master.lost() or explain(self.host, words, code=code)

    def sftp(self, *, stall_s: float = SFTP_STALL_S) -> Any:
        """A paramiko.SFTPClient over a channel; the caller closes it. Raises SshFailed.

        Its calls raise TimeoutError when nothing comes for `stall_s`. Leave max_concurrent_prefetch_requests
        of its `get` unset: a limit makes it many times slower.
        """
        # Only who wants files needs it, and it takes a fifth of a second.
        import paramiko  # type: ignore[import-untyped]

        refused: SshFailed | None = None
        for master in self._masters():
            pipes = self._pipes(master, sftp_channel(master.ssh, master.control_path))
            try:
                return paramiko.SFTPClient(SftpPipe(pipes, stall_s))
            except (paramiko.SSHException, paramiko.SFTPError, EOFError, OSError) as error:
                refused = self._no_sftp(master, pipes, error)
                pipes.close()
                if REFUSED not in refused.evidence:
                    break
        raise refused or failed(self.host, "There is no connection", "", "")

    def close(self) -> None:
        """Log out; of a login that was joined, end what is ours alone."""
        with self._lock:
            self._closed = True
            masters, self._more = [*self._more, self._master], []
            under_way = list(self._under_way) if self._master.is_shared else []
        for pipes in under_way:
            pipes.kill()
        for master in masters:
            master.close()

    def _channel(self, marked: MarkedScript, stop: Callable[[], bool] = _never) -> Channel:
        command = marked.command()
        ways = (
            self._pipes(master, command_channel(master.ssh, master.control_path, command))
            for master in self._masters(stop)
        )
        return Channel(self.host, marked, ways, self._master.lost, stop)

    def _masters(self, stop: Callable[[], bool] = _never) -> Iterator[Login]:
        """The login, those that were made beside it, and then new ones: to be tried in turn."""
        lost = self.lost()
        if lost is not None:
            raise lost
        yield self._master
        with self._lock:
            more = [master for master in self._more if master.is_alive]
        yield from more
        tried = [self._master, *more]
        while len(tried) < MAX_MASTERS:
            master = self._one_more(tried, stop)
            yield master
            # Somebody asks for more: even a fresh login may run nothing, and one that others use may be full.
            self._drop(master)
            if not master.is_shared:
                return
            tried.append(master)

    def _one_more(self, tried: list[Login], stop: Callable[[], bool]) -> Login:
        if self._beside is None:
            master: Login = Master(self.destination, stop)
        else:
            master = self._beside([each.control_path for each in tried], stop)
        with self._lock:
            if not self._closed:
                self._more.append(master)
                return master
        master.close()
        raise _closed_meanwhile(self.host)

    def _drop(self, master: Login) -> None:
        with self._lock:
            if master in self._more:
                self._more.remove(master)
        master.close()

    def _pipes(self, master: Login, command: list[str]) -> Pipes:
        try:
            pipes = Pipes(command, master.environment)
        except OSError as error:
            raise could_not_start(self.host, error) from error
        with self._lock:
            self._under_way.add(pipes)
            closed = self._closed
        if closed:  # nobody would end it
            pipes.close()
            raise _closed_meanwhile(self.host)
        return pipes

    def _no_sftp(self, master: Login, pipes: Pipes, error: Exception) -> SshFailed:
        pipes.end_input()
        pipes.wait(_WORDS_S)
        pipes.errors.wait_for_end(_WORDS_S)
        words = pipes.errors.text or f"(nothing) {error or type(error).__name__}"
        return master.lost() or channel_failure(self.host, words, pipes.poll())


def _closed_meanwhile(host: str) -> SshFailed:
    return failed(host, "The connection was closed meanwhile", "", "Open it anew.")
