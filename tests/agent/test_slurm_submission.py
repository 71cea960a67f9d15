"""A job is given to SLURM once, whatever happens meanwhile."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clocks import NOW, Clock
from fake_slurm import DOWN, TIMED_OUT, FakeSlurm
from slurm_job import happens

import potato_ray
from potato_ray.agent.errors import Stopped
from potato_ray.agent.file_lock import FileLock
from potato_ray.agent.launching import NotLaunched
from potato_ray.agent.slurm.commands import Slurm
from potato_ray.agent.slurm.submission import SETTLE_S, NotSubmitted, Submission, find, submit
from potato_ray.job.folder import JobFolder

ROOT = Path(potato_ray.__file__).parents[1]
AGENT = """
import json, sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from potato_ray.agent.slurm.commands import Slurm
from potato_ray.agent.slurm.submission import submit

slurm, folder = Slurm(json.loads(sys.argv[2])), Path(sys.argv[3])
submit(slurm, folder, "run-7.1", lambda name: "#!/bin/bash\\n#SBATCH --job-name=" + name, threading.Event())
"""
UNANSWERED = f"sbatch: error: Batch job submission failed: {TIMED_OUT}\n"


class ClockStop:
    """A stop whose waits let the clock go on; it comes after `after_s` seconds."""

    def __init__(self, clock: Clock, after_s: float = float("inf")) -> None:
        self._clock = clock
        self._at = clock.now + after_s

    def is_set(self) -> bool:
        return self._clock.now >= self._at

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.sleep(timeout or 0.0)
        return self.is_set()


class LoginNode:
    """What a test submits with."""

    def __init__(self, tmp_path: Path) -> None:
        self.fake = FakeSlurm(tmp_path / "slurm")
        self.slurm = Slurm(self.fake.env, base={}, host="login1")
        self.folder = tmp_path / "job"
        self.folder.mkdir()
        self.clock = Clock()

    def submit(
        self, *flags: str, stop_after_s: float = float("inf"), patience_s: float = 300.0
    ) -> Submission:
        stop = ClockStop(self.clock, stop_after_s)
        return submit(
            self.slurm,
            self.folder,
            "run-7.1",
            lambda name: script(name, *flags),
            stop,
            patience_s=patience_s,
            clock=self.clock,
        )


def script(name: str, *flags: str) -> str:
    return "".join(["#!/bin/bash\n", *(f"#SBATCH {flag}\n" for flag in (f"--job-name={name}", *flags))])


@pytest.fixture
def node(tmp_path: Path) -> LoginNode:
    return LoginNode(tmp_path)


def test_a_job_is_submitted_under_a_name_of_its_own_and_noted(node: LoginNode) -> None:
    submission = node.submit()
    assert submission.job_id == "4242"
    assert submission.name.startswith("potato-run-7.1-")
    assert Submission.read(node.folder) == submission
    name = f"--job-name={submission.name}"
    assert node.fake.arguments("sbatch") == [["--parsable", name, str(node.folder / "job.sh")]]
    assert Submission.of("run-7.1") != Submission.of("run-7.1")


def test_a_script_with_secrets_is_private(node: LoginNode) -> None:
    (node.folder / "job.sh").write_text("")
    (node.folder / "job.sh").chmod(0o644)
    node.submit()
    assert stat.S_IMODE((node.folder / "job.sh").stat().st_mode) == 0o600


def test_a_job_that_is_noted_is_not_submitted_again(node: LoginNode) -> None:
    assert node.submit() == node.submit()
    assert len(node.fake.calls("sbatch")) == 1


def test_the_cluster_is_told_from_the_id(node: LoginNode) -> None:
    node.fake.answers("sbatch", out="sbatch: lua: welcome\n17;potato\n")
    submission = node.submit()
    assert (submission.job_id, submission.cluster, submission.key) == ("17", "potato", "17;potato")


def test_a_job_of_another_cluster_is_looked_for_there(node: LoginNode) -> None:
    node.fake.answers("sbatch", code=1, err=UNANSWERED, submits=True)
    assert node.submit("-M far").key == "4242;far"
    assert len(node.fake.calls("sbatch")) == 1


def test_an_sbatch_that_does_not_say_the_cluster_has_it_from_its_flags(node: LoginNode) -> None:
    node.fake.answers("sbatch", out="17\n")
    assert node.submit("-M far").key == "17;far"


def test_a_job_that_one_of_several_clusters_has_is_looked_for_on_each(node: LoginNode) -> None:
    node.fake.answers("sbatch", code=1, err=UNANSWERED, submits=True)
    assert node.submit("--clusters=near,far").key == "4242;far"
    assert [arguments[:2] for arguments in node.fake.arguments("squeue")] == [["-M", "near"], ["-M", "far"]]


def test_the_cluster_is_noted_before_it_is_asked(node: LoginNode) -> None:
    node.fake.answers("sbatch", code=1, err=UNANSWERED)
    with pytest.raises(Stopped):
        node.submit("--clusters=far", stop_after_s=1.0)
    begun = Submission.read(node.folder)
    assert begun is not None
    assert (begun.job_id, begun.cluster) == ("", "far")


def test_an_agent_that_was_killed_after_sbatch_finds_its_job(node: LoginNode) -> None:
    begun = Submission.of("run-7.1")
    begun.write(node.folder)
    node.fake.job("77", "RUNNING", nodes="n1", name=begun.name)
    assert node.submit().job_id == "77"
    assert node.fake.calls("sbatch") == []


def test_one_that_was_killed_before_sbatch_submits_under_the_name_that_it_had(node: LoginNode) -> None:
    begun = Submission.of("run-7.1")
    begun.write(node.folder)
    assert node.submit().name == begun.name
    # One look alone may come before a job that is under way.
    assert [arguments[:3] for arguments in node.fake.arguments("squeue")] == [["-h", "-t", "all"]] * 2


@contextmanager
def killed_agent(node: LoginNode) -> Iterator[Path]:
    """One whose sbatch goes on until there is that file, and has its job taken then."""
    go = node.fake.folder / "go"
    node.fake.answers("sbatch", after=str(go), out="4242\n", submits=True)
    command = [sys.executable, "-c", AGENT, str(ROOT), json.dumps(node.fake.env), str(node.folder)]
    with subprocess.Popen(command) as agent:
        try:
            assert happens(lambda: bool(node.fake.calls("sbatch")))
        finally:
            agent.kill()
    try:
        yield go
    finally:
        go.touch()


def test_an_sbatch_that_outlives_its_agent_is_waited_for(node: LoginNode) -> None:
    def taken() -> None:
        go.touch()
        assert happens(lambda: bool(node.fake.jobs()))

    with killed_agent(node) as go:
        node.clock.after(60.0, taken)
        assert node.submit().job_id == "4242"
        assert len(node.fake.calls("sbatch")) == 1


def test_waiting_for_it_ends_when_the_agent_is_to_stop(node: LoginNode) -> None:
    with killed_agent(node), pytest.raises(Stopped):
        node.submit(stop_after_s=20.0)
    assert node.clock.now < NOW + 30.0
    assert node.fake.calls("squeue") == []


def test_a_lock_that_nobody_lets_go_of_is_not_waited_for_for_ever(node: LoginNode) -> None:
    with FileLock(node.folder / "sbatch.lock") as left:
        assert left.try_to_take()
        assert node.submit().job_id == "4242"
    assert 180.0 <= node.clock.now - NOW < 190.0


def test_a_torn_note_begins_anew(node: LoginNode) -> None:
    (node.folder / "slurm.json").write_text("{")
    assert node.submit().job_id == "4242"


def test_an_sbatch_without_an_answer_that_was_heard_is_not_repeated(node: LoginNode) -> None:
    node.fake.answers("sbatch", code=1, err=UNANSWERED, submits=True)
    assert node.submit().job_id == "4242"
    assert len(node.fake.calls("sbatch")) == 1


def test_one_that_was_not_heard_is_repeated_after_two_looks(node: LoginNode) -> None:
    node.fake.answers("sbatch", code=1, err=UNANSWERED)
    assert node.submit().job_id == "4242"
    assert (len(node.fake.calls("sbatch")), len(node.fake.calls("squeue"))) == (2, 2)


def test_an_sbatch_that_was_killed_may_have_been_heard(node: LoginNode) -> None:
    node.fake.answers("sbatch", code=-9, submits=True)
    assert node.submit().job_id == "4242"
    assert len(node.fake.calls("sbatch")) == 1


def test_one_that_comes_into_sight_a_moment_later_is_not_repeated(node: LoginNode) -> None:
    begun = Submission.of("run-7.1")
    begun.write(node.folder)
    node.clock.after(SETTLE_S, lambda: node.fake.job("77", "PENDING", name=begun.name))
    assert node.submit().job_id == "77"
    assert node.fake.calls("sbatch") == []


def test_nothing_is_submitted_while_nobody_can_look(node: LoginNode) -> None:
    node.fake.answers("sbatch", code=1, err=UNANSWERED, submits=True)
    for _ in range(3):
        node.fake.answers("squeue", code=1, err=f"slurm_load_jobs error: {DOWN}\n")
    assert node.submit().job_id == "4242"
    assert len(node.fake.calls("sbatch")) == 1


def test_a_look_whose_failure_is_not_understood_shows_no_absence(node: LoginNode) -> None:
    node.fake.answers("sbatch", code=1, err=UNANSWERED, submits=True)
    node.fake.answers("squeue", code=1, err="slurm_load_jobs error: something new\n")
    assert node.submit().job_id == "4242"
    assert len(node.fake.calls("sbatch")) == 1


def test_a_slurm_that_stays_away_is_given_up(node: LoginNode) -> None:
    for name in ("sbatch", *["squeue"] * 9):
        node.fake.answers(name, code=1, err=f"{name}: error: {DOWN}\n")
    with pytest.raises(NotSubmitted, match=r"did not take the job for 6\d s: Unable to contact") as given_up:
        node.submit(patience_s=60.0)
    assert given_up.value.failure.code == "slurm_failed"
    assert Submission.read(node.folder).name in given_up.value.failure.next_step  # type: ignore[union-attr]
    assert JobFolder(node.folder).cancel.exists()


def test_waiting_for_slurm_ends_when_the_agent_is_to_stop(node: LoginNode) -> None:
    node.fake.answers("sbatch", code=1, err=UNANSWERED, submits=True)
    with pytest.raises(Stopped):
        node.submit(stop_after_s=1.0)
    begun = Submission.read(node.folder)
    assert begun is not None
    assert find(node.slurm, begun).job_id == "4242"  # type: ignore[union-attr]


def test_nothing_is_submitted_by_an_agent_that_is_to_stop(node: LoginNode) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        submit(node.slurm, node.folder, "run-7.1", script, stop)
    assert node.fake.calls("sbatch") == []


def test_an_sbatch_that_hides_the_id_is_looked_behind(node: LoginNode) -> None:
    node.fake.answers("sbatch", out="Thank you!\n", submits=True)
    assert node.submit().job_id == "4242"


def test_success_without_a_job_is_a_failure(node: LoginNode) -> None:
    node.fake.answers("sbatch", out="Thank you!\n")
    with pytest.raises(NotSubmitted, match="without the id of a job: 'Thank you!'"):
        node.submit()


def test_a_login_node_without_sbatch_is_named_once(node: LoginNode, tmp_path: Path) -> None:
    node.slurm = Slurm({"PATH": str(tmp_path)}, base={}, host="login1")
    with pytest.raises(NotLaunched) as refused:
        node.submit()
    failure = refused.value.failure
    assert failure.code == "slurm_failed"
    assert failure.message == "login1 has no sbatch on PATH, so it cannot submit jobs."
    assert failure.next_step == "Name a login node of the cluster, or set PATH in the backend's env."


FAILED = "Batch job submission failed: "


@pytest.mark.parametrize(
    ("err", "advice"),
    [
        (
            f"invalid partition specified: x\nsbatch: error: {FAILED}Invalid partition name specified",
            "`sinfo`",
        ),
        (f"{FAILED}Required partition not available (inactive or drain)", "closed"),
        (f"{FAILED}Requested node configuration is not available", "No node has all"),
        ("Invalid generic resource (gres) specification", "`gres`"),
        ("Invalid --time specification", "`time`"),
        (f"{FAILED}Requested time limit is invalid (missing or exceeds some limit)", "`time`"),
        ("Invalid --mem specification", "`mem`"),
        ("Memory specification can not be satisfied", "`mem`"),
        (f"{FAILED}More processors requested than permitted", "cpus_per_task"),
        (f"{FAILED}Invalid account or account/partition combination specified", "`account`"),
        (f"{FAILED}Invalid qos specification", "`qos`"),
        (
            f"AssocMaxSubmitJobLimit\nsbatch: error: {FAILED}Job violates accounting/QOS policy (job submit "
            "limit, user's size and/or time limits)",
            "A limit of your account",
        ),
        (f"{FAILED}Invalid feature specification", "`constraint`"),
        (f"{FAILED}Invalid node name specified", "`nodelist`"),
        (f"{FAILED}Requested reservation is invalid", "`reservation`"),
        (f"{FAILED}Job dependency problem", "--dependency"),
        ("unrecognized option '--timeout=1'", "`sbatch_args`"),
        ("Batch script is empty!", "SLURM keys"),
    ],
)
def test_a_refusal_is_told_in_slurms_words_with_what_to_do(node: LoginNode, err: str, advice: str) -> None:
    node.fake.answers("sbatch", code=1, err=f"sbatch: error: {err}\n")
    with pytest.raises(NotLaunched) as refused:
        node.submit()
    failure = refused.value.failure
    assert failure.code == "slurm_failed"
    assert failure.message.startswith("SLURM refused the job on login1: ")
    assert err.splitlines()[0].replace("sbatch: error: ", "") in failure.message
    assert "sbatch: error" not in failure.message
    assert advice in failure.next_step
