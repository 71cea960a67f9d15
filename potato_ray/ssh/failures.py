"""What ssh's own words mean, and what to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from potato_ray.errors import RunFailed

EVIDENCE_LINES = 20
EVIDENCE_CHARS = 2000
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_NOISE = re.compile(r"^(debug\d: .*|@+|Warning: Permanently added .*)$")

_FALLING_BACK = re.compile(
    r"^(kex_exchange_identification|banner exchange|Connection closed by UNKNOWN).*$", re.MULTILINE
)
"""What a channel says of the connection of its own that it must not make."""


class SshFailed(RunFailed):
    """The connection, or something that was wanted through it, failed; evidence holds ssh's words."""

    default_code = "ssh_failed"


class SshTimeout(SshFailed):
    """Nothing came within the time; the connection itself may still be well."""


@dataclass(frozen=True)
class Known:
    """A text of ssh's, what it means, and the next step; HOST in both is the host's name."""

    pattern: str
    reason: str
    next_step: str


_LOG_IN = "make `ssh HOST true` work without a question on this machine"
_CHECK_ADDRESS = "Check host and port, and whether the machine is up and lets this one in."
_LOST = "Check the network between this machine and HOST; a run is taken up again once `ssh HOST` works."

KNOWN = (
    Known(
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .* has changed",
        "Its host key has changed",
        "Somebody may be listening in between, or the machine was installed anew: ask its administrator for "
        "the new fingerprint; only if it is the one that ssh names, remove the old key with the "
        "`ssh-keygen -R` line that ssh gives.",
    ),
    Known(
        r"REVOKED HOST KEY|Host key .* revoked",
        "Its host key is revoked",
        "Do not connect; ask the administrator of HOST.",
    ),
    Known(
        r"Host key verification failed|No .* host key is known",
        "Its host key is not known here",
        "Run `ssh HOST` once by hand on this machine, compare the fingerprint and accept it.",
    ),
    Known(
        r"UNPROTECTED PRIVATE KEY FILE|bad permissions",
        "Permission denied",
        "The key file can be read by others, so ssh ignores it: run `chmod 600` on it.",
    ),
    Known(
        r"Identity file (?P<file>.*) not accessible",
        "Permission denied",
        "The key file is not there: set identity_file to one that is, or leave it out and let ssh-agent hold "
        "the key.",
    ),
    Known(
        r"Too many authentication failures",
        "Too many authentication failures",
        "ssh offered too many keys: set identity_file, and `IdentitiesOnly yes` for HOST in ~/.ssh/config.",
    ),
    Known(
        r"Permission denied \(|Permission denied, please try again|Permission denied$",
        "Permission denied",
        f"Check user and identity_file, load a key that has a passphrase into ssh-agent, and {_LOG_IN}.",
    ),
    Known(
        r"Session open refused by peer",
        "It refuses to run commands",
        "Ask the administrator of HOST for `MaxSessions` of at least 1 in sshd_config (10 is the default).",
    ),
    Known(
        r"administratively prohibited|stdio forwarding failed|channel 0: open failed: connect failed",
        "The jump host cannot reach it",
        "Check ProxyJump in the ssh configuration, and whether HOST is up.",
    ),
    Known(r"Could not resolve hostname", "Its name cannot be resolved", "Check host and ~/.ssh/config."),
    Known(r"Connection refused", "Connection refused", "Check host and port, and whether sshd runs on HOST."),
    Known(
        r"[Tt]imed out during banner exchange|banner exchange: .*[Tt]imed out",
        "It accepted the connection and said nothing",
        "Check whether this is the port of an sshd, and whether the machine is overloaded.",
    ),
    Known(
        r"connect to host .*timed out|Operation timed out|connect: Connection timed out",
        "Connection timed out",
        f"{_CHECK_ADDRESS} connect_timeout_s may be raised.",
    ),
    Known(
        r"No route to host|Network is unreachable|Host is down",
        "There is no way to it in the network",
        _CHECK_ADDRESS,
    ),
    Known(
        r"kex_exchange_identification|banner exchange|Connection closed by UNKNOWN|Bad packet length",
        "The connection was closed before the login",
        "Check whether this is the port of an sshd; an sshd does so, too, when too many log in at once "
        "(MaxStartups) or when it has banned this machine: wait a minute and try again.",
    ),
    Known(
        r"Unable to negotiate|no matching .* found",
        "It shares no algorithm with the ssh here",
        f"Set the algorithm that ssh names for HOST in ~/.ssh/config, and {_LOG_IN}.",
    ),
    Known(
        r"Bad configuration option|terminating, \d+ bad configuration|Bad owner or permissions on|"
        r"Can't open user config file|^/\S+:? line \d+: ",
        "The ssh configuration cannot be used",
        "Put the line that ssh names right.",
    ),
    Known(
        r"hostname contains invalid characters|Bad port|vendor specific|keyword .* extra arguments",
        "The destination cannot be used",
        "Set host, user and port to what `ssh` takes on the command line.",
    ),
    Known(
        r"Timeout, server .* not responding",
        "The connection was lost: it no longer answers",
        _LOST,
    ),
    Known(
        r"Connection to .* closed by remote host|Connection reset by|client_loop: send disconnect|"
        r"Broken pipe|Connection closed by",
        "The connection was closed from over there",
        "Look whether HOST was restarted or ended the session (sshd's log there); the next try logs in anew.",
    ),
    Known(
        r"This account is currently not available|This account is not available",
        "The account may log in but may run nothing",
        "Ask the administrator of HOST for a login shell (now it is nologin), or set another user.",
    ),
    Known(
        r"base64: .*not found|base64: command not found",
        "It has no base64 on PATH",
        "Install coreutils (or busybox) on HOST.",
    ),
    Known(
        r"subsystem request failed|EOF during negotiation",
        "It has no SFTP",
        "Ask the administrator of HOST for `Subsystem sftp internal-sftp` in sshd_config.",
    ),
    Known(
        r"Garbage packet|Received message too long|produces no output|Incompatible sftp",
        "Its SFTP is disturbed",
        "Keep the start-up files of the shell there (.bashrc) from printing where there is no terminal: "
        "`[ -t 1 ] || return` at their top.",
    ),
    Known(
        r"unix_listener: .* too long|ControlSocket|ControlPath",
        "The control socket could not be made",
        "Check that /tmp of this machine can be written to.",
    ),
)


