"""Configurations without any finding, and what they become."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from potato_ray.bundle.split_names import DEFAULT_FRACTIONS
from potato_ray.config import ModelTraining, ProjectConfig, Validation, load, validate

ROOT = Path(__file__).parents[2]
WARNED_OF = "multi-scheme"
"""It publishes a scheme that Potato's pages leave empty; test_config_prefilled.py has it."""
EXAMPLES = sorted(
    path
    for folder in ("configs", "tests/projects")
    for path in ROOT.glob(f"{folder}/*/config.yaml")
    if path.parent.name != WARNED_OF
)
Validate = Callable[[str], Validation]


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.parent.name for path in EXAMPLES])
def test_an_example_has_no_finding(path: Path) -> None:
    found = validate(path)
    assert found.as_text(strict=True).endswith("OK — no issues found.")
    assert found.exit_code(strict=True) == 0


def test_there_is_an_example_of_every_type_of_backend() -> None:
    types = {
        backend.type
        for path in ROOT.glob("configs/*/config.yaml")
        for backend in load(path).model_training.backends.values()
    }
    assert types == {"ssh", "slurm", "agent", "ray"}


@pytest.mark.parametrize(
    "lines",
    [
        "  {}",
        "  enabled: yes",
        "  backend: local",
        "  writeback:\n  backends:\n  trainer_params:",
        "  splits: {train: 1}",
        "  splits: {train: 70, val: 15, test: 15}",
        "  max_wall_seconds: 3600\n  max_ram_mb: 8192\n  num_threads: 4\n  grace_seconds: 0\n  queue_max: 0",
        "  device: cuda:1\n  group_key: author\n  retry_lost: 0\n  survive_s: 0\n  max_concurrent_runs: 4",
        "  tiling: {enabled: false, tile_px: 512, overlap_px: 64}",
        "  writeback: {schemas: [sentiment, evidence], min_confidence: 1, gate: off, score_blind_only: off}",
        "  trainer_params: {sklearn-text: {classifier_kwargs: {max_iter: 1000}, min_instances: 5}}",
        "  auto_retrain: {enabled: false, trainer: sklearn-text, schemas: [sentiment], params: {}}",
        "  auto_retrain: {trainer: not-yet-there, schemas: [later]}",
        "  notify: {url: 'https://example.org/hook?key=1', secret_env: PATH}",
        "  notify: {url: 'http://127.0.0.2:9000/hook'}",
        "  notify: {url: 'http://[::1]/hook'}",
        "  backends: {gpu: {type: ssh, host: me@gpu, gpus: [0, 1], env: {OMP_NUM_THREADS: 4, A: ''}}}",
        "  backends: {gpu: {type: ssh, host: '::1', user: me, port: 22, identity_file: ~/k, gpus: none}}",
        "  backends: {c: {type: slurm, host: l, remote_dir: /s, job_python: p, time: 06:00:00}}",
        "  backends: {c: {type: slurm, host: l, remote_dir: a, job_python: p, time: 9, mem: 9, qos: q}}",
        "  backends: {c: {type: slurm, host: l, remote_dir: /tmpfs/x, job_python: p, min_free_gpu_mb: 5}}",
        "  backends: {a: {type: agent, description: a b, queue_timeout_s: 60}}",
        "  backends: {r: {type: ray, node: node-7, gpus: '1', fetch_artifacts: false, max_artifact_mb: 0}}",
    ],
)
def test_a_right_model_training_has_no_finding(check_training: Validate, lines: str) -> None:
    assert check_training(lines).findings == ()


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        (
            "  auto_retrain: {enabled: true, trainer: sklearn-text, schemas: [sentiment]}",
            "auto_retrain.enabled",
        ),
        ("  retry_lost: 2", "retry_lost"),
        ("  tiling: {enabled: auto}", "tiling"),
        ("  max_predictions_mb: 100", "max_predictions_mb"),
    ],
)
def test_what_has_no_effect_in_this_version_is_warned_of(
    check_training: Validate, lines: str, key: str
) -> None:
    found = check_training(lines)
    assert [(each.level, each.code, each.key) for each in found.findings] == [
        ("warning", "planned_key", f"model_training.{key}")
    ]
    assert found.findings[0].text.endswith("is validated, and has no effect in this version")
    assert found.config is not None


