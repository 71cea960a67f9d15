from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import fake_nvidia_smi
import pytest
from playing_trainer import Playing
from smi_zoo import recorded

from potato_ray.backends import local_check
from potato_ray.backends.local import LocalBackend, LocalSettings
from potato_ray.backends.smi import run_nvidia_smi
from potato_ray.backends.torch_build import TorchBuild
from potato_ray.trainers import registry
from potato_ray.trainers.base import Requirement


def local(
    machine: str, settings: LocalSettings | None = None, torch: TorchBuild | None = None
) -> LocalBackend:
    return LocalBackend("local", settings, run_smi=recorded(machine), ask_torch=lambda python: torch)


@pytest.fixture
def gpu_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainer that uses a GPU and is installed: the module called torch is found, whatever is in it."""
    trainer = type(
        "OnGpu",
        (Playing,),
        {"name": "on-gpu", "requires": (Requirement("torch", "torch"),), "install_hint": "pip install torch"},
    )
    monkeypatch.setattr(registry, "_registered", {})
    registry.register(trainer)


def test_the_summary_is_the_device_of_a_run() -> None:
    report = local("three_cards").check()
    assert report.summary == "local: this machine, CUDA (NVIDIA A100-SXM4-40GB, GPU 1, 39000 MB free)"
    assert report.ok
    assert local("no_devices").check().summary == "local: this machine, CPU"


def test_every_card_is_listed_with_free_memory_and_utilisation() -> None:
    messages = [check.message for check in local("three_cards").check().checks if check.name == "gpu"]
    assert messages[1] == "GPU 1 (NVIDIA A100-SXM4-40GB): 39000 of 40960 MB free, 97 % busy"


def test_a_card_without_kernels_is_marked() -> None:
    report = local("old_driver", torch=TorchBuild("2.9", "12.8", ("sm_80",))).check()
    assert report.facts["gpus"][0]["kernels"] is True
    newer = local("three_cards", torch=TorchBuild("2.9", "12.8", ("sm_120",))).check()
    assert "(torch there has no kernels for it)" in next(c.message for c in newer.checks if c.name == "gpu")
    assert "This host's torch has no kernels for any of its GPUs" in newer.summary


def test_a_full_machine_is_said_but_stops_no_trainer_that_needs_no_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_is_installed", lambda module: module != "torch")
    report = local("three_cards", LocalSettings(min_free_gpu_mb=90000)).check()
    assert report.summary == "local: this machine. No GPU has 90000 MB free."
    assert report.ok


def test_a_full_machine_fails_the_check_where_an_installed_trainer_needs_a_gpu(
    gpu_trainer: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "availability", lambda trainer: (True, "", ""))
    report = local("three_cards", LocalSettings(min_free_gpu_mb=90000)).check()
    assert not report.ok
    (failed,) = [check for check in report.checks if not check.ok]
    assert failed.name == "device"
    assert failed.next_step


def test_missing_packages_are_named_with_their_installation(
    gpu_trainer: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_is_installed", lambda module: module != "torch")
    report = local("no_devices").check()
    assert report.facts["trainers"]["on-gpu"]["available"] is False
    (told,) = (check for check in report.checks if check.message.startswith("on-gpu:"))
    assert (told.message, told.is_note) == (f"on-gpu: {sys.executable} lacks torch.", True)
    assert told.next_step == f"{sys.executable} -m pip install torch"
    assert report.ok


def test_no_trainer_at_all_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_is_installed", lambda module: False)
    assert not local("no_devices").check().ok


def test_a_fallback_is_part_of_the_report() -> None:
    report = local("no_devices", LocalSettings(device="cuda:1")).check()
    device = next(check for check in report.checks if check.name == "device")
    assert "model_training.device is cuda:1" in device.message


def test_a_full_disk_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_check, "_disk_free_mb", lambda folder: 12.0)
    assert not local("no_devices").check().ok


def test_the_disk_of_a_folder_that_does_not_exist_yet_is_measured(tmp_path: Path) -> None:
    report = local("no_devices", LocalSettings(folder=tmp_path / "training" / "runs")).check()
    assert report.facts["disk_free_mb"] > 0


def test_an_interpreter_that_is_not_there_fails_the_check() -> None:
    report = local("no_devices", LocalSettings(python="/nowhere/python3")).check()
    assert "/nowhere/python3 was not found" in [check.message for check in report.checks]
    assert not report.ok


@pytest.mark.parametrize(
    "machine", ["mig", "unified_memory", "broken_cards", "driver_mismatch", "three_cards"]
)
def test_the_report_can_be_printed_as_json(machine: str) -> None:
    json.dumps(asdict(local(machine).check()), allow_nan=False)


def test_torch_is_asked_once_for_many_placements_and_afresh_for_a_check() -> None:
    asked: list[str] = []

    def ask(python: str) -> None:
        asked.append(python)

    backend = LocalBackend(run_smi=recorded("three_cards"), ask_torch=ask)
    backend.place(set())
    backend.place(set())
    assert len(asked) == 1
    backend.check()
    assert len(asked) == 2


def test_no_torch_is_asked_where_there_is_no_card_or_no_use_for_one() -> None:
    def ask(python: str) -> None:
        raise AssertionError("torch was asked for")

    LocalBackend(run_smi=recorded("no_devices"), ask_torch=ask).place(set())
    LocalBackend(run_smi=recorded("three_cards"), ask_torch=ask).place(set(), uses_gpu=False)


def test_a_hanging_nvidia_smi_leads_to_the_cpu(smi_dir: Path) -> None:
    fake_nvidia_smi.write_cards(smi_dir, [9000])
    (smi_dir / "delay_s").write_text("60")
    report = LocalBackend(run_smi=lambda arguments, timeout_s: run_nvidia_smi(arguments, 0.2)).check()
    assert report.facts["nvidia_smi"] == "nvidia-smi did not answer within 0.2 s"
    assert report.summary == "local: this machine, CPU"
