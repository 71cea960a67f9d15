"""From what a job left behind to what people are told: a pure function over its end."""

from __future__ import annotations

import signal
from typing import Any, Mapping, NamedTuple

from potato_ray.job.events import (
    EXIT_BAD_SPEC,
    EXIT_CANCELLED,
    EXIT_DISK_FULL,
    EXIT_FINISHED,
    EXIT_MISSING_DEPENDENCY,
    EXIT_OUT_OF_MEMORY,
)
from potato_ray.job.failures import DISK_ADVICE, DISK_FULL, LOG_ADVICE, MEMORY_ADVICE
from potato_ray.job.folder import Exit
from potato_ray.job.spec import Limits

SUCCESS, ERROR, CANCELLED = "success", "error", "cancelled"

_CRASHES = {
    signal.SIGSEGV: "it touched memory that is not its own",
    signal.SIGABRT: "a library gave up",
    signal.SIGBUS: "a file or /dev/shm that it had mapped ran out of space",
    signal.SIGFPE: "an arithmetic fault",
    signal.SIGILL: "a library was built for another processor",
}
_KILL_ADVICE = (
    "Use a smaller model or fewer items, or set model_training.max_ram_mb, so that the run fails inside "
    "its own limit."
)


_SAID_BY_CHECKS = ("bad_spec", "missing_dependency", "unfitting_device", "validation_failed")
"""Codes of what was looked for and found wrong: their message says it all, and a traceback only frightens."""


class Explanation(NamedTuple):
    """How a run ended; for status error the other fields are whole sentences, evidence may be ""."""

    status: str
    error_code: str = ""
    message: str = ""
    evidence: str = ""
    next_step: str = ""


def explain(
    end: Exit | None,
    result: Mapping[str, Any] | None,
    error: Mapping[str, Any] | None,
    stderr_tail: str = "",
    limits: Limits | None = None,
) -> Explanation:
    """Explain the end of a job.

    `end` is its exit.json, None when its launcher is gone without one; `result` and `error` are the last
    events of these names. What the launcher did comes first, then what the worker said, then how its
    process ended: without a result, an end is a failure, however clean.
    """
    if end is None:
        return _launcher_gone(stderr_tail)
    if end.reason:
        return stopped(end.reason, end.detail, limits, end.peak_rss_mb)
    if error is not None:
        return _said(error, stderr_tail)
    if result is not None and end.code == EXIT_FINISHED:
        return Explanation(SUCCESS)
    if end.signal is not None:
        return _signalled(end, stderr_tail)
    return _without_result(end, stderr_tail)


def stopped(
    reason: str, detail: str = "", limits: Limits | None = None, peak_rss_mb: float = 0.0
) -> Explanation:
    """Explain why a launcher stops, or has stopped, a worker; `reason` is one of folder.REASONS."""
    if reason == "cancelled":
        return Explanation(CANCELLED)
    if reason == "wall_clock":
        return Explanation(
            ERROR,
            "wall_clock",
            "Stopped: the run took longer than model_training.max_wall_seconds.",
            detail,
            "Raise max_wall_seconds, or train on fewer items or for fewer epochs.",
        )
    if reason == "out_of_memory":
        return _out_of_memory(detail, limits, peak_rss_mb)
    if reason == "lost":
        return Explanation(
            ERROR,
            "heartbeat_lost",
            "The worker ended itself, since nobody followed the run any more.",
            detail,
            "Start the run again, and keep the server running.",
        )
    return Explanation(
        ERROR,
        "killed",
        "The run was told to end by a SIGTERM that this program did not send.",
        detail,
        "Look for a shutdown of the machine, an administrator or a batch system, and start again.",
    )


def _out_of_memory(detail: str, limits: Limits | None, peak_rss_mb: float) -> Explanation:
    limit = limits.max_ram_mb if limits is not None else None
    figures = f"Peak resident memory {peak_rss_mb:.0f} MiB" if peak_rss_mb else ""
    evidence = detail or (f"{figures}; max_ram_mb is {limit}." if figures else "")
    return Explanation(
        ERROR,
        "out_of_memory",
        "The run needed more memory than model_training.max_ram_mb allows.",
        evidence,
        "Raise max_ram_mb, or train on fewer items or a smaller model.",
    )


def _said(error: Mapping[str, Any], stderr_tail: str) -> Explanation:
    code = str(error.get("code") or "fit_failed")
    evidence = "" if code in _SAID_BY_CHECKS else stderr_tail
    return Explanation(
        ERROR, code, str(error.get("message", "")), evidence, str(error.get("next_step") or LOG_ADVICE)
    )


def _signalled(end: Exit, stderr_tail: str) -> Explanation:
    number = end.signal or 0
    name = _signal_name(number)
    if number == signal.SIGKILL:
        return Explanation(
            ERROR,
            "killed",
            "The worker was killed by SIGKILL: most likely the machine ran out of memory.",
            f"Peak resident memory {end.peak_rss_mb:.0f} MiB. {end.detail}".strip(),
            _KILL_ADVICE,
        )
    why = next((text for crash, text in _CRASHES.items() if crash == number), None)
    if why is not None:
        message = f"The worker crashed in native code ({name}): {why}."
        return Explanation(ERROR, "fit_failed", message, stderr_tail, LOG_ADVICE)
    message = f"The worker was ended by {name}, which this program did not send."
    return Explanation(ERROR, "killed", message, stderr_tail, "Start the run again.")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _without_result(end: Exit, stderr_tail: str) -> Explanation:
    if end.code == EXIT_CANCELLED:
        message = "The worker was stopped by a SIGTERM that this program did not send."
        return Explanation(ERROR, "killed", message, stderr_tail, "Start the run again.")
    if end.code == EXIT_DISK_FULL:
        # There was no room for its own error event.
        return Explanation(ERROR, "fit_failed", DISK_FULL, stderr_tail, DISK_ADVICE)
    message = f"The worker ended with code {end.code} without reporting a result."
    if end.code == EXIT_OUT_OF_MEMORY:
        return Explanation(ERROR, "out_of_memory", message, stderr_tail, MEMORY_ADVICE)
    if end.code in (EXIT_BAD_SPEC, EXIT_MISSING_DEPENDENCY):
        code = "bad_spec" if end.code == EXIT_BAD_SPEC else "missing_dependency"
        return Explanation(ERROR, code, message, stderr_tail, LOG_ADVICE)
    return Explanation(ERROR, "no_result", message, stderr_tail, LOG_ADVICE)


def _launcher_gone(stderr_tail: str) -> Explanation:
    return Explanation(
        ERROR,
        "killed",
        "The launcher ended without telling how: it was killed, or the machine went down.",
        stderr_tail,
        "Start the run again.",
    )
