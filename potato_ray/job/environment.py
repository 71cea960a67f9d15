"""The environment of launchers and workers: an allow-list, and what the job adds.

A server's environment holds secrets (API keys, tokens), and that of a Ray worker holds Ray's own
settings; neither belongs into a training process.
"""

from __future__ import annotations

import hashlib
import json
from typing import Mapping

from potato_ray.job.spec import JobSpec

_PASSED = frozenset(
    """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR LD_LIBRARY_PATH DYLD_LIBRARY_PATH
    DYLD_FALLBACK_LIBRARY_PATH PYTHONPATH PYTHONNOUSERSITE PYTHONUSERBASE VIRTUAL_ENV CONDA_PREFIX
    CONDA_DEFAULT_ENV XDG_CACHE_HOME
    POTATO_MODEL_CACHE HF_HOME HF_HUB_CACHE HF_XET_CACHE HF_ASSETS_CACHE HF_DATASETS_CACHE HF_ENDPOINT
    HF_HUB_OFFLINE HF_DATASETS_OFFLINE HUGGINGFACE_HUB_CACHE TRANSFORMERS_CACHE TRANSFORMERS_OFFLINE
    SENTENCE_TRANSFORMERS_HOME TORCH_HOME TRITON_CACHE_DIR NUMBA_CACHE_DIR MPLCONFIGDIR
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
    ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF
    PYTORCH_ENABLE_MPS_FALLBACK
    """.split()  # noqa: SIM905 - names read better without quotes
)
_PASSED_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "NCCL_", "SLURM_", "SLURMD_")
_OUR_SECRETS = frozenset({"POTATO_TRAINING_TOKEN", "POTATO_ADMIN_API_KEY"})
_SET_BY_US = frozenset({"POTATO_RAY_JOB", "POTATO_RAY_SPARE"})

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
CACHE_VARIABLES = ("HF_HOME", "TRANSFORMERS_CACHE", "SENTENCE_TRANSFORMERS_HOME")
LATE_VARIABLES = frozenset({"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", *_SET_BY_US})
"""Variables that a process may still take after its start, as long as CUDA has not been touched."""


def inherited(base: Mapping[str, str], everything: bool = False) -> dict[str, str]:
    """What a launcher takes over from the process that started it.

    `everything` is for a batch job, whose environment its own script made (modules, prelude): only our
    secrets are left out. Thread counts are kept, except under Ray, which sets them to 1 for itself.
    """
    if everything:
        return {name: value for name, value in base.items() if name not in _OUR_SECRETS | _SET_BY_US}
    passed = {name: value for name, value in base.items() if _is_passed(name)}
    if not any(name.startswith("RAY_") for name in base):
        passed.update({name: base[name] for name in THREAD_VARIABLES if name in base})
    return passed


def _is_passed(name: str) -> bool:
    return name in _PASSED or name.startswith(_PASSED_PREFIXES)


def general_environment(
    base: Mapping[str, str], num_threads: int | None = None, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The worker's environment as far as it does not depend on the run; `base` is the launcher's."""
    result = dict(base)
    result.update(
        PYTHONUNBUFFERED="1",
        PYTHONUTF8="1",
        # Sets and dicts keep their order from run to run: the same seed gives the same model.
        PYTHONHASHSEED="0",
        TOKENIZERS_PARALLELISM="false",
    )
    result.update(extra or {})
    if num_threads is not None:
        result.update({name: str(num_threads) for name in THREAD_VARIABLES})
    cache = result.get("POTATO_MODEL_CACHE")
    if cache:
        for name in CACHE_VARIABLES:
            result.setdefault(name, cache)
    return result


def late_environment(spec: JobSpec) -> dict[str, str]:
    """What only the run decides: its mark, and its cards. `gpu_uuids` () hides every card."""
    result = {"POTATO_RAY_JOB": f"{spec.run_id}:{spec.attempt}"}
    if spec.limits.gpu_uuids is not None:
        result["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        result["CUDA_VISIBLE_DEVICES"] = ",".join(spec.limits.gpu_uuids)
    return result


def worker_environment(base: Mapping[str, str], spec: JobSpec) -> dict[str, str]:
    """The whole environment of a worker that is started for `spec`."""
    return {**general_environment(base, spec.limits.num_threads, spec.env), **late_environment(spec)}


def start_key(python: str, code_root: str, environment: Mapping[str, str]) -> str:
    """What must be equal for a process started earlier to stand in for one started now."""
    settled = {name: value for name, value in environment.items() if name not in LATE_VARIABLES}
    body = json.dumps([python, code_root, settled], sort_keys=True)
    return hashlib.sha256(body.encode("utf-8", "surrogateescape")).hexdigest()
