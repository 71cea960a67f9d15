"""Whole jobs in real processes: what a launcher and its worker leave behind."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from gpu_machine import FAKE_TORCH
from job_folders import end_of, events_of, last, logged

from potato_ray.job.launcher import start_detached
from potato_ray.job.outcome import explain


def outcome(folder):
    return explain(folder.read_exit(), last(folder, "result"), last(folder, "error"))


def run(folder):
    start_detached(folder)
    return end_of(folder)


def test_a_job_ends_with_a_result_and_predictions_of_all_items_but_train(make_job):
    job = make_job()
    end = run(job)
    assert (end.code, end.signal, end.reason) == (0, None, "")
    assert outcome(job).status == "success"
    lines = [json.loads(line) for line in job.predictions.read_text("utf-8").splitlines()]
    ids = [line["instance_id"] for line in lines]
    assert ids == ["val-0", "val-1", "test-0", "unlabeled-0", "unlabeled-1"]
    assert lines[0] == {
        "instance_id": "val-0",
        "schema_name": "topic",
        "payload": {"label": "a", "confidence": 0.75},
        "confidence": 0.75,
    }
    assert last(job, "result")["n_predictions"] == 5


def test_events_tell_the_phases_in_order_and_the_result_comes_last(make_job):
    job = make_job()
    run(job)
    phases = [event["phase"] for event in events_of(job, "status")]
    assert phases == ["starting", "loading", "fitting", "predicting", "saving"]
    assert events_of(job)[-1]["event"] == "result"
    assert {event["path"] for event in events_of(job, "artifact")} == {"model.txt", "predictions.jsonl"}


def test_process_json_names_both_processes_and_the_end_holds_figures(make_job):
    job = make_job()
    launcher = start_detached(job)
    end = end_of(job)
    processes = job.read_processes()
    assert processes.launcher == launcher
    assert processes.worker.pid != launcher.pid
    assert end.started_at <= end.ended_at
    assert 5 < end.peak_rss_mb < 200


def test_the_worker_gets_a_clean_environment_and_default_signals(make_job, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "planted")
    monkeypatch.setenv("RAY_RAYLET_PID", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    job = make_job("Facts", gpu_uuids=("GPU-1",), env={"POTATO_MODEL_CACHE": "/models"})
    run(job)
    facts = logged(job)
    assert "SECRET_TOKEN=unset" in facts
    assert "OMP_NUM_THREADS=unset" in facts
    assert "CUDA_VISIBLE_DEVICES=GPU-1" in facts
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in facts
    assert "HF_HOME=/models" in facts
    assert "sigint blocked: False" in facts


def test_a_trainer_may_ask_for_torch_and_a_device_of_it_late(make_job):
    path = os.pathsep.join([str(Path(__file__).parent), str(FAKE_TORCH)])
    job = make_job("LateDevice", env={"PYTHONPATH": path}, params={"modules": ["torch"]})
    run(job)
    facts = logged(job)
    assert "torch loaded: False, device: cpu" in facts
    assert any(fact.startswith("torch computes on cuda") for fact in facts)
    assert "late device: cuda" in facts


def test_what_a_trainer_requires_with_its_parameters_is_missed_before_the_data_is_read(make_job):
    job = make_job("LateDevice", params={"modules": ["no_such_module"]})
    (job.path / "bundle" / "train.jsonl").unlink()
    run(job)
    assert outcome(job).error_code == "missing_dependency"
    assert "lacks no_such_module" in outcome(job).message


@pytest.mark.parametrize(("seed", "told"), [(7, 7), (2**32 + 7, 7), (2**80 + 7, 7)])
def test_a_trainer_gets_a_seed_that_every_library_takes(make_job, seed, told):
    job = make_job("Facts", seed=seed)
    assert run(job).code == 0
    assert f"seed: {told}" in logged(job)


def test_the_job_folder_is_the_working_directory_but_not_importable(make_job):
    job = make_job("Facts", num_threads=2)
    (job.path / "json.py").write_text("raise SystemExit(99)", "utf-8")
    assert run(job).code == 0
    facts = logged(job)
    assert f"cwd: {job.path}" in facts
    assert "OMP_NUM_THREADS=2" in facts
    path = next(fact for fact in facts if fact.startswith("path: "))[6:].split(os.pathsep)
    assert not {"", ".", str(job.path)} & set(path)


def test_what_libraries_print_goes_to_the_logs_and_never_into_the_events(make_job):
    job = make_job("Chatty")
    run(job)
    assert "to stdout" in job.stdout.read_text("utf-8")
    assert "to stderr" in job.stderr.read_text("utf-8")
    assert last(job, "log")["message"] == "lone ? surrogate"
    assert any(event["value"] is None for event in events_of(job, "metric"))


@pytest.mark.parametrize(
    ("trainer", "exit_code", "error_code", "words"),
    [
        ("Refusing", 1, "validation_failed", "The texts are empty."),
        ("Broken", 1, "fit_failed", "ValueError: odd ? value"),
        ("Importing", 3, "missing_dependency", "Trainer 'stub_trainers:Importing' could not be imported"),
        ("Needy", 3, "missing_dependency", "lacks no-such-package"),
        ("Missing", 3, "missing_dependency", "Trainer 'stub_trainers:Missing' could not be imported"),
        ("OutOfMemory", 5, "out_of_memory", "could not get more memory"),
        ("GpuOutOfMemory", 5, "out_of_memory", "The GPU ran out of memory"),
        ("Leaking", 1, "fit_failed", "not in the val split"),
    ],
)
def test_each_failure_has_its_exit_code_and_says_what_to_do(make_job, trainer, exit_code, error_code, words):
    job = make_job(trainer)
    assert run(job).code == exit_code
    told = outcome(job)
    assert (told.status, told.error_code) == ("error", error_code)
    assert words in told.message
    assert told.next_step
    assert "Traceback" not in job.events.read_text("utf-8")
    assert not job.predictions.exists()


def test_a_traceback_is_in_stderr_log(make_job):
    job = make_job("Broken")
    run(job)
    assert "Traceback" in job.stderr.read_text("utf-8")


def test_a_clean_exit_without_a_result_is_a_failure(make_job):
    job = make_job("Quitter")
    assert run(job).code == 0
    assert outcome(job).error_code == "no_result"


def test_a_crash_in_native_code_leaves_its_stack_in_stderr_log(make_job):
    job = make_job("Crashing")
    assert run(job).signal == 11
    assert outcome(job).error_code == "fit_failed"
    assert "stub_trainers.py" in job.stderr.read_text("utf-8")


def test_too_few_train_items_are_refused_and_the_rest_is_accounted_for(make_job):
    job = make_job(splits={"train": ["a"] * 3 + ["b"], "val": ["a"] * 3, "test": ["b"] * 2})
    run(job)
    told = outcome(job)
    assert told.error_code == "validation_failed"
    assert told.message.startswith("Only 4 items in the train split; stub-majority needs 10")
    assert "9 labelled items have an agreed answer, 3 in val and 2 in test." in told.message


def test_one_label_alone_is_refused(make_job):
    job = make_job(splits={"train": ["a"] * 12, "val": ["b"]})
    run(job)
    message = outcome(job).message
    assert message.startswith("Schema 'topic' has 1 distinct label(s) in the data: every item")
    assert "Another label occurs only in val or test." in message


def test_a_torn_bundle_is_told_with_file_and_line(make_job):
    job = make_job()
    (job.bundle / "val.jsonl").write_text('{"instance_id": "val-0", "te', "utf-8")
    assert run(job).code == 2
    told = outcome(job)
    assert told.error_code == "bad_spec"
    assert "val.jsonl, line 1" in told.message


def test_a_training_score_never_goes_under_the_name_of_a_held_out_one(make_job):
    job = make_job("Boasting")
    run(job)
    assert last(job, "result")["metrics"] == {"n_train": 12.0}
    assert any("val_macro_f1" in message for message in logged(job))


def test_numbers_that_json_does_not_know_become_null_in_predictions(make_job):
    job = make_job("Unsure", splits={"train": ["a", "b"] * 6, "val": ["a"]})
    run(job)
    line = json.loads(job.predictions.read_text("utf-8"))
    assert line["confidence"] is None
    assert line["payload"] == {"label": "a", "probabilities": {"a": None}}


def test_a_bundle_without_held_out_items_gives_an_empty_predictions_file(make_job):
    job = make_job(splits={"train": ["a", "b"] * 6})
    assert run(job).code == 0
    assert job.predictions.read_text("utf-8") == ""


def test_logs_are_not_writable_for_others(make_job):
    job = make_job()
    run(job)
    for path in (job.events, job.stderr, job.stdout, job.exit):
        assert not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
