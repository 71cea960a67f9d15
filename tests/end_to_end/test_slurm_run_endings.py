"""How whole runs end on a real SLURM, and what people are told. One scene for all: SLURM takes its time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from parts import missing
from server_process import API
from slurm_cluster import SlurmCluster
from slurm_job import SlurmJob
from slurm_lab import SlurmLab, slurm_lab
from whole_runs import ended, in_step, wait_until

from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

NO_PYTHON = "/no/such/python"
NO_FOLDER = "/no/such/folder/slurm.out"
AN_HOUR = "0-01:00:00"


def variants_on(cluster: SlurmCluster, failed: SlurmJob) -> dict[str, dict[str, Any]]:
    """Backends by what becomes of their runs; `failed` is a job that has done so."""
    steady, taken, lost = cluster.nodes
    variants: dict[str, dict[str, Any]] = {
        "no module": {"job_python": NO_PYTHON, "prelude": ["module load cuda"]},
        "no folder": {"sbatch_args": [f"--output={NO_FOLDER}"]},
        "late": {},
        "cancelled": {},
        "hungry": {},
        "left": {},
        "to cancel": {"partition": "lowcancel", "nodelist": taken},
        "to requeue": {"partition": "lowrequeue", "nodelist": taken},
        "lost": {"nodelist": lost},
        "waiting": {"sbatch_args": ["--hold"]},
        "held": {"sbatch_args": ["--hold"]},
        "orphan": {"sbatch_args": [f"--dependency=afterok:{failed.id}"]},
        "too long": {"partition": "short", "time": AN_HOUR},
        "refused": {"partition": "short", "time": AN_HOUR},
        "good": {"nodelist": lost},
    }
    return {name: {"nodelist": steady, "mem": "150M", **keys} for name, keys in variants.items()}


class Scene:
    """Runs by the name of their backend. Most share the first node; the others are taken from their jobs."""

    def __init__(self, lab: SlurmLab) -> None:
        self.lab = lab
        self.runs: dict[str, str] = {}

    def play(self) -> None:
        """All of it, until every run has ended; first what is not believed at once to have left no end."""
        cluster = self.lab.cluster
        _, taken, lost = cluster.nodes
        with cluster.set("EnforcePartLimits=ALL"):
            self._start("succeed", "no module", "no folder", "refused")
            self.ended("refused")
        self._start("wait", "late", "cancelled", "to cancel", "to requeue", "lost")
        if cluster.limits_memory:
            self.runs["hungry"] = self.lab.start("hoard", backend="hungry", mb=1024)
        self._start("succeed", "waiting", "held", "orphan", "too long")
        self._start("leave", "left")
        self._at_work("late").run_out_of_time()
        self._at_work("cancelled").cancel()
        for name in ("to cancel", "to requeue", "lost"):
            self._at_work(name)
        cluster.submit("sleep 0.1", "--partition=high", "--exclusive", f"--nodelist={taken}").ends()
        cluster.set_node(lost, "down")
        cluster.have_nodes_back()
        self._start("succeed", "good")
        self._let_go_of_those_that_wait()
        for name in self.runs:
            self.ended(name)

    def _start(self, act: str, *names: str) -> None:
        self.runs.update({name: self.lab.start(act, backend=name) for name in names})

    def _at_work(self, name: str) -> SlurmJob:
        wait_until(self.lab.config, self.runs[name], in_step("rehearsing"))
        return self.lab.slurm_job(self.runs[name])

    def _let_go_of_those_that_wait(self) -> None:
        reasons = {"waiting": "JobHeldUser", "held": "JobHeldUser", "orphan": "DependencyNeverSatisfied"}
        jobs = {name: self._needs_a_person(name, reason) for name, reason in reasons.items()}
        jobs["waiting"].cancel()
        jobs["orphan"].cancel()
        jobs["held"].release()
        self._needs_a_person("too long", "PartitionTimeLimit")
        self.lab.post(f"{API}/runs/{self.runs['too long']}/cancel", {})

    def _needs_a_person(self, name: str, reason: str) -> SlurmJob:
        said = f"PENDING ({reason}): a person has to act, see the log"
        wait_until(self.lab.config, self.runs[name], lambda run: run.step.endswith(said))
        return self.lab.slurm_job(self.runs[name])

    def ended(self, name: str) -> Run:
        if name not in self.runs:
            missing("this SLURM does not limit memory")
        return ended(self.lab.config, self.runs[name])

    def log(self, name: str) -> str:
        return self.lab.log(self.runs[name])

    def job_id(self, name: str) -> str:
        """As the run's log has it: the folder of its job has gone."""
        found = re.search(r"Submitted SLURM job (\d+)", self.log(name))
        assert found is not None, self.log(name)
        return found[1]

    def nothing_is_left(self, name: str) -> bool:
        """Neither on the login node nor in SLURM."""
        living = self.lab.cluster.ask("squeue", "--noheader", "--format=%A").split()
        return self.job_id(name) not in living and self.lab.nothing_is_left(self.runs[name])


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with SlurmCluster(n_nodes=3) as cluster:
        failed = cluster.submit("exit 1")
        failed.ends()
        with slurm_lab(cluster, variants_on(cluster, failed)) as lab:
            made = Scene(lab)
            made.play()
            yield made


