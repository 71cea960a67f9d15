"""A real sshd for the length of a `with` block: own port, own keys, accounts with any login shell.

Root may have other accounts, which are removed afterwards; anybody else gets his own account.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pytest
from parts import missing, need_command

TIMEOUT_S = 20.0
SSHD = "/usr/sbin/sshd"
ALIAS = "gpubox"
SHELLS = ("bash", "dash", "zsh", "tcsh", "bsd-csh", "fish")
"""Login shells that a host may have."""
BASE = """\
Port {port}
ListenAddress {address}
HostKey {folder}/host_ed25519
PidFile {folder}/sshd.pid
AuthorizedKeysFile {folder}/authorized_keys
AllowUsers {users}
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PrintMotd no
Subsystem sftp internal-sftp
"""


@dataclass(frozen=True)
class Account:
    """Somebody who can log in."""

    name: str
    home: Path
    uid: int


class Accounts:
    """Makes accounts, one for each login shell that is asked for, and removes them at the end."""

    def __init__(self) -> None:
        self._made: dict[str, Account] = {}

    def __enter__(self) -> Accounts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for account in self._made.values():
            end_processes_of(account)
            _run_in_turn("userdel", "--force", "--remove", account.name)

    def with_shell(self, shell: str) -> Account:
        """The account whose login shell is that command. Root alone can have one."""
        if shell not in self._made:
            if os.geteuid():
                missing("another account needs root")
            self._made[shell] = _add_account(shell if shell.startswith("/") else need_command(shell))
        return self._made[shell]


class Sshd:
    """An sshd that lets `accounts` in (by default whoever runs the tests), with `extra` lines in its config.

    `env`: what is set for every session there. `inside`: what to put in front of its command, such as a
    network namespace. `bin` holds an `ssh` that knows this sshd as `gpubox`, where `PATH` begins with it;
    the lines of `client` are added for that host.
    """

    def __init__(
        self,
        accounts: Sequence[Account] = (),
        extra: str = "",
        *,
        env: Mapping[str, str] | None = None,
        client: str = "",
        address: str = "127.0.0.1",
        port: int | None = None,
        inside: Sequence[str] = (),
    ) -> None:
        self.accounts = list(accounts) or [own_account()]
        self.address = address
        self.port = port or _free_port()
        self._extra, self._client, self._inside = extra, client, list(inside)
        self._env = dict(env or {})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Sshd:
        if not Path(SSHD).exists():
            missing("openssh-server is not installed")
        need_command("ssh")
        # Short, since sockets lie in it.
        self.folder = Path(tempfile.mkdtemp(prefix="prt-", dir="/tmp"))
        self.folder.chmod(0o755)
        try:
            self._write_files()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bin(self) -> Path:
        """A folder with an `ssh` that reads this place's configuration instead of the user's."""
        return self.folder / "bin"

    @property
    def key(self) -> Path:
        return self.folder / "id"

    @property
    def log(self) -> str:
        """What sshd has said so far."""
        return (self.folder / "sshd.log").read_text(errors="replace")

    @property
    def processes(self) -> list[int]:
        """sshd's own children and theirs, as far as they are still below it."""
        return descendants(self._process.pid) if self._process else []

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the code under test find this place's `ssh`."""
        monkeypatch.setenv("PATH", f"{self.bin}:/usr/local/bin:/usr/bin:/bin:/usr/sbin")

    def configure(self, text: str) -> None:
        """Replace the configuration of `ssh`."""
        (self.folder / "ssh_config").write_text(text)

    def host_block(self, name: str = ALIAS, more: str = "") -> str:
        """The lines by which `ssh` finds this sshd."""
        return f"""\
Host {name}
{more}
{self._client}
  HostName {self.address}
  Port {self.port}
  User {self.accounts[0].name}
  IdentityFile {self.key}
  IdentitiesOnly yes
  UserKnownHostsFile {self.folder}/known_hosts
  GlobalKnownHostsFile /dev/null
"""

    def rewrite(self, old: str, new: str) -> None:
        """Change its own configuration, and start it anew."""
        config = self.folder / "sshd_config"
        config.write_text(config.read_text().replace(old, new))
        self.stop()
        self.start()

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        listening = f"Server listening on {self.address} port {self.port}"
        command = [*self._inside, SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")]
        with (self.folder / "sshd.log").open("ab") as log:
            before = self.log.count(listening)
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)
        ends_at = time.monotonic() + TIMEOUT_S
        while self.log.count(listening) == before:
            if self._process.poll() is not None or time.monotonic() > ends_at:
                raise RuntimeError(f"sshd did not start: {self.log}")
            time.sleep(0.01)

    def stop(self) -> None:
        """End it with all its sessions, first those, so that it is still there to reap them.

        Who tries again all the time is let in meanwhile; that session must not outlive it either.
        """
        if self._process is None:
            return
        end_processes(self.processes)
        late = self._held_still()
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)
        self._process.wait(TIMEOUT_S)
        self._process = None
        _signal_all(late, signal.SIGKILL)

    def _held_still(self) -> set[int]:
        """Stop it where it is, and then those below it, of which each may have made another one meanwhile."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        held: set[int] = set()
        while new := set(self.processes) - held:
            _signal_all(new, signal.SIGSTOP)
            held |= new
        return held

    def end_sessions(self) -> None:
        """kill -9 of all its sessions, but of nothing that they have started; new ones are let in."""
        for pid in self.processes:
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().startswith("sshd"):
                    os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """End it, and remove its files."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write_files(self) -> None:
        for name in ("host_ed25519", "id"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name))
        shutil.copy(self.folder / "id.pub", self.folder / "authorized_keys")
        if not os.geteuid():
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        names = " ".join(account.name for account in self.accounts)
        base = BASE.format(port=self.port, address=self.address, folder=self.folder, users=names)
        if self.accounts == [own_account()]:
            # His own start-up files are not what is tested.
            (self.folder / "home").mkdir()
            self._env.setdefault("HOME", f"{self.folder}/home")
        if self._env:
            # One line: sshd reads the first alone.
            base += f"SetEnv {' '.join(f'{name}={value}' for name, value in self._env.items())}\n"
        (self.folder / "sshd_config").write_text(base + self._extra)
        kind, key, *_ = (self.folder / "host_ed25519.pub").read_text().split()
        (self.folder / "known_hosts").write_text(f"[{self.address}]:{self.port} {kind} {key}\n")
        self.configure(self.host_block())
        self.bin.mkdir()
        wrapper = self.bin / "ssh"
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.folder}/ssh_config "$@"\n')
        wrapper.chmod(0o755)


