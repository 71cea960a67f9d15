"""The phases of a run on a host, each met for sure: what is slow, held or missing in it, and how it is seen.

connecting    the link is cut before
code          the host has none of it, and the line is slow
packages      the test holds the lock of their environment
starting      the line is slow, and the agent waits for its secrets
bundle, predictions, result, artifacts, clearing     the line is slow
training      the trainer waits for a file
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable, Iterator
from typing import Final

from ssh_cut_lab import SshCutLab

from potato_ray.agent.file_lock import FileLock
from potato_ray.host.facts import environment_python

PHASES: Final = (
    "connecting",
    "code",
    "packages",
    "starting",
    "bundle",
    "training",
    "predictions",
    "result",
    "artifacts",
    "clearing",
)
BEFORE_AGENT: Final = PHASES[:4]
SLOW_MBIT: Final = 0.2
BUNDLE_MBIT: Final = 2.0
MODEL_MBIT: Final = 1.0
MODEL_BYTES: Final = 1 << 20
LEAST_BYTES: Final = 20_000
"""Of something that is on its way; a small part of it."""
PREDICTING: Final = "predicting on items that the model has not seen"
_ACTS: Final = {"training": "wait", "predictions": "hold", "result": "hold", "artifacts": "wait"}


@contextlib.contextmanager
def met(
    lab: SshCutLab, phase: str, backend: str = "gpu", trainer: str = "rehearsal", *, goes_on: bool = True
) -> Iterator[str]:
    """A run in the phase, and its link cut there, for the length of a `with` block: its id.

    `goes_on`: the trainer trains to its end meanwhile.
    """
    with contextlib.ExitStack() as held:
        if phase == "packages":
            held.enter_context(_held_environment(lab, backend))
        if phase == "code":
            shutil.rmtree(lab.remote_dir / "code", ignore_errors=True)
        if phase in ("code", "starting"):
            lab.link.set_rate(SLOW_MBIT)
        elif phase == "bundle":
            lab.link.set_rate(BUNDLE_MBIT)
        elif phase == "connecting":
            lab.link.cut()
        run_id = lab.start(_ACTS.get(phase, "succeed"), backend, trainer)
        _lead(lab, run_id, phase)
        lab.until(run_id, _seen(lab, run_id, phase))
        with lab.silence():
            if phase == "training" and goes_on:
                lab.go(run_id)
            held.close()
            yield run_id


def is_on(lab: SshCutLab, run_id: str, phase: str) -> bool:
    """Whether what the phase is for has not come about."""
    mirror = lab.mirror(run_id)
    return {
        "connecting": lambda: not lab.run(run_id).ended and not lab.agent_note(run_id),
        "code": lambda: not list(lab.remote_dir.glob("code/*/potato_ray")),
        "packages": lambda: not lab.agent_note(run_id).get("at_work"),
        "starting": lambda: not lab.agent_note(run_id).get("at_work"),
        "bundle": lambda: lab.there(run_id, ".*.part") > LEAST_BYTES,
        "training": lambda: not mirror.predictions.exists(),
        "predictions": lambda: not mirror.predictions.exists(),
        "result": lambda: not mirror.result.exists(),
        "artifacts": lambda: mirror.result.exists() and not lab.run(run_id).ended,
        "clearing": lambda: mirror.result.exists() and not lab.run(run_id).ended,
    }[phase]()


def _lead(lab: SshCutLab, run_id: str, phase: str) -> None:
    """To where the line has to be slow."""
    if phase in ("predictions", "result"):
        lab.until(run_id, _in_step(lab, run_id, PREDICTING))
        lab.link.set_rate(SLOW_MBIT)
        lab.go(run_id)
    if phase == "artifacts":
        lab.until(run_id, _in_step(lab, run_id, "rehearsing"))
        noise = random.Random(0).randbytes(MODEL_BYTES)
        (lab.job(run_id) / "artifacts" / "noise.bin").write_bytes(noise)
        lab.link.set_rate(MODEL_MBIT)
        lab.go(run_id)
    if phase == "clearing":
        lab.until(run_id, lambda: lab.mirror(run_id).result.exists())
        lab.link.set_rate(SLOW_MBIT)


def _seen(lab: SshCutLab, run_id: str, phase: str) -> Callable[[], bool]:
    return {
        "connecting": lambda: _in_step(lab, run_id, "connecting to")(),
        "code": lambda: _in_step(lab, run_id, "copying Potato's code")(),
        "packages": lambda: _in_step(lab, run_id, "preparing the packages")(),
        "starting": lambda: bool(lab.agent_note(run_id)),
        "bundle": lambda: lab.there(run_id, ".*.part") > LEAST_BYTES,
        "training": lambda: _in_step(lab, run_id, "rehearsing")(),
        "predictions": lambda: lab.here(run_id, ".predictions.*.part") > LEAST_BYTES,
        "result": lambda: lab.mirror(run_id).predictions.exists(),
        "artifacts": lambda: _in_step(lab, run_id, "copying the model")(),
        "clearing": lambda: _in_step(lab, run_id, "clearing up")(),
    }[phase]


def _in_step(lab: SshCutLab, run_id: str, words: str) -> Callable[[], bool]:
    return lambda: (lab.run(run_id).step or "").startswith(words)


@contextlib.contextmanager
def _held_environment(lab: SshCutLab, backend: str) -> Iterator[None]:
    settings = lab.config.model_training.backends[backend]
    packages = list(getattr(settings, "packages", ()))
    python = environment_python({"remote_dir": str(lab.remote_dir), "packages": packages})
    assert python is not None, f"{backend} has no packages"
    root = python.parents[1]
    root.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(root.with_name(root.name + ".lock"))
    lock.take(10.0)
    with lock:
        yield
