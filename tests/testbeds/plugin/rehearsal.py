"""A third party's trainers, announced by entry points as an installed package would announce them.

`rehearsal` does what its parameter `act` says, then learns the most frequent label:

    succeed  nothing else
    hoard    hold `mb` MiB of resident memory for a while
    silent   say nothing for a minute
    native   compute in C for a minute: Python handles no signal meanwhile
    wait     wait for the file `go` in the job folder, at most a minute
    hold     the same, later: before the first prediction
    save     wait, and write best.ckpt when told to stop, which takes half a second
    leave    be gone with code 7

`licensed` is the same under a licence that has to be confirmed, `accelerated` one that wants a GPU.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from potato_ray.trainers import kinds
from potato_ray.trainers.base import (
    MIN_INSTANCES,
    FitContext,
    Licence,
    Param,
    Prediction,
    Requirement,
    Row,
    Trainer,
)

MINUTE_S = 60.0
LEAVES_WITH = 7
VISIBLE = "CUDA_VISIBLE_DEVICES"


class Rehearsal(Trainer):
    """See the module."""

    name = "rehearsal"
    description = "Rehearses what a run can meet."
    kinds = (kinds.NOMINAL,)
    params = (
        Param(
            "act",
            "choice",
            "succeed",
            "What to do.",
            choices=("succeed", "hoard", "silent", "native", "wait", "hold", "save", "leave"),
        ),
        Param("mb", "int", 0, "How much memory to hold, in MiB.", minimum=0),
        MIN_INSTANCES,
    )
    requires = ()
    install_hint = ""
    licence = Licence("Apache-2.0")
    predicts_on: Path | None = None

    def fit(self, context: FitContext) -> dict[str, float]:
        context.reporter.log(f"{VISIBLE}={os.environ.get(VISIBLE, 'unset')}")
        context.reporter.status("fitting", "rehearsing")
        self._act(context)
        labels = [row["targets"][context.scheme.name] for row in context.rows("train")]
        self.label = max(sorted(set(labels)), key=labels.count)
        (context.artifacts / "model.json").write_text(json.dumps({"label": self.label}))
        return {"n_train": float(len(labels))}

    def _act(self, context: FitContext) -> None:
        act = context.params["act"]
        if act == "hoard":
            self.held = bytearray(int(context.params["mb"]) << 20)
            self.held[::4096] = b"x" * len(self.held[::4096])
            time.sleep(2.0)
        elif act == "silent":
            time.sleep(MINUTE_S)
        elif act == "native":
            hashlib.pbkdf2_hmac("sha256", b"a", b"b", 100_000_000)
        elif act == "wait":
            _wait_for(context.artifacts.parent / "go")
        elif act == "hold":
            self.predicts_on = context.artifacts.parent / "go"
        elif act == "save":
            _save_at_the_end(context.artifacts)
        elif act == "leave":
            os._exit(LEAVES_WITH)

    def predict(self, rows: Iterable[Row]) -> Iterator[Prediction]:
        if self.predicts_on is not None:
            _wait_for(self.predicts_on)
        for row in rows:
            yield Prediction(row["instance_id"], {"label": self.label}, 1.0)

    @classmethod
    def load(cls, artifacts: Path, device: str = "cpu") -> Rehearsal:
        trainer = cls()
        trainer.label = json.loads((artifacts / "model.json").read_text())["label"]
        return trainer


class Licensed(Rehearsal):
    """The same, under a licence that somebody has to accept."""

    name = "licensed"
    licence = Licence("AGPL-3.0", url="https://www.gnu.org/licenses/agpl-3.0.html", needs_confirmation=True)


class Accelerated(Rehearsal):
    """The same, as a trainer that wants a GPU."""

    name = "accelerated"
    requires = (Requirement("torch", "torch"),)


def _save_at_the_end(artifacts: Path) -> None:
    try:
        _wait_for(artifacts.parent / "go")
    except BaseException:
        time.sleep(0.5)
        (artifacts / "best.ckpt").write_text("half of it")
        raise


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + MINUTE_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path.name} did not come")
        time.sleep(0.02)
