from __future__ import annotations

import pytest

from potato_ray.job.folder import REASONS, Exit
from potato_ray.job.outcome import explain
from potato_ray.job.spec import Limits

RESULT = {"event": "result", "n_predictions": 3}
ERROR = {"event": "error", "code": "fit_failed", "message": "It broke.", "next_step": "Mend it."}


def test_a_result_and_a_clean_exit_are_a_success():
    assert explain(Exit(0, None), RESULT, None).status == "success"


@pytest.mark.parametrize("code", [0, 1, 7])
def test_an_exit_without_a_result_is_a_failure_however_clean(code):
    told = explain(Exit(code, None), None, None, "last words")
    assert (told.error_code, told.evidence) == ("no_result", "last words")
    assert f"code {code} without reporting a result" in told.message


@pytest.mark.parametrize(
    ("code", "error_code"), [(2, "bad_spec"), (3, "missing_dependency"), (4, "killed"), (5, "out_of_memory")]
)
def test_an_exit_code_speaks_where_the_worker_could_not(code, error_code):
    assert explain(Exit(code, None), None, None).error_code == error_code


def test_a_result_does_not_whitewash_a_bad_exit():
    assert explain(Exit(1, None), RESULT, None).status == "error"
    assert explain(Exit(None, 9), RESULT, None).status == "error"


def test_the_workers_own_error_is_passed_on():
    told = explain(Exit(1, None), None, ERROR, "Traceback")
    assert (told.error_code, told.message, told.next_step) == ("fit_failed", "It broke.", "Mend it.")
    assert told.evidence == "Traceback"


@pytest.mark.parametrize("code", ["bad_spec", "missing_dependency", "unfitting_device", "validation_failed"])
def test_what_a_check_refused_needs_no_traceback(code):
    assert explain(Exit(1, None), None, {**ERROR, "code": code}, "Traceback").evidence == ""


def test_an_error_event_counts_even_when_the_process_ends_cleanly():
    assert explain(Exit(0, None), RESULT, ERROR).error_code == "fit_failed"


@pytest.mark.parametrize(
    ("reason", "status", "error_code"),
    [
        ("wall_clock", "error", "wall_clock"),
        ("cancelled", "cancelled", ""),
        ("out_of_memory", "error", "out_of_memory"),
        ("lost", "error", "heartbeat_lost"),
        ("terminated", "error", "killed"),
    ],
)
def test_what_the_launcher_did_outranks_what_the_worker_said(reason, status, error_code):
    assert reason in REASONS
    told = explain(Exit(4, None, reason), RESULT, ERROR)
    assert (told.status, told.error_code) == (status, error_code)


def test_a_memory_limit_is_told_with_limit_and_peak():
    told = explain(Exit(None, 9, "out_of_memory", 780.4), None, None, limits=Limits(max_ram_mb=512))
    assert told.evidence == "Peak resident memory 780 MiB; max_ram_mb is 512."


def test_a_sigkill_is_most_likely_memory_and_says_what_to_do():
    told = explain(Exit(None, 9, peak_rss_mb=780.0, detail="The kernel said so."), None, None)
    assert told.error_code == "killed"
    assert told.evidence == "Peak resident memory 780 MiB. The kernel said so."
    assert "max_ram_mb" in told.next_step


@pytest.mark.parametrize(("number", "name"), [(11, "SIGSEGV"), (6, "SIGABRT"), (7, "SIGBUS"), (4, "SIGILL")])
def test_a_crash_in_native_code_is_named(number, name):
    told = explain(Exit(None, number), None, None)
    assert told.error_code == "fit_failed"
    assert name in told.message


@pytest.mark.parametrize("number", [1, 15, 63])
def test_any_other_signal_is_somebody_elses(number):
    assert explain(Exit(None, number), None, None).error_code == "killed"


def test_a_launcher_that_is_gone_leaves_a_killed_run():
    assert explain(None, RESULT, None).error_code == "killed"


def test_every_error_names_a_next_step():
    ends = [None, Exit(0, None), Exit(5, None), Exit(None, 9), Exit(None, 11), Exit(None, 15)]
    ends += [Exit(4, None, reason) for reason in REASONS if reason != "cancelled"]
    assert all(explain(end, None, None).next_step for end in ends)
