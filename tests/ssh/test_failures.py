"""ssh's words, as versions and systems say them, and what a user reads for each."""

from __future__ import annotations

import pickle

import pytest

from potato_ray.errors import RunFailed
from potato_ray.ssh import SshFailed, SshTimeout
from potato_ray.ssh.failures import KNOWN, explain, quotable, too_slow

SAID = {
    "ada@gpubox: Permission denied (publickey,password).": "Permission denied",
    "ssh: connect to host gpubox port 22: No route to host": "There is no way to it in the network",
    "ssh: connect to host gpubox port 22: Network is unreachable": "There is no way to it in the network",
    "ssh: connect to host gpubox port 22: Connection timed out": "Connection timed out",
    "ssh: connect to host gpubox port 22: Operation timed out": "Connection timed out",
    "ssh: connect to host gpubox port 22: Connection refused": "Connection refused",
    "Connection timed out during banner exchange": "It accepted the connection and said nothing",
    "ssh: Could not resolve hostname gpubox: Temporary failure in name resolution": (
        "Its name cannot be resolved"
    ),
    "kex_exchange_identification: read: Connection reset by peer": (
        "The connection was closed before the login"
    ),
    "No ED25519 host key is known for gpubox and you have requested strict checking.": (
        "Its host key is not known here"
    ),
    "Host key verification failed.": "Its host key is not known here",
    "Unable to negotiate with 10.0.0.1 port 22: no matching host key type found. Their offer: ssh-rsa": (
        "It shares no algorithm with the ssh here"
    ),
    "/home/ada/.ssh/config: line 3: Bad configuration option: usekeychain": (
        "The ssh configuration cannot be used"
    ),
    "Bad owner or permissions on /home/ada/.ssh/config": "The ssh configuration cannot be used",
    "Timeout, server 10.77.2.2 not responding.": "The connection was lost: it no longer answers",
    "Connection to gpubox closed by remote host.": "The connection was closed from over there",
    "client_loop: send disconnect: Broken pipe": "The connection was closed from over there",
    "channel 0: open failed: connect failed: No route to host\nstdio forwarding failed": (
        "The jump host cannot reach it"
    ),
    "This account is currently not available.": "The account may log in but may run nothing",
    'unix_listener: path "/tmp/x" too long for Unix domain socket': "The control socket could not be made",
}


@pytest.mark.parametrize("words", SAID)
def test_what_ssh_says_has_a_meaning_and_a_next_step(words: str) -> None:
    error = explain("gpubox", f"Banner of the lab\n{words}\r\n", code=255)
    assert error.message == f"ssh to gpubox failed: {SAID[words]}"
    assert words.splitlines()[-1] in error.evidence
    assert error.next_step.endswith(".")
    assert "HOST" not in error.next_step


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.pattern[:30])
def test_every_meaning_names_a_step_in_whole_sentences(known: object) -> None:
    assert known.reason[0].isupper()  # type: ignore[attr-defined]
    assert known.next_step[0].isupper() or known.next_step.startswith("ssh ")  # type: ignore[attr-defined]
    assert known.next_step.endswith(".")  # type: ignore[attr-defined]


def test_words_that_nobody_foresaw_are_the_message_themselves() -> None:
    error = explain("gpubox", "debug1: x\nThe moon is full\n", code=255)
    assert error.message == "ssh to gpubox failed: The moon is full"
    assert error.next_step == "See what `ssh gpubox true` says on this machine."


def test_silence_is_told_with_the_exit_code() -> None:
    assert (
        explain("gpubox", "", code=3).message
        == "ssh to gpubox failed: ssh ended with code 3 and without a word"
    )


def test_evidence_has_no_control_characters_and_an_end() -> None:
    assert quotable("\x1b[31mred\x1b[0m\a\r\n\n" + "x" * 5000).count("x") == 2000
    assert quotable("\x1b[31mred\x1b[0m\a") == "red"


def test_the_errors_are_a_runs_and_survive_the_way_through_ray() -> None:
    error = too_slow("gpubox", "It did not log in", 20.0)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert isinstance(again, SshTimeout)
    assert isinstance(again, SshFailed)
    assert isinstance(again, RunFailed)
    assert (again.code, again.as_dict()) == ("ssh_failed", error.as_dict())
