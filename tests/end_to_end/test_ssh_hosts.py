"""Whole runs by accounts without rights on a host with Python 3.8: each login shell, and a noisy start-up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from open_python38 import need_open_python38
from server_process import API
from ssh_lab import PLUGIN, SshLab, socket_folders
from sshd import ALIAS, SHELLS, Account, Accounts, Sshd
from whole_runs import folder_of, in_step, projects, wait_until

from potato_ray.job.folder import JobFolder

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

IN_CI = ("bsd-csh", "fish")
"""The two that are least like the others."""
NOISY = "/bin/bash"
NOISE = """
echo "Welcome to {home}!"
echo "a warning" >&2
read -t 0.5 eaten
export PATH={home}/bin OMP_NUM_THREADS=7 SHADE=of-the-shell PYTHONPATH=/nowhere PYTHONSTARTUP=/nowhere
cd /
"""


@pytest.fixture(scope="module")
def accounts() -> Iterator[dict[str, Account]]:
    """One for each login shell, and one whose start-up files are noisy."""
    wanted = SHELLS if os.environ.get("POTATO_RAY_LONG") else IN_CI
    with Accounts() as accounts:
        yield {name: accounts.with_shell(name) for name in (*wanted, NOISY)}


@pytest.fixture(scope="module")
def lab(accounts: Mapping[str, Account], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshLab]:
    """One server, and a backend for each account."""
    python = need_open_python38()
    make_noise(accounts[NOISY])
    with (
        Sshd(list(accounts.values()), env={"LD_LIBRARY_PATH": str(python.libraries)}) as sshd,
        projects() as make_project,
    ):
        shutil.copytree(PLUGIN, sshd.folder / "plugin")
        backends = {
            name.strip("/").replace("/", "-"): {
                "type": "ssh",
                "host": ALIAS,
                "user": account.name,
                "python": str(python.path),
                "num_threads": 2,
                "env": {"PYTHONPATH": f"{sshd.folder}/plugin", "SHADE": "of-the-backend"},
            }
            for name, account in accounts.items()
        }
        remote_dir = tmp_path_factory.mktemp("host") / "unused"
        with SshLab(sshd, make_project, remote_dir, backends=backends) as lab:
            yield lab


def make_noise(account: Account) -> None:
    """Start-up files that print and eat input, and a PATH with nothing but what a login needs of us."""
    (account.home / ".bashrc").write_text(NOISE.format(home=account.home))
    (account.home / ".ssh").mkdir()
    (account.home / ".ssh" / "rc").write_text("echo words of the rc; echo to-stderr >&2\n")
    (account.home / "bin").mkdir()
    (account.home / "bin" / "base64").symlink_to(shutil.which("base64") or "")


def remote_dir_of(account: Account) -> Path:
    return account.home / ".cache" / "potato-training"


def param_of(shell: str) -> object:
    return shell if shell in IN_CI else pytest.param(shell, marks=pytest.mark.long)


@pytest.mark.parametrize("shell", [param_of(shell) for shell in SHELLS])
def test_a_run_is_trained_by_an_account_without_rights(
    lab: SshLab, accounts: Mapping[str, Account], shell: str
) -> None:
    run = lab.succeeded(lab.start(backend=shell))
    assert run.headline is not None
    assert run.headline["value"] > 0.5, run.headline
    assert len(list(lab.reader.predictions(run.run_id))) > 0
    assert (folder_of(lab.config, run.run_id).artifacts / "model.skops").is_file()
    assert f"{ALIAS}: Python 3.8." in lab.log(run.run_id)
    assert lab.nothing_is_left(run.run_id, remote_dir_of(accounts[shell]))
    assert socket_folders(accounts[shell].uid) == []
    # A C shell that was told 2>&1 makes a file of that name.
    usual = {path.name for path in Path("/etc/skel").iterdir()} | {".cache", ".config", ".local"}
    assert {path.name for path in accounts[shell].home.iterdir()} <= usual


def test_a_host_with_noisy_start_up_files_and_no_python_on_its_path_is_used(
    lab: SshLab, accounts: Mapping[str, Account]
) -> None:
    remote_dir = remote_dir_of(accounts[NOISY])
    run_id = lab.start("wait", backend="bin-bash")
    wait_until(lab.config, run_id, in_step("rehearsing"))
    worker = JobFolder(lab.job(run_id, remote_dir)).read_processes().worker
    seen = environment_of(worker.pid)
    assert seen["SHADE"] == "of-the-backend"
    assert {seen[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")} == {"2"}
    assert seen["PATH"] == f"{accounts[NOISY].home}/bin"
    lab.go(run_id, remote_dir)
    lab.succeeded(run_id)
    assert "Welcome" not in lab.log(run_id)
    assert lab.nothing_is_left(run_id, remote_dir)


def environment_of(pid: int) -> dict[str, str]:
    """What a process was started with."""
    lines = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return {name: value for name, _, value in (line.partition("=") for line in lines if line)}


def test_the_check_of_a_noisy_host_says_the_path_that_commands_see(
    lab: SshLab, accounts: Mapping[str, Account]
) -> None:
    report = lab.post(f"{API}/backends/bin-bash/check", {})
    assert report["ok"], report
    said = {check["name"]: check["message"] for check in report["checks"]}
    assert said["path"] == f"PATH there: {accounts[NOISY].home}/bin"
    assert said["socket"] == "a socket for the agent can be forwarded to the server"
    assert socket_folders(accounts[NOISY].uid) == []
    assert said["ssh"].endswith(f"as {accounts[NOISY].name}")
