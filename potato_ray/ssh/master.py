"""One login: an ssh that stays, and the control socket through which everything else goes."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, cast

from potato_ray.errors import Cancelled
from potato_ray.ssh import keeper
from potato_ray.ssh.control_folder import control_path, new_folder
from potato_ray.ssh.deadline import Deadline
from potato_ray.ssh.destination import Destination
from potato_ray.ssh.failures import SshFailed, could_not_start, explain, too_slow
from potato_ray.ssh.login import Login, ended_here, find_ssh
from potato_ray.ssh.options import master_command
from potato_ray.ssh.tail import Tail
from potato_ray.ssh.version import options_of_its_version

CLOSE_TIMEOUT_S = 10.0
_STEP_S = 0.01
_WORDS_S = 1.0


class Master(Login):
    """A login of this process's own, which goes with it; `extra` are options of ssh.

    Raises SshFailed where there is none to be had, Cancelled as soon as `stop` says so.
    """

    def __init__(
        self,
        destination: Destination,
        stop: Callable[[], bool] | None = None,
        extra: Sequence[str] = (),
    ) -> None:
        ssh = find_ssh(destination.host)
        folder = _new_folder(destination.host)
        super().__init__(destination, ssh, str(control_path(folder)), folder)
        self._greeting = ""
        try:
            self._start(extra)
            self._wait_until_ready(stop)
        except OSError as error:
            self.close()
            raise could_not_start(destination.host, error) from error
        except BaseException:
            self.close()
            raise

    @property
    def is_alive(self) -> bool:
        """Whether ssh still runs; it ends by itself when the host no longer answers."""
        return self._keeper.poll() is None

    @property
    def words(self) -> str:
        """What ssh has said so far."""
        return self._errors.text

    def lost(self, wait_s: float = 0.0) -> SshFailed | None:
        """Why there is no connection any more; None while there is one, and for so long from now on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._keeper.wait(wait_s)
        if self.is_alive:
            return None
        self._errors.wait_for_end(_WORDS_S)
        code = self._keeper.returncode
        # A banner, or a warning at the login, says nothing of the end.
        words = self.words.removeprefix(self._greeting)
        if not words.strip():
            return ended_here(self.destination.host, f"(nothing; its process ended with code {code})")
        return explain(self.destination.host, words, code=code)

    def close(self) -> None:
        """End ssh and remove its folder."""
        if hasattr(self, "_keeper"):
            self._end_keeper()
            self._errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, extra: Sequence[str]) -> None:
        options = [*extra, *options_of_its_version(self.ssh)]
        command = master_command(self.ssh, self.destination, self.control_path, options)
        kept = [sys.executable, "-I", "-S", keeper.__file__, str(os.getpid()), str(self.folder), *command]
        self._keeper = subprocess.Popen(
            kept,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=self.environment,
            start_new_session=True,
        )
        self._lifeline = cast(IO[bytes], self._keeper.stdin)
        self._errors = Tail(cast(IO[bytes], self._keeper.stderr))

    def _wait_until_ready(self, stop: Callable[[], bool] | None) -> None:
        # As long for the login as for the connection: ssh itself limits the second alone.
        deadline = Deadline(2 * self.destination.connect_timeout_s)
        while not Path(self.control_path).exists():
            if not self.is_alive:
                self._errors.wait_for_end(_WORDS_S)
                raise explain(self.destination.host, self.words, code=self._keeper.returncode)
            if stop is not None and stop():
                raise Cancelled(f"The connection to {self.destination.host} was given up on request.")
            if deadline.passed:
                raise self._too_slow(deadline.timeout_s)
            time.sleep(_STEP_S)
        self._greeting = self.words

    def _too_slow(self, timeout_s: float) -> SshFailed:
        error = too_slow(self.destination.host, "It did not log in", timeout_s)
        error.evidence = f"ssh says: {self.words.strip()}" if self.words.strip() else ""
        return error

    def _end_keeper(self) -> None:
        with contextlib.suppress(OSError):
            self._lifeline.close()
        try:
            self._keeper.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait(CLOSE_TIMEOUT_S)
        if Path(self.control_path).exists():
            # The keeper was killed, so its ssh is nobody's child by now.
            with contextlib.suppress(SshFailed):
                self.order("exit", timeout_s=CLOSE_TIMEOUT_S)


def _new_folder(host: str) -> Path:
    try:
        return new_folder()
    except OSError as error:
        raise could_not_start(host, error) from error
