"""Models of the Hugging Face Hub: what of them is in the caches of this machine, and fetching the others.

The caches are looked into by ourselves: each release of huggingface_hub has another idea of what a whole
copy is, transformers and sentence-transformers had caches of their own, and a run must not depend on it.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any, Callable, Iterator

from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.installing import into_this_python

FIRST_ANSWER_S = 12.0
"""The Hub has so long to say whether it has a model. Looking up its name alone may take a machine without a
network longer, and huggingface_hub sets that no limit."""
_PER_REQUEST_S = 10.0
_FILES = ["*.json", "*.txt", "*.model", "*.spm", "*.safetensors"]
_LEFT_OUT = ["onnx/*", "openvino/*", "original/*", "*/checkpoint-*", "checkpoint-*"]


def caches() -> list[Path]:
    """The folders that models of the Hub are cached in, the one that is fetched to first."""
    variable = os.environ.get
    common = Path(variable("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    ours = variable("POTATO_MODEL_CACHE")
    home = Path(variable("HF_HOME") or ours or common)
    first = variable("HF_HUB_CACHE") or variable("HUGGINGFACE_HUB_CACHE") or home / "hub"
    others = [variable("TRANSFORMERS_CACHE"), variable("SENTENCE_TRANSFORMERS_HOME"), ours]
    found = [Path(first), *map(Path, filter(None, others)), *([Path(ours, "hub")] if ours else [])]
    return list(dict.fromkeys(Path(os.path.expandvars(str(path))).expanduser() for path in found))


def snapshots(name: str, revision: str = "") -> Iterator[Path]:
    """The copies of a model in the caches, of the revision (a commit, branch or tag; "": main), maybe torn.

    A folder's own name is its commit.
    """
    for cache in caches():
        model = cache / f"models--{name.replace('/', '--')}"
        try:
            commit = _commit(model, revision or "main")
            found = bool(commit) and (model / "snapshots" / commit).is_dir()
        except OSError:  # somebody else's folder
            continue
        if found:
            yield model / "snapshots" / commit


def fetch(name: str, revision: str = "", torn: str = "") -> Path:
    """Fetch a model into the first cache; its folder, named by the commit. Raises TrainerError.

    `torn` says what is wrong with a copy that is there. Waits FIRST_ANSWER_S for the Hub, and then as long
    as files come.
    """
    hub = _huggingface_hub()
    cache = caches()[0]
    try:
        ask = hub.HfApi(endpoint=_endpoint()).model_info
        _within(FIRST_ANSWER_S, lambda: ask(name, revision=revision or None, timeout=_PER_REQUEST_S))
        hub.utils.disable_progress_bars()
        folder = hub.snapshot_download(
            name,
            revision=revision or None,
            cache_dir=str(cache),
            endpoint=_endpoint(),
            allow_patterns=_FILES,
            ignore_patterns=_LEFT_OUT,
        )
    except Exception as failure:  # whatever a network, a proxy, a disk or the Hub may do
        raise _not_had(name, revision, cache, torn, failure) from failure
    return Path(folder)


def _commit(model: Path, revision: str) -> str:
    if (model / "snapshots" / revision).is_dir():
        return revision
    try:
        return (model / "refs" / revision).read_text("utf-8").strip()
    except (OSError, ValueError):
        return ""


def _within(limit_s: float, ask: Callable[[], Any]) -> None:
    """Raises what `ask` raises, or TimeoutError; it is then left behind in a thread that ends with us."""
    failures: list[Exception] = []

    def asked() -> None:
        try:
            ask()
        except Exception as failure:  # noqa: BLE001 - raised again where somebody waits for it
            failures.append(failure)

    thread = threading.Thread(target=asked, name="model-hub", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise TimeoutError(f"no answer within {limit_s:g} s")
    if failures:
        raise failures[0]


def _not_had(name: str, revision: str, cache: Path, torn: str, failure: Exception) -> TrainerError:
    where = f"{torn}, and" if torn else f"The model {name} is neither a folder nor in the cache {cache}, and"
    why, advice = _reason(failure, name, revision, cache)
    return TrainerError("validation_failed", f"{where} {why}.", advice)


def _reason(failure: Exception, name: str, revision: str, cache: Path) -> tuple[str, str]:
    """(why a model was not fetched, what to do)."""
    kinds = {kind.__name__ for cause in _causes(failure) for kind in type(cause).__mro__}
    if "OfflineModeIsEnabled" in kinds:
        unset = "Unset that where the machine that trains has a network. "
        return "HF_HUB_OFFLINE (or TRANSFORMERS_OFFLINE) forbids fetching it", unset + _elsewhere(name)
    if "GatedRepoError" in kinds:
        return (
            "the Hub gives it only to those who have accepted its conditions",
            f"Accept them at {_endpoint()}/{name} and run `hf auth login` on the machine that trains, or "
            "choose another model.",
        )
    if "RevisionNotFoundError" in kinds:
        return f"the Hub has no revision {revision or 'main'} of it", "Choose another model or revision."
    if "RepositoryNotFoundError" in kinds:
        return (
            "the Hub has no such model, or shows it only to some of those who are logged in",
            "Correct model_name, with the whole path where it is a folder; for a private model log in with "
            "`hf auth login` on the machine that trains.",
        )
    of_disk = next(filter(_is_of_disk, _causes(failure)), None)
    if of_disk is not None:
        return (
            f"it cannot be written there: {getattr(of_disk, 'strerror', '')}",
            f"Make room or give leave to write in {cache}, or set POTATO_MODEL_CACHE to another folder.",
        )
    return f"it could not be fetched from {_endpoint()}: {_in_words(failure)}", _elsewhere(name)


def _is_of_disk(failure: BaseException) -> bool:
    if not isinstance(failure, OSError):
        return False
    # A firewall answers a connection with the errors of a file's permissions, but names no file.
    return failure.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or failure.filename is not None


def _elsewhere(name: str) -> str:
    return (
        f"Where there is a network, run `HF_HOME=/shared/models hf download {name}`, with a folder that this "
        "machine sees too, and set POTATO_MODEL_CACHE to that folder where the server is started; or give "
        "model_name the whole path of the model's folder."
    )


def _causes(failure: BaseException | None) -> list[BaseException]:
    """The failure and what it came of, the outermost first."""
    causes: list[BaseException] = []
    while failure is not None and failure not in causes:
        causes.append(failure)
        failure = failure.__cause__ or failure.__context__
    return causes


def _in_words(failure: Exception) -> str:
    """The first line of what lies at the bottom: those above it are about caches."""
    words = [(str(cause).strip().splitlines() or [""])[0] for cause in _causes(failure)]
    return next((line[:200] for line in reversed(words) if line), type(failure).__name__)


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def _huggingface_hub() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.utils
    except ImportError as missing:
        raise TrainerError(
            "missing_dependency", str(missing), into_this_python("pip install huggingface_hub")
        ) from missing
    return huggingface_hub