def own_account() -> Account:
    """Whoever runs the tests."""
    return Account(getpass.getuser(), Path.home(), os.geteuid())


def descendants(pid: int) -> list[int]:
    """The pids below a process, the nearest first."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(0), [])
        found += children
        waiting += children
    return found


def _signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end_processes(pids: Sequence[int]) -> None:
    """SIGTERM, and what is then still there SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal_all(pids, number)
        ends_at = time.monotonic() + 2.0
        while any(is_running(pid) for pid in pids) and time.monotonic() < ends_at:
            time.sleep(0.02)


def end_processes_of(account: Account) -> None:
    """Kill what an account of ours has left running."""
    left = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == account.uid:
                left.append(int(entry.name))
    end_processes(left)


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is more than an entry that nobody has read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _add_account(shell: str) -> Account:
    name = f"prt{secrets.token_hex(3)}"
    _run_in_turn("useradd", "--create-home", "--shell", shell, name)
    # A new account is locked, and sshd lets nobody into one that is.
    _run_in_turn("usermod", "--password", "*", name)
    home = Path("/home") / name
    return Account(name, home, home.stat().st_uid)


def _run_in_turn(*command: str) -> None:
    """Change the accounts; another test process may be at it, and then it is refused."""
    ends_at = time.monotonic() + TIMEOUT_S
    while True:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        if "cannot lock" not in done.stderr or time.monotonic() > ends_at:
            break
        time.sleep(0.1)
    # userdel says so, too, of what is left of a mailbox that never was.
    if done.returncode and "mail spool" not in done.stderr:
        raise RuntimeError(f"{command}: {done.stderr}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
