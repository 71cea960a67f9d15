from __future__ import annotations

import pytest

from potato_ray.job.environment import inherited, start_key, worker_environment
from potato_ray.job.spec import JobSpec, Limits
from potato_ray.trainers.base import SchemeSpec


def spec(env=None, **limits):
    schemes = (SchemeSpec("topic", "radio", "nominal"),)
    return JobSpec("run", 2, "trainer", schemes, {}, limits=Limits(**limits), env=env or {})


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "POTATO_ADMIN_API_KEY", "POTATO_TRAINING_TOKEN", "AWS_SECRET_ACCESS_KEY", "RAY_AUTH_TOKEN"],
)
def test_secrets_and_rays_settings_stay_behind(name):
    assert name not in inherited({name: "planted", "PATH": "/bin"})


@pytest.mark.parametrize(
    "name",
    ["PATH", "LC_ALL", "HF_HOME", "CUDA_HOME", "https_proxy", "SSL_CERT_FILE", "LD_LIBRARY_PATH", "TZ"],
)
def test_what_a_training_needs_is_passed(name):
    assert inherited({name: "value"}) == {name: "value"}


def test_thread_counts_of_a_login_shell_are_kept_but_not_those_of_ray():
    assert inherited({"OMP_NUM_THREADS": "8"}) == {"OMP_NUM_THREADS": "8"}
    assert inherited({"OMP_NUM_THREADS": "1", "RAY_RAYLET_PID": "7"}) == {}


def test_a_batch_jobs_environment_is_kept_without_our_secrets():
    base = {"MY_MODULE": "x", "HF_TOKEN": "hf_1", "POTATO_TRAINING_TOKEN": "secret"}
    assert inherited(base, everything=True) == {"MY_MODULE": "x", "HF_TOKEN": "hf_1"}


def test_num_threads_wins_over_the_shell_and_the_jobs_own_environment():
    environment = worker_environment({"OMP_NUM_THREADS": "8"}, spec({"MKL_NUM_THREADS": "6"}, num_threads=2))
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    assert [environment[name] for name in names] == ["2", "2", "2"]


def test_the_jobs_environment_wins_over_what_is_inherited():
    assert worker_environment({"HF_HOME": "/a"}, spec({"HF_HOME": "/b"}))["HF_HOME"] == "/b"


@pytest.mark.parametrize(("uuids", "visible"), [((), ""), (("GPU-1", "GPU-2"), "GPU-1,GPU-2")])
def test_cards_are_named_by_uuid_in_the_order_of_the_bus(uuids, visible):
    environment = worker_environment({"CUDA_VISIBLE_DEVICES": "5"}, spec(gpu_uuids=uuids))
    assert environment["CUDA_VISIBLE_DEVICES"] == visible
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_cards_that_a_batch_system_set_are_left_alone():
    environment = worker_environment({"CUDA_VISIBLE_DEVICES": "5"}, spec())
    assert environment["CUDA_VISIBLE_DEVICES"] == "5"
    assert "CUDA_DEVICE_ORDER" not in environment


def test_the_model_cache_sets_only_what_is_not_set():
    environment = worker_environment({"POTATO_MODEL_CACHE": "/m", "HF_HOME": "/mine"}, spec())
    names = ("HF_HOME", "TRANSFORMERS_CACHE", "SENTENCE_TRANSFORMERS_HOME")
    assert [environment[name] for name in names] == ["/mine", "/m", "/m"]


def test_a_worker_carries_the_mark_of_its_run_and_attempt():
    assert worker_environment({}, spec())["POTATO_RAY_JOB"] == "run:2"


def test_a_start_key_ignores_what_may_come_late_and_nothing_else():
    key = start_key("python", "/code", {"PATH": "/bin"})
    assert key == start_key("python", "/code", {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "1"})
    assert key != start_key("python", "/code", {"PATH": "/sbin"})
    assert key != start_key("python3", "/code", {"PATH": "/bin"})
    assert key != start_key("python", "/other", {"PATH": "/bin"})
