"""What can be a destination, and how it reaches ssh's command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from potato_ray.errors import ConfigInvalid
from potato_ray.ssh.destination import Destination
from potato_ray.ssh.environment import ssh_environment
from potato_ray.ssh.options import command_channel, master_command


@pytest.mark.parametrize(
    "host", ["-oProxyCommand=touch /tmp/pwned", "-v", "", "a b", "a\nb", "a\0b", "a\x1b[2J"]
)
def test_a_host_that_ssh_could_take_for_an_option_or_not_take_at_all_is_refused(host: str) -> None:
    with pytest.raises(ConfigInvalid, match="cannot be the host") as refused:
        Destination(host)
    assert refused.value.next_step == "Set host to what you write after `ssh` on the command line."


def test_a_user_that_ssh_could_take_for_an_option_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="cannot be the user"):
        Destination("gpubox", user="-oProxyCommand=id")


def test_what_is_not_set_is_left_to_ssh() -> None:
    assert Destination("gpubox").login_arguments == []


def test_user_port_and_key_become_options_of_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    destination = Destination("gpubox", user="ada", port=2222, identity_file="~/.ssh/lab")
    assert destination.login_arguments == ["-l", "ada", "-p", "2222", "-i", "/home/ada/.ssh/lab"]


def test_the_master_gets_exactly_these_options() -> None:
    destination = Destination("gpubox", user="ada", connect_timeout_s=0.5)
    expected = (
        "ssh -M -N -T -l ada -o BatchMode=yes -o ControlPath=/tmp/x/c -o ControlPersist=no"
        " -o ClearAllForwardings=yes -o RemoteCommand=none -o PermitLocalCommand=no -o RequestTTY=no"
        " -o LogLevel=INFO -o ConnectTimeout=1 -o ServerAliveInterval=15 -o ServerAliveCountMax=3 -- gpubox"
    )
    assert master_command("ssh", destination, "/tmp/x/c") == expected.split()


def test_a_channel_reads_no_configuration_and_cannot_connect_by_itself() -> None:
    expected = (
        "ssh -F /dev/null -T -o BatchMode=yes -o ControlPath=/tmp/x/c -o ControlMaster=no"
        " -o ProxyCommand=false slave date"
    )
    assert command_channel("ssh", "/tmp/x/c", "date") == expected.split()


def test_ssh_gets_the_users_environment_without_our_secrets_and_without_a_way_to_ask() -> None:
    kept = {
        "HOME": "/home/ada",
        "PATH": "/bin",
        "SSH_AUTH_SOCK": "/run/a",
        "LANG": "C.UTF-8",
        "AWS_PROFILE": "lab",
    }
    ours = {"POTATO_API_KEY": "s", "POTATO_TRAINING_TOKEN": "s", "HF_TOKEN": "s", "RAY_x": "s"}
    asking = {
        "DISPLAY": ":0",
        "SSH_ASKPASS": "/bin/ask",
        "SSH_ASKPASS_REQUIRE": "force",
        "WAYLAND_DISPLAY": "w",
    }
    assert ssh_environment({**kept, **ours, **asking}) == {**kept, "SSH_ASKPASS_REQUIRE": "never"}


def test_the_keeper_is_a_file_that_runs_without_the_package() -> None:
    from potato_ray.ssh import keeper

    assert "potato_ray" not in Path(keeper.__file__).read_text()
