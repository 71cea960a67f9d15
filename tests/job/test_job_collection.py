"""The collector's settings, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

SETTINGS = (
    "import gc; from potato_ray.job.collection import collect_seldom, pass_over_what_is_loaded as over; "
)


def said(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SETTINGS + code], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def test_what_is_loaded_is_not_looked_at_again() -> None:
    assert int(said("over(); print(gc.get_freeze_count())")) > 1000


def test_a_second_call_does_not_keep_what_has_become_garbage_since() -> None:
    code = "over(); a = []; a.append(a); before = gc.get_freeze_count(); over(); del a; "
    assert said(code + "print(gc.get_freeze_count() <= before, gc.collect())") == "True 1"


def test_garbage_is_still_collected_though_seldom() -> None:
    code = "collect_seldom()\ncount = lambda: gc.get_stats()[0]['collections']\nbefore = count()\n"
    code += "for _ in range(170_000):\n a = []; a.append(a)\n"
    assert said(code + "print(count() - before)") == "3"
