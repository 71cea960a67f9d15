from __future__ import annotations

from pathlib import Path

import pytest

from potato_ray.backends.agent import AgentBackend
from potato_ray.backends.base import Job, Placement, Refusal
from potato_ray.backends.grants import gives_cards, starts_agents
from potato_ray.backends.local import LocalBackend
from potato_ray.backends.making import describe, environment, lost_after_s, make_backend, require_runnable
from potato_ray.backends.slurm import SlurmBackend
from potato_ray.backends.ssh import SshBackend
from potato_ray.config import ProjectConfig, load
from potato_ray.errors import NotFound, RunFailed, StartRefused

CONFIG = """
annotation_task_name: t
task_dir: .
data_files: [items.json]
item_properties: {id_key: id, text_key: text}
output_annotation_dir: annotation_output
annotation_schemes:
  - {annotation_type: radio, name: tone, description: d, labels: [a, b]}
model_training:
  enabled: true
  device: "cuda:1"
  num_threads: 3
  max_ram_mb: 900
  backends:
    gpu-server: {type: ssh, host: gpu.example.org, env: {A: 1}}
    cluster:
      {type: slurm, host: login.example.org, remote_dir: /shared/p, job_python: python3, gres: "gpu:1",
       env: {PATH: /opt/slurm/bin}}
    workstation: {type: agent}
    lab: {type: ray}
"""


@pytest.fixture
def config(tmp_path: Path) -> ProjectConfig:
    (tmp_path / "items.json").write_text('[{"id": "1", "text": "x"}]')
    (tmp_path / "config.yaml").write_text(CONFIG)
    return load(tmp_path / "config.yaml")


def test_local_is_always_there_with_its_settings(config: ProjectConfig, tmp_path: Path) -> None:
    backend = make_backend("local", config, spare=tmp_path / "socket")
    assert isinstance(backend, LocalBackend)
    settings = backend.settings
    assert (settings.device, settings.num_threads, settings.max_ram_mb) == ("cuda:1", 3, 900)
    assert settings.folder == config.training_dir
    assert settings.spare == tmp_path / "socket"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("local", "local (this machine)"),
        ("gpu-server", "gpu-server (ssh to gpu.example.org)"),
        ("cluster", "cluster (slurm to login.example.org)"),
        ("workstation", "workstation (agent)"),
        ("lab", "lab (ray)"),
    ],
)
def test_a_backend_is_described_in_one_line(config: ProjectConfig, name: str, line: str) -> None:
    assert describe(name, config) == line


def test_an_agent_backend_gives_away_no_gpu_and_is_runnable(config: ProjectConfig, tmp_path: Path) -> None:
    require_runnable("workstation", config)
    backend = make_backend("workstation", config)
    assert isinstance(backend, AgentBackend)
    placed = backend.place(set())
    assert isinstance(placed, Placement)
    assert (placed.device, placed.gpu_uuids) == ("cuda:1", ())
    assert not backend.alive(tmp_path)


def test_an_ssh_backend_is_runnable_and_logs_in_to_nothing_until_it_is_asked(
    config: ProjectConfig, tmp_path: Path
) -> None:
    require_runnable("gpu-server", config)
    backend = make_backend("gpu-server", config)
    assert isinstance(backend, SshBackend)
    assert backend.place(set(), uses_gpu=False).step.endswith(", CPU")
    assert not backend.alive(tmp_path)
    with pytest.raises(RunFailed):
        backend.execute(Job("r", 1, tmp_path), lambda *args: pytest.fail("nothing to say"))


def test_a_slurm_backend_is_runnable_and_logs_in_to_nothing_for_a_place(config: ProjectConfig) -> None:
    require_runnable("cluster", config)
    backend = make_backend("cluster", config)
    assert isinstance(backend, SlurmBackend)
    placed = backend.place(set())
    assert isinstance(placed, Placement)
    assert (placed.device, placed.gpu_uuids, placed.host) == ("cuda", (), "login.example.org")
    assert backend.settings.description == "cluster (slurm to login.example.org)"


@pytest.mark.parametrize(
    ("name", "starts", "gives"),
    [
        ("local", False, True),
        ("gpu-server", True, True),
        ("cluster", True, False),
        ("workstation", False, False),
    ],
)
def test_who_starts_the_agent_of_a_run_and_who_gives_it_its_gpu(
    config: ProjectConfig, name: str, starts: bool, gives: bool
) -> None:
    assert (starts_agents(config, name), gives_cards(config, name)) == (starts, gives)


def test_the_env_of_a_backend_is_set_for_its_workers_and_under_slurm_by_the_job_s_script(
    config: ProjectConfig,
) -> None:
    assert environment(config, "gpu-server") == {"A": "1"}
    assert environment(config, "cluster") == environment(config, "local") == {}
    backend = make_backend("cluster", config)
    assert isinstance(backend, SlurmBackend)
    assert backend.settings.keys["env"] == {"PATH": "/opt/slurm/bin"}


def test_a_type_that_cannot_run_yet_says_so_everywhere(config: ProjectConfig, tmp_path: Path) -> None:
    backend = make_backend("lab", config)
    report, placed = backend.check(), backend.place(set())
    assert isinstance(placed, Refusal)
    assert not report.ok
    assert report.checks[0].message == placed.message
    assert placed.message == (
        "lab (ray) cannot run anything yet: this version runs on local, ssh, slurm and agents."
    )
    with pytest.raises(RunFailed):
        backend.execute(Job("r", 1, tmp_path), lambda *args: pytest.fail("nothing to say"))
    with pytest.raises(StartRefused, match="runs on local, ssh, slurm and agents"):
        require_runnable("lab", config)


def test_local_is_runnable(config: ProjectConfig) -> None:
    require_runnable("local", config)


def test_an_unknown_backend_is_not_found_and_the_known_ones_are_named(config: ProjectConfig) -> None:
    with pytest.raises(NotFound) as caught:
        make_backend("gpu-sever", config)
    assert caught.value.evidence == "The backends are local, gpu-server, cluster, workstation, lab."


def test_a_worker_over_there_outlives_a_short_silence_of_the_server(config: ProjectConfig) -> None:
    assert lost_after_s(config, "local") == config.model_training.survive_s
    assert lost_after_s(config, "workstation") == 300.0
