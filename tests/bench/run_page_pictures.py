"""Take the pictures of a run's page in docs/pages.md: python tests/bench/run_page_pictures.py

The runs are made up; their scores, pictures and mistakes come from the real scoring. Takes ten seconds.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "testbeds")]

from browser import NARROW, WIDE, Site, chromium  # noqa: E402
from run_history import begin, fail, move, wait  # noqa: E402
from scored_runs import scored  # noqa: E402

from potato_ray.config import load  # noqa: E402
from potato_ray.registry.runs import Run  # noqa: E402
from potato_ray.registry.states import State  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
REASON = "The GPU ran out of memory."
NEXT_STEP = "Lower batch_size and raise gradient_accumulation, or choose a smaller model."
EVIDENCE = "CUDA out of memory: 22.1 GiB of 23.7 GiB were in use, 1.9 GiB more were asked for."


def compared(site: Site) -> Run:
    """A run with an earlier one to be compared with."""
    before = scored(site, targets=("positive", "neutral", "negative"), wrong_every=3)
    run = scored(site, targets=("positive", "neutral", "negative"), wrong_every=5)
    assert run.headline is not None
    assert before.headline is not None
    headline = {**run.headline, "previous": before.headline["value"]}
    registry = site.controller.registry
    site.controller.write(registry.update, run.run_id, 1, scores={**run.scores, "headline": headline})
    return run


def working(site: Site) -> Run:
    run = wait(site)
    begin(site, run.run_id)
    move(site, run.run_id, State.RUNNING, device="cuda:0", n_train=126, n_val=28, n_test=26)
    said: list[dict[str, Any]] = [
        {"event": "status", "phase": "fitting", "step": "epoch 2 of 3"},
        *(
            {"event": "metric", "name": "train_loss", "value": 1.4 / (1 + step / 9), "step": step}
            for step in range(40)
        ),
        {"event": "progress", "current": 1200, "total": 3000, "eta_s": 95.0},
    ]
    site.say(run, 0, *said)
    return run


def failed(site: Site) -> Run:
    given = {"error_code": "out_of_memory", "error_next_step": NEXT_STEP, "error_evidence": EVIDENCE}
    return fail(site, REASON, **given)


LOOKS = (
    (compared, "run-wide-light.png", WIDE, "light", 1700),
    (working, "run-narrow-dark.png", NARROW, "dark", 1000),
    (failed, "run-failed-wide-light.png", WIDE, "light", 420),
)


def take(folder: Path) -> None:
    shutil.copytree(ROOT / "tests" / "projects" / "review-sentiment", folder)
    with chromium() as browser, ExitStack() as stack:
        site = Site(load(folder / "config.yaml"), browser, stack)
        for make, name, size, scheme, height in LOOKS:
            page = site.open(make(site), size=size, scheme=scheme)
            page.wait_for_timeout(1200)
            clip = {"x": 0, "y": 0, "width": size["width"], "height": height}
            page.screenshot(path=PICTURES / name, full_page=True, clip=clip)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="prt-", dir="/tmp") as scratch:
        take(Path(scratch) / "p")
