from __future__ import annotations

import time
from pathlib import Path

from potato_ray.job.command import Answer, run_command


def test_output_and_errors_come_together_with_the_code() -> None:
    answer = run_command(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], 5.0)
    assert answer == Answer(3, "out\nerr\n")


def test_errors_are_passed_over_where_they_are_not_wanted() -> None:
    answer = run_command(["/bin/sh", "-c", "echo out; echo err >&2"], 5.0, with_errors=False)
    assert answer == Answer(0, "out\n")


def test_a_command_that_is_not_there_is_an_answer() -> None:
    assert run_command(["/nowhere/at-all"], 5.0) == Answer(
        None, "at-all could not be started: No such file or directory"
    )


def test_the_deadline_holds_for_a_command_whose_child_keeps_the_output_open(tmp_path: Path) -> None:
    before = time.monotonic()
    answer = run_command(["/bin/sh", "-c", "sleep 60 & sleep 60"], 0.2)
    assert answer.text == "sh did not answer within 0.2 s"
    assert time.monotonic() - before < 5
