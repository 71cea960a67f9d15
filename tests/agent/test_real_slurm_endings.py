"""How jobs of ours end in a real SLURM, beyond what whole runs show. One scene for all of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster
from slurm_job import SlurmJob, happens
from slurm_login_node import LoginNode

from potato_ray.agent.held_job import Failure
from potato_ray.agent.slurm.endings import ending
from potato_ray.job.folder import JobFolder

NO_PYTHON = "/no/such/python"


class Scene:
    """Jobs by what becomes of them. Most share the first node; the second one is taken from its jobs."""

    def __init__(self, cluster: SlurmCluster, folder: Path) -> None:
        self.cluster = cluster
        self.login = LoginNode(cluster, folder)
        self.jobs: dict[str, SlurmJob] = {}

    def play(self) -> None:
        """All of it, until every job has ended."""
        steady, shaky = self.cluster.nodes
        for name in ("told", "killed"):
            self._launch(name, "wait", nodelist=steady)
        self._launch("lost", "wait", nodelist=shaky)
        self._launch("good", "succeed", nodelist=steady)
        self._launch("bad", "fail", nodelist=steady)
        self._submit("no shell", f"#!/no/such/shell\n#SBATCH --nodelist={steady}\n")
        self._launch("no python", job_python=NO_PYTHON, nodelist=steady)
        self._launch("prelude exits", nodelist=steady, prelude=["echo no licence >&2", "exit 3"])
        self._launch("prelude hangs", nodelist=steady, prelude=["echo at work", "sleep 60"])
        self._interfere(shaky)
        for job in self.jobs.values():
            job.ends()

    def ending(self, name: str) -> Failure | None:
        """What people are told of a job."""
        job = self.jobs[name]
        shown = self.login.slurm.show_job(job.id)
        python = NO_PYTHON if name == "no python" else ""
        return ending(job.id, shown, job.out, JobFolder(job.folder).read_exit(), python=python)

    def _launch(self, name: str, play: str = "succeed", **keys: object) -> None:
        self.jobs[name] = self.login.launch(name, play, **keys)  # type: ignore[arg-type]

    def _submit(self, name: str, head: str) -> None:
        folder = self.login.folder / name
        folder.mkdir()
        text = f'{head}#SBATCH --output="{folder}/slurm.out"\n'
        self.jobs[name] = self.login.submit(folder, lambda _: text)

    def _interfere(self, shaky: str) -> None:
        for name in ("told", "killed", "lost"):
            self._is_playing(name)
        self.jobs["prelude hangs"].says("at work")
        self.jobs["prelude hangs"].cancel()
        self.jobs["told"].cancel("--full", "--signal=TERM")
        os.kill(self._launcher("killed"), signal.SIGKILL)
        self.cluster.kill(shaky)
        self.cluster.set_node(shaky, "down")
        self.jobs["lost"].ends()

    def _is_playing(self, name: str) -> None:
        events = JobFolder(self.jobs[name].folder).events
        assert happens(lambda: events.exists() and "playing" in events.read_text()), name

    def _launcher(self, name: str) -> int:
        processes = JobFolder(self.jobs[name].folder).read_processes()
        assert processes is not None
        return processes.launcher.pid


@pytest.fixture(scope="module")
def scene(module_slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    scene = Scene(module_slurm, tmp_path_factory.mktemp("scene"))
    scene.play()
    return scene


@pytest.mark.parametrize("name", ["good", "bad"])
def test_the_workers_own_end_stands(scene: Scene, name: str) -> None:
    assert scene.ending(name) is None


@pytest.mark.parametrize(
    ("name", "what", "advice"),
    [
        ("told", "it was cancelled from outside", "Ask who cancels"),
        ("prelude hangs", "it was cancelled from outside", "Ask who cancels"),
        ("lost", "its node ", "`exclude`"),
        ("killed", "it was ended by SIGKILL", "`mem`"),
        ("no shell", "job.sh could not be started on ", "bash"),
        ("no python", f"its interpreter {NO_PYTHON} could not be started", "`job_python`"),
        ("prelude exits", "its prelude ended it with code 3", "`prelude`"),
    ],
)
def test_slurms_reason_is_told_where_the_worker_did_not_finish(
    scene: Scene, name: str, what: str, advice: str
) -> None:
    failure = scene.ending(name)
    assert failure is not None
    assert failure.code == "slurm_failed"
    begins = f"SLURM job {scene.jobs[name].id} ended before the worker finished: {what}"
    assert failure.message.startswith(begins)
    assert advice in failure.next_step


def test_a_worker_lives_on_while_its_node_does_not_answer(scene: Scene) -> None:
    folder = JobFolder(scene.jobs["lost"].folder)
    assert folder.read_exit() is None
    scene.cluster.start()
    assert happens(folder.exit.exists)
    told = scene.ending("lost")
    assert told is not None
    assert "its node" in told.message
