"""What can be said to a login through its control socket, whoever keeps it."""

from __future__ import annotations

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

from potato_ray.ssh.destination import Destination
from potato_ray.ssh.environment import ssh_environment
from potato_ray.ssh.failures import SshFailed, failed, too_slow
from potato_ray.ssh.options import order

ORDER_TIMEOUT_S = 20.0


class Login(ABC):
    """A login to `destination`, whose ssh listens at `control_path`. `folder` is the user's own, and private.

    `is_shared`: others use it as well, so closing it ends nothing by itself.
    """

    is_shared = False

    def __init__(self, destination: Destination, ssh: str, control_path: str, folder: Path) -> None:
        self.destination = destination
        self.ssh = ssh
        self.environment = ssh_environment(os.environ)
        self.control_path = control_path
        self.folder = folder
        self._orders: set[subprocess.Popen[bytes]] = set()

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """Whether ssh still runs; it ends by itself when the host no longer answers."""

    @abstractmethod
    def lost(self, wait_s: float = 0.0) -> SshFailed | None:
        """Why there is no connection any more; None while there is one, and for so long from now on."""

    @abstractmethod
    def close(self) -> None:
        """Leave it."""

    def order(self, name: str, *arguments: str, timeout_s: float = ORDER_TIMEOUT_S) -> tuple[int, str]:
        """Tell the master something; its exit code and words. Raises SshTimeout."""
        with subprocess.Popen(
            order(self.ssh, self.control_path, name, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            start_new_session=True,
        ) as process:
            self._orders.add(process)
            try:
                out, err = process.communicate(timeout=timeout_s)
            except BaseException as failure:
                process.kill()
                if isinstance(failure, subprocess.TimeoutExpired):
                    host = self.destination.host
                    raise too_slow(host, f"It did not do `{name}`", timeout_s) from None
                raise
            finally:
                self._orders.discard(process)
        return process.returncode, (out + err).decode("utf-8", "replace")

    def forward(self, wanted: str, timeout_s: float) -> tuple[int, str]:
        """Ask for a reverse forward, as -R takes it. Raises SshFailed, SshTimeout."""
        return self.order("forward", "-R", wanted, timeout_s=timeout_s)

    def cancel(self, wanted: str, timeout_s: float) -> tuple[int, str]:
        """End a reverse forward. Raises SshFailed, SshTimeout."""
        return self.order("cancel", "-R", wanted, timeout_s=timeout_s)


def find_ssh(host: str) -> str:
    """Where the ssh of this machine is. Raises SshFailed."""
    found = shutil.which("ssh")
    if found is None:
        raise failed(host, "There is no ssh on this machine", "", "Install the OpenSSH client here.")
    return found


def ended_here(host: str, said: str) -> SshFailed:
    """The error for a login whose ssh ended without a word of its own."""
    return failed(
        host,
        "The connection was ended on this machine",
        said,
        "Look who ended ssh here (memory? a restart?); the next try logs in anew.",
    )