@pytest.mark.parametrize(
    "lines",
    [
        "port: 8000",
        "  - {annotation_type: select, name: c, description: Where, use_predefined_labels: country}",
        "  - {annotation_type: text, name: c, description: Why}",
        "list_as_text: {text_list_prefix_type: alphabet}\nai_support: {holdout: {fraction: 0.1}}",
        "training: {enabled: true}\nphases: {order: [annotation]}\nquality_control: {enabled: false}",
        "pre_annotation: {enabled: true, field: hints}",
        "pre_annotation: {enabled: true}\nmodel_training: {writeback: {schemas: [sentiment]}}",
        "user_config: {allow_all_users: false, users: [ann]}\ndatasets: {enabled: true}\nmedia_directory: m",
        "model_training:",
        "some_extension_of_potato: {anything: [1, 2]}",
    ],
)
def test_what_is_potatos_is_left_alone(check: Validate, project: str, lines: str) -> None:
    assert check(f"{project}{lines}\n").findings == ()


def test_paths_are_absolute_and_relative_to_the_right_folder() -> None:
    config = load(ROOT / "configs" / "ssh" / "config.yaml")
    local = ROOT / "configs" / "local"
    assert config.path == ROOT / "configs" / "ssh" / "config.yaml"
    assert config.task_dir == local
    assert config.data_paths == (local / "data" / "reviews.json",)
    assert config.output_dir == local / "annotation_output"
    assert config.training_dir == local / "annotation_output" / "training"
    assert config.registry_path == local / "project.sqlite"
    assert config.state_dir == local / ".potato_ray"


def test_a_relative_path_to_the_file_becomes_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "configs")
    assert load("local/config.yaml").task_dir == ROOT / "configs" / "local"


def test_values_come_in_one_form(check_training: Validate) -> None:
    config = check_training(
        "  writeback: {gate: off}\n"
        "  backends:\n"
        "    gpu: {type: ssh, host: g, gpus: [0, 1], env: {A: 4}}\n"
        "    c: {type: slurm, host: l, remote_dir: /s, job_python: p, time: 90, mem: 16000}\n"
    ).require()
    gpu, cluster = config.model_training.backends["gpu"], config.model_training.backends["c"]
    assert (gpu.gpus, gpu.env, gpu.python, gpu.remote_dir) == (
        "0,1",
        {"A": "4"},
        "python3",
        "~/.cache/potato-training",
    )
    assert (cluster.time, cluster.mem, cluster.prelude) == ("90", "16000", ())
    assert config.model_training.writeback.gate == "off"


def test_fractions_are_normalised(check_training: Validate) -> None:
    splits = check_training("  splits: {train: 70, val: 30}").require().model_training.splits
    assert splits.fractions == {"train": 0.7, "val": 0.3, "test": 0.0}


def test_a_data_file_may_be_a_mapping_with_a_path(check: Validate, project: str, folder: Path) -> None:
    text = project.replace("[data/items.json]", "[{path: data/items.json, weight: 2}]")
    assert check(text).require().data_paths == (folder / "data" / "items.json",)


def test_a_configuration_survives_a_trip_to_another_process_and_cannot_change() -> None:
    config = load(ROOT / "configs" / "slurm" / "config.yaml")
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 - it is ours
    with pytest.raises(ValueError, match="frozen"):
        config.debug = True  # type: ignore[misc]


def test_the_admin_key_is_not_in_the_printed_form(check: Validate, project: str) -> None:
    config: ProjectConfig = check(f"{project}admin_api_key: hush-hush\n").require()
    assert config.admin_api_key == "hush-hush"
    assert "hush" not in repr(config)


def test_a_project_that_says_nothing_has_the_shares_of_a_bundle_that_says_nothing() -> None:
    assert ModelTraining().splits.fractions == DEFAULT_FRACTIONS
