"""What validate prints, acknowledgements, and the times of SLURM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from potato_ray.config import Finding, Validation, load
from potato_ray.config.slurm_time import UNLIMITED, seconds_of
from potato_ray.errors import ConfigInvalid

Validate = Callable[[str], Validation]
CARD = "gres: gpu:1, "
SLURM = (
    f"  backends:\n    cluster: {{type: slurm, host: l, remote_dir: /s, job_python: p, {CARD}time: TIME}}\n"
)
LONG = (
    "model_training.backends.cluster.time is 12:00:00. A job that holds a GPU for more than 6 hours is long "
    "on a shared cluster; check its policy"
)


def slurm(time: str) -> str:
    return SLURM.replace("TIME", time)


def acknowledging(*entries: str) -> str:
    return "validation:\n  acknowledge:\n" + "".join(f"  - {entry}\n" for entry in entries)


def test_a_long_slurm_time_is_warned_of_in_the_known_words(check_training: Validate) -> None:
    found = check_training(slurm("12:00:00"))
    assert [warning.text for warning in found.warnings] == [LONG]
    assert (found.exit_code(strict=False), found.exit_code(strict=True)) == (0, 1)


@pytest.mark.parametrize(
    ("time", "words"),
    [
        ("12:00:00", "time is 12:00:00. A job of more than 6 hours is long"),
        ("0", "time is 0, which is unlimited to SLURM. A job of more than 6 hours is long"),
        ("unlimited", "time is unlimited. A job of more than 6 hours is long"),
        (
            "12:00:00, sbatch_args: [--gpus=1]",
            "time is 12:00:00. A job that holds a GPU for more than 6 hours",
        ),
        ("12:00:00, sbatch_args: 7", "time is 12:00:00. A job of more than 6 hours is long"),
    ],
)
def test_a_long_slurm_time_is_told_of_the_job_that_there_is(
    check_training: Validate, time: str, words: str
) -> None:
    (warning,) = check_training(slurm(time).replace(CARD, "")).warnings
    assert warning.text.startswith(f"model_training.backends.cluster.{words}")


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("90", 5400),
        ("30:15", 1815),
        ("04:00:00", 14400),
        ("1-", 86400),
        ("1-00", 86400),
        ("1-02:30", 95400),
        ("1-02:30:05", 95405),
        ("0", UNLIMITED),
        ("UNLIMITED", UNLIMITED),
        ("infinite", UNLIMITED),
    ],
)
def test_every_form_of_a_slurm_time_is_read(time: str, seconds: float) -> None:
    assert seconds_of(time) == seconds


@pytest.mark.parametrize("time", ["", "soon", "-5", "-1", "1:2:3:4", "1-:2", "1-2:3:4:5", "4h", "1.5", "٣"])
def test_what_is_no_slurm_time_is_refused(time: str) -> None:
    with pytest.raises(ValueError, match="must be a SLURM time"):
        seconds_of(time)


def test_a_slurm_time_beyond_what_slurm_counts_is_refused() -> None:
    assert seconds_of("24855-03:13:00") < 2**31
    with pytest.raises(ValueError, match="less than 68 years"):
        seconds_of("24855-03:14:00")


@pytest.mark.parametrize(
    ("time", "long"),
    [("360", False), ("361", True), ("6:00:01", True), ("0-06", False), ("0-07", True), ("0", True)],
)
def test_six_hours_are_not_yet_long(check_training: Validate, time: str, long: bool) -> None:
    assert bool(check_training(slurm(time)).warnings) is long


@pytest.mark.parametrize(("timeout_s", "is_short"), [("9.5", True), ("10", False)])
def test_a_silence_so_short_that_any_link_may_have_it_is_warned_of(
    check_training: Validate, timeout_s: str, is_short: bool
) -> None:
    found = check_training(f"  backends: {{ws: {{type: agent, heartbeat_timeout_s: {timeout_s}}}}}")
    assert [each.code for each in found.warnings] == (["short_heartbeat"] if is_short else [])
    assert not found.errors


@pytest.mark.parametrize(
    ("debug", "enabled", "codes"),
    [("true", "true", ["debug_on"]), ("true", "false", []), ("false", "true", [])],
)
def test_an_admin_without_a_key_is_warned_of_where_training_is_enabled(
    check: Validate, project: str, debug: str, enabled: str, codes: list[str]
) -> None:
    found = check(f"{project}debug: {debug}\nmodel_training: {{enabled: {enabled}}}\n")
    assert [(each.level, each.code) for each in found.findings] == [("warning", code) for code in codes]


def test_an_acknowledged_warning_no_longer_fails_strict(check: Validate, project: str) -> None:
    entry = "'model_training.backends.cluster.time is'"
    found = check(f"{project}{acknowledging(entry)}model_training:\n{slurm('12:00:00')}")
    assert found.findings == ()
    assert [warning.text for warning in found.acknowledged] == [LONG]
    assert found.exit_code(strict=True) == 0
    assert "ACKNOWLEDGED:\n  - line 14: model_training.backends.cluster.time is" in found.as_text(strict=True)


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ("model_train", "acknowledge_too_short"),
        ("12", "acknowledge_too_short"),
        ("[a, b]", "acknowledge_too_short"),
        ("model_training.backends.gpu.time is", "acknowledge_unused"),
        ("Model_Training.backends", "acknowledge_unused"),
    ],
)
def test_an_entry_that_acknowledges_nothing_is_a_warning(
    check: Validate, project: str, entry: str, code: str
) -> None:
    found = check(f"{project}{acknowledging(entry)}model_training:\n{slurm('12:00:00')}")
    assert [(warning.code, warning.line) for warning in found.warnings] == [
        (code, 11),
        ("long_slurm_time", 14),
    ]


def test_an_entry_for_one_backend_leaves_the_other_alone(check: Validate, project: str) -> None:
    other = slurm("12:00:00").replace("  backends:\n", "").replace("cluster", "second")
    entry = "model_training.backends.cluster.time is"
    found = check(f"{project}{acknowledging(entry)}model_training:\n{slurm('12:00:00')}{other}")
    assert [warning.key for warning in found.warnings] == ["model_training.backends.second.time"]
    assert len(found.acknowledged) == 1


def test_an_error_cannot_be_acknowledged(check: Validate, project: str) -> None:
    entry = "model_training.retain_runs: must be"
    found = check(f"{project}{acknowledging(entry)}model_training: {{retain_runs: -1}}\n")
    assert [finding.level for finding in found.findings] == ["warning", "error"]


def test_the_text_has_a_header_sections_and_a_verdict(check_training: Validate) -> None:
    found = check_training("  retain_runs: -1\n" + slurm("12:00:00"))
    assert found.as_text().splitlines() == [
        f"Config: {found.path}",
        "",
        "ERRORS:",
        "  - line 10: model_training.retain_runs: must be 0 or more, not -1",
        "",
        "WARNINGS:",
        f"  - line 12: {LONG}",
        "",
        "FAILED — 1 error.",
    ]


def test_the_verdict_counts_and_says_what_strict_does(check_training: Validate) -> None:
    found = check_training(slurm("12:00:00"))
    assert found.as_text().endswith("\nOK with 1 warning.")
    assert found.as_text(strict=True).endswith("\nFAILED — 1 warning; --strict fails on warnings.")
    assert check_training("  retain_runs: -1\n  queue_max: -1").as_text().endswith("\nFAILED — 2 errors.")


def test_the_json_form_holds_every_field(check_training: Validate) -> None:
    body = check_training("  retane_runs: 3").as_json()
    assert body["ok"] is False
    assert body["errors"] == [
        {
            "level": "error",
            "key": "model_training.retane_runs",
            "message": "model_training has no such key",
            "line": 10,
            "suggestion": "retain_runs",
            "code": "unknown_key",
            "text": "model_training.retane_runs: model_training has no such key (did you mean retain_runs?)",
        }
    ]


def test_loading_a_wrong_file_raises_with_every_error(check_training: Validate, folder: Path) -> None:
    check_training("  retain_runs: -1\n  queue_max: -1")
    with pytest.raises(ConfigInvalid) as raised:
        load(folder / "config.yaml")
    assert raised.value.message == f"{folder / 'config.yaml'} has 2 errors."
    assert "line 10: model_training.retain_runs" in raised.value.evidence
    assert "line 11: model_training.queue_max" in raised.value.evidence


def test_warnings_do_not_keep_a_configuration_from_loading(check_training: Validate) -> None:
    assert check_training(slurm("12:00:00")).require().model_training.backends["cluster"].type == "slurm"


def test_a_finding_for_the_whole_file_has_no_key_in_its_text() -> None:
    assert str(Finding("error", "", "The file is empty.")) == "The file is empty."


def test_a_secret_is_not_repeated_in_a_finding(check: Validate, project: str) -> None:
    found = check(f"{project}model_training: {{notify: {{url: 'https://x', secret_env: hush-hush}}}}\n")
    assert found.errors
    assert "hush" not in found.as_text()
