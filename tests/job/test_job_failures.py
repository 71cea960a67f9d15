from __future__ import annotations

import errno

import pytest

from potato_ray.job.bundle_files import BundleUnreadable
from potato_ray.job.failures import explain
from potato_ray.trainers.base import TrainerError

OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {"__module__": "torch"})


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemoryError("Allocation on device"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
        RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"),
    ],
)
def test_a_full_gpu_is_recognised_and_advised(error):
    told = explain(error, "llm-sft")
    assert (told.code, told.exit_code) == ("out_of_memory", 5)
    assert told.message.startswith("The GPU ran out of memory")
    for word in ("batch_size", "gradient_accumulation", "lora", "quantize", "gradient_checkpointing"):
        assert word in told.next_step


def test_a_full_gpu_is_recognised_behind_another_error():
    outer = ValueError("the epoch failed")
    outer.__cause__ = OutOfMemoryError("full")
    assert explain(outer, "t").code == "out_of_memory"


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_a_full_machine_is_not_blamed_on_the_gpu(error):
    told = explain(error, "t")
    assert told.code == "out_of_memory"
    assert "GPU" not in told.message


def test_mismatched_nvrtc_is_explained():
    text = "nvrtc compile failed\nnvrtc: error: failed to open libnvrtc-builtins.so.12.4.\n  Make sure"
    told = explain(RuntimeError(text), "t")
    assert told.message.startswith("nvrtc: error: failed to open libnvrtc-builtins.so.12.4.")
    assert "for different CUDA versions" in told.message
    assert "`python`" in told.next_step


def test_an_import_error_names_the_trainer():
    told = explain(ImportError("No module named 'peft'"), "setfit")
    assert (told.code, told.exit_code) == ("missing_dependency", 3)
    assert told.message.startswith("Trainer 'setfit' could not be imported: ImportError: No module")


def test_a_full_disk_is_called_that():
    assert "disk is full" in explain(OSError(errno.ENOSPC, "No space left on device"), "t").message


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("validation_failed", 1), ("bad_spec", 2), ("missing_dependency", 3), ("out_of_memory", 5)],
)
def test_a_trainers_own_words_are_kept(code, exit_code):
    told = explain(TrainerError(code, "What happened.", "What to do."), "t")
    assert (told.code, told.message, told.next_step) == (code, "What happened.", "What to do.")
    assert told.exit_code == exit_code


def test_an_unreadable_bundle_is_a_bad_spec():
    assert explain(BundleUnreadable("manifest.json: torn"), "t").exit_code == 2


def test_anything_else_is_a_failed_fit_with_its_first_words():
    told = explain(ValueError("x" * 5000), "t")
    assert (told.code, told.exit_code) == ("fit_failed", 1)
    assert told.message.startswith("ValueError: xxx")
    assert len(told.message) < 1100


def test_errors_that_cause_each_other_come_to_an_end():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert explain(first, "t").message == "ValueError: first"
