"""What stays of a training that was stopped: the best checkpoint so far, or the model as it was then.

It is kept for people to look at; a run that was stopped has no score, and its model is never published.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from potato_ray.trainers import model_files

PARTIAL = "partial"
NOTE = "partial.json"
_LAST_WRITTEN = "trainer_state.json"
"""A checkpoint without it is not whole."""
_PICKLED = "training_args.bin"
"""transformers' arguments: nobody needs them, and reading a pickle can run code."""


def keep(artifacts: Path, checkpoints: Path, learner: Any, as_it_is: bool) -> None:
    """Leave `artifacts`/partial and a note in it, and remove the other checkpoints.

    `learner` is transformers' Trainer. Without a whole checkpoint the model itself is saved, if `as_it_is`
    and it has made a step at least.
    """
    state = learner.state
    best, chosen_on_val = _best(checkpoints, state.best_model_checkpoint)
    target = artifacts / PARTIAL
    if best is not None:
        remove(target)
        best.rename(target)
        (target / _PICKLED).unlink(missing_ok=True)
        _note(target, step_of(best), state, chosen_on_val=chosen_on_val)
    elif as_it_is and state.global_step > 0:
        remove(target)
        learner.model.save_pretrained(str(target))
        _note(target, state.global_step, state, chosen_on_val=False)
    remove(checkpoints)


def remove(folder: Path) -> None:
    """Remove a folder, if it is there."""
    shutil.rmtree(str(folder), ignore_errors=True)


def step_of(checkpoint: Path) -> int:
    """The step after which transformers wrote a checkpoint: checkpoint-40 is of step 40."""
    return int(checkpoint.name.rpartition("-")[2])


def _best(checkpoints: Path, named: str | None) -> tuple[Path | None, bool]:
    """The checkpoint to keep, and whether it was chosen on val; None where no checkpoint is whole.

    A training that is stopped while it writes the best one has the best of those before it, which the
    newest whole one names.
    """
    whole = [path for path in checkpoints.glob("checkpoint-*") if (path / _LAST_WRITTEN).is_file()]
    newest = max(whole, key=step_of, default=None)
    for name in (named, _named_by(newest) if newest else None):
        for path in whole:
            if name is not None and path.name == Path(name).name:
                return path, True
    return newest, False


def _named_by(checkpoint: Path) -> str | None:
    try:
        named = json.loads((checkpoint / _LAST_WRITTEN).read_text("utf-8")).get("best_model_checkpoint")
    except (OSError, ValueError, AttributeError):
        return None  # it was being written
    return str(named) if named else None


def _note(folder: Path, step: int, state: Any, chosen_on_val: bool) -> None:
    body = {"partial": True, "step": step, "of_steps": int(state.max_steps), "chosen_on_val": chosen_on_val}
    model_files.write_json(folder / NOTE, body)
