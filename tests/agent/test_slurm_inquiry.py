"""Asking SLURM how a job has ended: how often, how long, and what counts as an answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from clocks import Clock
from fake_slurm import DOWN, FakeSlurm

from potato_ray.agent.slurm.commands import Slurm
from potato_ray.agent.slurm.inquiry import Inquiry
from potato_ray.agent.slurm.submission import Submission

ENDED = "JobId=4242 JobState=TIMEOUT Reason=TimeLimit"
ENDING = "JobId=4242 JobState=COMPLETING Reason=TimeLimit"
JOB = Submission("potato-run-7.1-ab12", "4242")


class Asker:
    """Somebody who waits for an answer; `asked_at` are the seconds at which SLURM was asked."""

    def __init__(self, tmp_path: Path) -> None:
        self.fake = FakeSlurm(tmp_path / "slurm")
        self.clock = Clock(0.0)
        self.asked_at: list[float] = []
        self.is_unwanted = False
        self.inquiry = Inquiry(CountingSlurm(self), self, self.clock, self.clock.sleep)

    def step(self, words: str) -> None:
        """What people are told is of no interest here."""

    def log(self, words: str, level: str = "info") -> None:
        """Nor is the log."""

    def answer(self, within_s: float = 30.0) -> str:
        return self.inquiry.answer(JOB, within_s, lambda: self.is_unwanted)


class CountingSlurm(Slurm):
    """Notes when it is asked."""

    def __init__(self, asker: Asker) -> None:
        super().__init__(asker.fake.env, base={}, host="login1")
        self._asker = asker

    def show_job(self, job_id: str, cluster: str = "") -> str:
        self._asker.asked_at.append(self._asker.clock.now)
        return super().show_job(job_id, cluster)


@pytest.fixture
def asker(tmp_path: Path) -> Asker:
    return Asker(tmp_path)


def test_a_job_that_has_ended_is_asked_about_once(asker: Asker) -> None:
    asker.fake.shows(ENDED)
    assert asker.answer() == ENDED
    assert asker.asked_at == [0.0]


def test_slurm_is_asked_less_and_less_often_until_the_time_is_over(asker: Asker) -> None:
    asker.fake.shows(ENDING)
    assert asker.answer() == ENDING
    assert asker.asked_at == [0.0, 1.0, 3.0, 7.0, 15.0, 23.0, 30.0]


def test_nobody_waits_for_an_answer_that_is_no_longer_wanted(asker: Asker) -> None:
    asker.fake.shows(ENDING)
    asker.clock.after(4.0, lambda: setattr(asker, "is_unwanted", True))
    assert asker.answer() == ENDING
    assert asker.clock.now == 4.0


@pytest.mark.parametrize("err", ["Invalid argument", DOWN])
def test_a_scontrol_that_fails_is_asked_again(asker: Asker, err: str) -> None:
    asker.fake.shows(ENDED)
    asker.fake.answers("scontrol", code=1, err=f"slurm_load_jobs error: {err}\n")
    assert asker.answer() == ENDED


def test_a_job_that_slurm_has_forgotten_is_not_asked_about_again(asker: Asker) -> None:
    assert asker.answer() == ""
    assert asker.asked_at == [0.0]
