"""Which checkpoint of a stopped training stays, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from potato_ray.trainers import partial_model

STEPS = 30


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    return tmp_path / "artifacts" / "checkpoints"


def checkpoint(checkpoints: Path, step: int, state: str | None) -> str:
    """Write one; `state` is what trainer_state.json holds, None where it has not come to that."""
    folder = checkpoints / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "weights").write_text(str(step), "utf-8")
    if state is not None:
        (folder / "trainer_state.json").write_text(state, "utf-8")
    return str(folder)


def naming(best: str | None) -> str:
    return json.dumps({"best_model_checkpoint": best})


def kept(checkpoints: Path, named: str | None) -> tuple[int, bool] | None:
    """(step, chosen on val) of what stays of a training whose best checkpoint so far is `named`."""
    state = SimpleNamespace(best_model_checkpoint=named, max_steps=STEPS, global_step=20)
    learner: Any = SimpleNamespace(state=state)
    partial_model.keep(checkpoints.parent, checkpoints, learner, as_it_is=False)
    assert not checkpoints.exists()
    partial = checkpoints.parent / "partial"
    if not partial.exists():
        return None
    note = json.loads((partial / "partial.json").read_text("utf-8"))
    assert (partial / "weights").read_text("utf-8") == str(note["step"])
    return note["step"], note["chosen_on_val"]


def test_the_best_checkpoint_stays_and_not_the_newest(checkpoints: Path) -> None:
    best = checkpoint(checkpoints, 5, naming(None))
    checkpoint(checkpoints, 10, naming(best))
    assert kept(checkpoints, best) == (5, True)


def test_a_best_checkpoint_that_was_being_written_gives_way_to_the_best_before_it(checkpoints: Path) -> None:
    first = checkpoint(checkpoints, 5, naming(str(checkpoints / "checkpoint-5")))
    checkpoint(checkpoints, 10, naming(first))
    assert kept(checkpoints, checkpoint(checkpoints, 15, None)) == (5, True)


def test_a_whole_best_checkpoint_stays_though_the_newest_was_being_written(checkpoints: Path) -> None:
    best = checkpoint(checkpoints, 5, naming(None))
    checkpoint(checkpoints, 10, None)
    assert kept(checkpoints, best) == (5, True)


@pytest.mark.parametrize("state", [naming(None), "{torn", "[]"])
def test_where_val_chooses_none_the_newest_whole_one_stays(checkpoints: Path, state: str) -> None:
    checkpoint(checkpoints, 5, naming(None))
    checkpoint(checkpoints, 10, state)
    assert kept(checkpoints, None) == (10, False)


def test_without_a_whole_checkpoint_none_stays(checkpoints: Path) -> None:
    assert kept(checkpoints, checkpoint(checkpoints, 5, None)) is None
