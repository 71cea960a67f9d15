"""A large bundle on its way over a slow link that is cut three times: it arrives, and each byte once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_lab import MB, Lab, add_incompressible_items
from nat import Nat
from slow_link import SlowLink
from whole_runs import projects

from potato_ray.registry.states import State

IS_LONG = bool(os.environ.get("POTATO_RAY_LONG"))
pytestmark = [pytest.mark.ray, pytest.mark.timeout(900 if IS_LONG else 300)]

BUNDLE_MB = 200 if IS_LONG else 40
SILENCE_S = 70.0 if IS_LONG else 4.0  # the agent takes a stream for dead after a minute without a byte
OUTAGE_S = 2.0
DEADLINE_S = 600.0 if IS_LONG else 150.0


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Nat() as nat, SlowLink(nat, delay_ms=25.0, rate_mbit=24.0) as link, projects() as make_project:
        config = make_project(backends={"ws": {"type": "agent"}})
        add_incompressible_items(config, BUNDLE_MB)
        lab = Lab(nat, link, config, tmp_path / "work")
        yield lab
        lab.dismiss()
        lab.server.close()


def wait_until_fetched(lab: Lab, run_id: str, share: float) -> None:
    """Wait until so much of the bundle is on the workstation."""
    lab.wait_until(run_id, lambda: lab.fetched_bytes(run_id) >= share * BUNDLE_MB * MB, DEADLINE_S)


def test_a_large_bundle_arrives_over_a_link_that_is_cut_three_times_and_each_byte_once(lab: Lab) -> None:
    lab.agent()
    before = lab.sent_bytes()
    run_id = lab.start("succeed")
    wait_until_fetched(lab, run_id, 0.01)
    size = lab.bundle_bytes(run_id)
    for share, cut, cut_s in (
        (0.2, lab.silence, SILENCE_S),
        (0.45, lab.outage, OUTAGE_S),
        (0.7, lab.outage, OUTAGE_S),
    ):
        wait_until_fetched(lab, run_id, share)
        with cut():
            time.sleep(cut_s)
    run = lab.ended(run_id, DEADLINE_S)
    assert (run.state, run.attempt) == (State.SUCCESS, 1), (run.error, run.error_evidence, lab.agents[0].said)
    sent = lab.sent_bytes() - before
    assert size > 0.98 * BUNDLE_MB * MB
    assert sent <= 1.1 * size + 2 * MB, f"{sent / MB:.1f} MB were sent of a bundle of {size / MB:.1f} MB"
