"""Fine-tuning in real workers: what a cancel keeps, a limit of memory, a model that cannot be had."""

from __future__ import annotations

import json

import pytest
from job_folders import end_of, events_of, last, wait_for
from parts import need_module
from tiny_models import tiny_bert

from potato_ray.job.launcher import start_detached
from potato_ray.job.outcome import explain
from potato_ray.job.spec import Limits
from potato_ray.trainers.hf_text import HfTextClassification
from potato_ray.trainers.params import complete

need_module("torch", "transformers", "peft", "accelerate")
TRAINER = "hf-text-classification"
SPLITS = {"train": ["a", "b"] * 10, "val": ["a", "b"] * 6}
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
PATIENCE_S = 120.0
"""A worker imports torch and transformers first."""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return str(tiny_bert(tmp_path_factory.mktemp("base") / "bert"))


def params(model, **given):
    fixed = {"learning_rate": 1e-4, "early_stopping": 0, "max_length": 16}
    return complete(HfTextClassification, {"model_name": model, **fixed, **given})


def outcome(job, limits=None):
    return explain(job.read_exit(), last(job, "result"), last(job, "error"), limits=limits)


def epochs_of(job):
    return [event for event in events_of(job, "metric") if event["name"] == "val_macro_f1"]


def test_a_cancelled_fine_tuning_keeps_its_best_checkpoint_as_partial(make_job, base):
    job = make_job(TRAINER, SPLITS, ONE_THREAD, params(base, epochs=1000))
    start_detached(job)
    # An epoch is told of before its checkpoint is written: once the second is told of, the first is whole.
    wait_for(lambda: len(epochs_of(job)) >= 2, "two epochs", PATIENCE_S)
    job.request_cancel("asked", grace_s=20.0)
    assert end_of(job, 20).reason == "cancelled"
    note = json.loads((job.artifacts / "partial" / "partial.json").read_text("utf-8"))
    assert note["chosen_on_val"] is True
    assert 0 < note["step"] < note["of_steps"] == 2000
    assert (job.artifacts / "partial" / "model.safetensors").is_file()
    assert [path.name for path in job.artifacts.iterdir()] == ["partial"]


def test_a_fine_tuning_beyond_max_ram_mb_ends_with_advice(make_job, base):
    job = make_job(TRAINER, SPLITS, ONE_THREAD, params(base), max_ram_mb=300)
    start_detached(job)
    end_of(job, PATIENCE_S)
    told = outcome(job, Limits(max_ram_mb=300))
    assert told.error_code == "out_of_memory"
    assert "max_ram_mb is 300" in told.evidence
    assert "Raise max_ram_mb" in told.next_step


def test_without_a_network_a_model_that_is_not_here_is_refused_before_training(make_job, tmp_path):
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "empty")}
    job = make_job(TRAINER, SPLITS, {**ONE_THREAD, **nowhere}, params("nobody/no-model"))
    start_detached(job)
    end_of(job, PATIENCE_S)
    told = outcome(job)
    assert told.error_code == "validation_failed"
    assert "nobody/no-model" in told.message
    assert "POTATO_MODEL_CACHE" in told.next_step
    assert not any(event["name"] == "train_loss" for event in events_of(job, "metric"))