@pytest.mark.parametrize("name", ["good", "held"])
def test_a_run_succeeds_on_a_node_that_is_back_and_once_its_job_is_released(scene: Scene, name: str) -> None:
    scene.lab.succeeded(scene.runs[name])
    assert scene.nothing_is_left(name)


def test_a_worker_that_ends_by_itself_is_told_of_by_its_code(scene: Scene) -> None:
    run = scene.ended("left")
    assert (run.state, run.error_code) == (State.ERROR, "no_result")
    assert run.error == "The worker ended with code 7 without reporting a result."
    assert "log" in run.error_next_step
    assert scene.nothing_is_left("left")


@pytest.mark.parametrize(
    ("name", "what", "advice"),
    [
        ("late", "it reached its time limit", "`time`"),
        ("cancelled", "it was cancelled from outside, by scancel", "Ask who cancels"),
        ("waiting", "it was cancelled from outside while it waited for a node", "Ask who cancels"),
        ("orphan", "the job that it waited for did not end as asked for", "--dependency"),
        ("hungry", "it needed more memory than SLURM gave it", "`mem`"),
        ("lost", "its node ", "`exclude`"),
        ("to cancel", "it was preempted", "`partition`"),
        ("to requeue", "it was preempted", "`partition`"),
        ("no module", f"its interpreter {NO_PYTHON} could not be started", "`prelude`"),
        ("no folder", f"{NO_FOLDER} could not be opened", "storage"),
    ],
)
def test_a_run_that_slurm_has_ended_says_why_and_what_to_do(
    scene: Scene, name: str, what: str, advice: str
) -> None:
    run = scene.ended(name)
    assert (run.state, run.error_code, run.attempt) == (State.ERROR, "slurm_failed", 1)
    begins = f"SLURM job {scene.job_id(name)} ended before the worker finished: {what}"
    assert run.error.startswith(begins)
    assert advice in run.error_next_step
    assert scene.nothing_is_left(name), scene.lab.left(run.run_id)


def test_a_prelude_that_did_not_find_its_module_is_named(scene: Scene) -> None:
    error = scene.ended("no module").error
    assert "line 1 of its prelude failed with code 127" in error
    assert "module: command not found" in error


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("held", "A person has to release it"),
        ("orphan", "look at --dependency"),
        ("too long", "A person has to lower `time`"),
    ],
)
def test_the_log_of_a_run_that_never_starts_says_what_a_person_has_to_do(
    scene: Scene, name: str, advice: str
) -> None:
    *_, last = [line for line in scene.log(name).splitlines() if "does not start by itself" in line]
    assert advice in last  # SLURM may have had another reason before


def test_a_run_that_never_starts_can_be_cancelled(scene: Scene) -> None:
    assert scene.ended("too long").state == State.CANCELLED
    assert scene.nothing_is_left("too long")


def test_a_time_beyond_the_partitions_is_refused_where_slurm_does_so(scene: Scene) -> None:
    run = scene.ended("refused")
    assert (run.state, run.error_code) == (State.ERROR, "slurm_failed")
    assert run.error.startswith("SLURM refused the job on ")
    assert "Requested time limit is invalid" in run.error
    assert "`time`" in run.error_next_step
    assert "Submitted SLURM job" not in scene.log("refused")
    assert scene.lab.nothing_is_left(run.run_id)
