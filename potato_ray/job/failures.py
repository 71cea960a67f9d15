"""What went wrong in a worker, in words: the exception's kind decides code, advice and exit code."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Iterator

from potato_ray.job.bundle_files import BundleUnreadable
from potato_ray.job.events import (
    EXIT_BAD_SPEC,
    EXIT_DISK_FULL,
    EXIT_MISSING_DEPENDENCY,
    EXIT_OUT_OF_MEMORY,
    EXIT_UNEXPECTED,
)
from potato_ray.trainers.base import TrainerError

MESSAGE_LIMIT = 1000

GPU_MEMORY_ADVICE = (
    "Lower batch_size and raise gradient_accumulation to keep the effective batch, set lora: true or "
    "lora: {quantize: 4bit}, set gradient_checkpointing: true, or choose a smaller model."
)
MEMORY_ADVICE = "Raise model_training.max_ram_mb if it is set, or train on fewer items or a smaller model."
BUNDLE_ADVICE = "Start the run again: the bundle is built anew."
DISK_FULL = "The disk is full where the run's folder lies."
DISK_ADVICE = "Free some space there and start again."
NVRTC_ADVICE = "Install the nvidia-cuda-nvrtc that matches torch, or point `python` at another interpreter."
IMPORT_ADVICE = "Install or repair that package in the worker's Python."
LOG_ADVICE = "stderr.log in the run's folder holds the whole story."

_EXIT_CODES = {
    "bad_spec": EXIT_BAD_SPEC,
    "missing_dependency": EXIT_MISSING_DEPENDENCY,
    "out_of_memory": EXIT_OUT_OF_MEMORY,
}
_GPU_MEMORY_TEXTS = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "HIP out of memory",
    "MPS backend out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
_MEMORY_TEXT = "DefaultCPUAllocator: can't allocate memory"
_NVRTC_TEXT = "failed to open libnvrtc-builtins"


@dataclass(frozen=True)
class Failure:
    """The fields of an error event, and the worker's exit code.

    A full disk has an exit code of its own, because the event may not have been written.
    """

    code: str
    message: str
    next_step: str
    disk_full: bool = False

    @property
    def exit_code(self) -> int:
        if self.disk_full:
            return EXIT_DISK_FULL
        return _EXIT_CODES.get(self.code, EXIT_UNEXPECTED)


def explain(error: BaseException, trainer: str) -> Failure:
    """Describe what ended a worker; causes count too, so a wrapped CUDA error is still recognised."""
    if isinstance(error, TrainerError):
        return Failure(error.code, error.message, error.next_step or LOG_ADVICE)
    if isinstance(error, BundleUnreadable):
        return Failure("bad_spec", f"The bundle cannot be read: {error}", BUNDLE_ADVICE)
    for cause in _chain(error):
        known = _known(cause, trainer)
        if known is not None:
            return known
    return Failure("fit_failed", _in_words(error), LOG_ADVICE)


def _known(error: BaseException, trainer: str) -> Failure | None:
    text = str(error)
    if _is_gpu_memory(error, text):
        return Failure("out_of_memory", f"The GPU ran out of memory: {_first_line(text)}", GPU_MEMORY_ADVICE)
    if isinstance(error, MemoryError) or _MEMORY_TEXT in text:
        message = f"The worker could not get more memory. {_first_line(text)}".strip()
        return Failure("out_of_memory", message, MEMORY_ADVICE)
    if _NVRTC_TEXT in text:
        return _nvrtc(text)
    if isinstance(error, ImportError):
        message = f"Trainer '{trainer}' could not be imported: {_in_words(error)}"
        return Failure(
            "missing_dependency", message, "Install or repair that package in the worker's Python."
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failure("fit_failed", DISK_FULL, DISK_ADVICE, disk_full=True)
    return None


def _is_gpu_memory(error: BaseException, text: str) -> bool:
    kind = type(error)
    from_torch = kind.__name__ == "OutOfMemoryError" and kind.__module__.partition(".")[0] == "torch"
    return from_torch or any(known in text for known in _GPU_MEMORY_TEXTS)


def _nvrtc(text: str) -> Failure:
    line = next(line for line in text.splitlines() if _NVRTC_TEXT in line)
    explanation = "torch and its nvidia-cuda-nvrtc package are for different CUDA versions."
    return Failure("fit_failed", f"{line.strip()[:MESSAGE_LIMIT]} — {explanation}", NVRTC_ADVICE)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _in_words(error: BaseException) -> str:
    text = str(error).strip()
    words = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return words if len(words) <= MESSAGE_LIMIT else words[:MESSAGE_LIMIT] + "…"


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0][:MESSAGE_LIMIT]