def explain(host: str, words: str, *, code: int | None = None) -> SshFailed:
    """The error for what ssh has said; `code` is its exit code."""
    evidence = quotable(words)
    for known in KNOWN:
        if re.search(known.pattern, words, re.MULTILINE):
            reason = known.reason.replace("HOST", host)
            return failed(host, reason, evidence, known.next_step.replace("HOST", host))
    last = evidence.splitlines()[-1] if evidence else f"ssh ended with code {code} and without a word"
    return failed(host, last, evidence, f"See what `ssh {host} true` says on this machine.")


def channel_failure(host: str, words: str, code: int | None) -> SshFailed:
    """The error for what a channel's ssh has said."""
    return explain(host, _FALLING_BACK.sub("", words), code=code)


def failed(host: str, reason: str, evidence: str, next_step: str) -> SshFailed:
    """The error in its usual form."""
    said = f"ssh says: {evidence}" if evidence else ""
    return SshFailed(f"ssh to {host} failed: {reason}", evidence=said, next_step=next_step)


def could_not_start(host: str, error: OSError) -> SshFailed:
    """The error for what the system here would not do: no process, no folder."""
    return SshFailed(
        f"ssh to {host} failed: ssh could not be started on this machine",
        evidence=f"The system says: {error}.",
        next_step="Look whether this machine has memory, processes, files and space in /tmp left.",
    )


def too_slow(host: str, what: str, timeout_s: float) -> SshTimeout:
    """The error for a deadline that has passed; `what` says what did not happen: "it did not …"."""
    return SshTimeout(
        f"ssh to {host} failed: {what} within {timeout_s:g} s",
        next_step=f"See whether `ssh {host} true` answers on this machine, and whether {host} is overloaded.",
    )


def command_not_run(host: str, said: str, code: int | None) -> SshFailed:
    """The error for a login that did something other than what was asked; `said` is what came instead."""
    instead = f"Instead came: {quotable(said)}" if said.strip() else "Nothing came instead"
    return SshFailed(
        f"ssh to {host} failed: The command was not run there",
        evidence=f"{instead}; exit code {code}.",
        next_step=(
            f"See what `ssh {host} 'echo here'` prints: a ForceCommand, a login shell that runs nothing, or "
            "an `exec` or `exit` in the start-up files of the shell (.bashrc) keeps commands from being run."
        ),
    )


def quotable(words: str) -> str:
    """The last lines of a text, without control characters and without what says nothing."""
    lines = [_CONTROL.sub("", line).strip() for line in words.replace("\r", "\n").splitlines()]
    telling = [line for line in lines if line and not _NOISE.match(line)]
    return "\n".join(telling[-EVIDENCE_LINES:])[-EVIDENCE_CHARS:]
