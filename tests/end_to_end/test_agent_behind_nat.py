"""An agent on a workstation behind NAT, real in network namespaces: cut links lose nothing, or end truly.

In each phase the link is cut when the phase was seen on the machine that shows it, and it is seen again at
the end of the cut that the phase was still going on.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator

import pytest
from agent_lab import Lab, add_incompressible_items
from nat import Nat
from slow_link import SlowLink
from whole_runs import add_items, in_step, projects, wait_until

from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.states import State

IS_LONG = bool(os.environ.get("POTATO_RAY_LONG"))
pytestmark = pytest.mark.ray

BACKENDS = {"ws": {"type": "agent"}, "quick": {"type": "agent", "heartbeat_timeout_s": 8}}
CUT_S = 20.0 if IS_LONG else 2.5
DEADLINE_S = 150.0 if IS_LONG else 60.0
STEPS = {"training": "rehearsing", "predicting": "predicting on items that the model has not seen"}
N_ITEMS = 1000
BUNDLE_MB = 3
FETCHING_MBIT, SENDING_MBIT = 6.0, 0.2  # some four seconds for a bundle, or for predictions
LEAST_FETCHED, LEAST_SENT = 500_000, 20_000  # bytes; a small part of them


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Nat() as nat, SlowLink(nat, delay_ms=1.0, rate_mbit=200.0) as link, projects() as make_project:
        config = make_project(backends=BACKENDS)
        add_items(config, N_ITEMS)
        add_incompressible_items(config, BUNDLE_MB)
        lab = Lab(nat, link, config, tmp_path_factory.mktemp("agent"))
        yield lab
        lab.dismiss()
        lab.server.close()


@pytest.fixture
def lab(running: Lab) -> Iterator[Lab]:
    yield running
    running.dismiss()


def ended_whole(lab: Lab, run_id: str) -> None:
    """The run ends well, and all of it is on the server as on the workstation, each line once."""
    run = lab.ended(run_id, DEADLINE_S)
    assert (run.state, run.attempt) == (State.SUCCESS, 1), (run.error, [a.said for a in lab.agents])
    lab.agents[-1].wait_until(lambda: (lab.job(run_id).path / "done.json").exists(), DEADLINE_S)
    assert "the end of the job has reached the server" in lab.agents[-1].said
    there, here = lab.job(run_id), lab.mirror(run_id)
    assert run.artifact_uri == f"{socket.gethostname()}:{there.artifacts}"
    assert (there.artifacts / "model.json").exists()
    assert here.events.read_bytes() == there.events.read_bytes()
    predictions = here.predictions.read_bytes()
    assert predictions == there.predictions.read_bytes()
    told = sorted(json.loads(line)["instance_id"] for line in predictions.splitlines())
    stored = [each.instance_id for each in RegistryReader(lab.config.registry_path).predictions(run_id)]
    assert stored == told
    assert len(set(told)) == len(told) > N_ITEMS


def is_at(lab: Lab, run_id: str, path: str) -> bool:
    """Whether one side has what a request for `path` is about, and the other does not know or have it yet."""
    here = lab.mirror(run_id)
    return {
        "/claim": lambda: here.read_claim() is not None and not list(lab.workdir.glob("jobs/*")),
        "/code/": lambda: not list(lab.workdir.glob("code/*/potato_ray")),
        "/bundle": lambda: here.bundle_archive.exists() and not lab.job(run_id).bundle.exists(),
        "/progress": lambda: not lab.run(run_id).ended,
        "/predictions": lambda: here.predictions.exists() and not here.result.exists(),
        "/result": lambda: here.result.exists() and (lab.job(run_id).path / "held.json").exists(),
    }[path]()


def long(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.long)


def test_a_machine_that_the_server_cannot_reach_trains_for_it(lab: Lab) -> None:
    reach = lab.nat.within(lab.nat.server, lambda: _connects("10.77.1.2", 22))
    assert not reach
    lab.agent("--keep")
    ended_whole(lab, lab.start("succeed"))


@pytest.mark.long
def test_a_link_that_is_cut_before_the_claim_loses_nothing(lab: Lab) -> None:
    lab.agent("--keep")
    with lab.silence():
        run_id = lab.start("succeed")
        time.sleep(CUT_S)
        assert lab.run(run_id).state == State.OFFERED
    ended_whole(lab, run_id)


@pytest.mark.parametrize(("phase", "act"), [("training", "wait"), long("predicting", "hold")])
def test_a_link_that_is_cut_while_the_worker_works_loses_nothing(lab: Lab, phase: str, act: str) -> None:
    lab.agent("--keep")
    run_id = lab.start(act)
    wait_until(lab.config, run_id, in_step(STEPS[phase]))
    with lab.silence():
        lab.go(run_id)
        lab.wait_until(run_id, lambda: lab.job(run_id).predictions.exists())
        time.sleep(CUT_S)
        assert not lab.mirror(run_id).predictions.exists()
    ended_whole(lab, run_id)


@pytest.mark.parametrize(("cut", "asks_again"), [("outage", True), long("silence", False)])
def test_a_bundle_that_is_cut_in_the_middle_of_its_way_goes_on_there(
    lab: Lab, cut: str, asks_again: bool
) -> None:
    lab.agent("--keep")
    before = lab.received_bytes()
    lab.link.set_rate(FETCHING_MBIT)
    run_id = lab.start("succeed")
    lab.wait_until(run_id, lambda: lab.fetched_bytes(run_id) > LEAST_FETCHED)
    with getattr(lab, cut)():
        time.sleep(CUT_S)
        fetched, size = lab.fetched_bytes(run_id), lab.bundle_bytes(run_id)
        lab.link.set_rate()
    ended_whole(lab, run_id)
    assert size > 4 * LEAST_FETCHED
    assert LEAST_FETCHED < fetched < size
    first, *later = [line.split()[2] for line in lab.link.record() if "/bundle" in line]
    assert (first, set(later)) == ("-", {f"bytes={fetched}-"} if asks_again else set())
    assert size < lab.received_bytes() - before < 1.15 * size


@pytest.mark.parametrize(("cut", "asks_again"), [("silence", False), long("outage", True)])
def test_predictions_that_are_cut_in_the_middle_of_their_way_arrive_whole(
    lab: Lab, cut: str, asks_again: bool
) -> None:
    lab.agent("--keep")
    run_id = lab.start("hold")
    wait_until(lab.config, run_id, in_step(STEPS["predicting"]))
    lab.link.set_rate(SENDING_MBIT)
    lab.go(run_id)
    lab.wait_until(run_id, lambda: lab.uploaded_bytes(run_id) > LEAST_SENT)
    with getattr(lab, cut)():
        time.sleep(CUT_S)
        assert not lab.mirror(run_id).predictions.exists()
        lab.link.set_rate()
    ended_whole(lab, run_id)
    assert lab.mirror(run_id).predictions.stat().st_size > 4 * LEAST_SENT
    sent = sum("/predictions" in line for line in lab.link.record())
    assert (sent > 1) == asks_again, (sent, lab.agents[-1].said)


@pytest.mark.parametrize(
    "path", ["/claim", long("/code/"), long("/bundle"), long("/progress"), "/predictions", "/result"]
)
def test_an_answer_that_is_lost_with_its_connection_is_asked_for_again(lab: Lab, path: str) -> None:
    lab.agent("--keep")
    lab.link.cut_at("reset", path)
    run_id = lab.start("succeed")
    lab.link.wait_until_cut()
    lab.wait_until(run_id, lambda: is_at(lab, run_id, path))
    time.sleep(CUT_S)
    assert is_at(lab, run_id, path)
    before = lab.link.record()
    lab.link.mend()
    ended_whole(lab, run_id)
    assert any(path in line for line in lab.link.record()[len(before) :])


@pytest.mark.parametrize(
    "path",
    [long("/claim"), long("/code/"), long("/bundle"), long("/progress"), long("/predictions"), "/result"],
)
def test_a_request_that_is_lost_arrives_later(lab: Lab, path: str) -> None:
    lab.agent("--keep")
    lab.link.cut_at("request", path)
    run_id = lab.start("succeed")
    lab.link.wait_until_cut()
    time.sleep(CUT_S)
    here = lab.mirror(run_id)
    assert (here.predictions.exists(), here.result.exists()) == (path == "/result", False)
    lab.link.mend()
    ended_whole(lab, run_id)


@pytest.mark.long
@pytest.mark.parametrize("path", ["/claim", "/predictions", "/result"])
def test_an_answer_that_no_router_knows_the_way_of_any_more_is_asked_for_again(lab: Lab, path: str) -> None:
    lab.agent("--keep")
    lab.link.cut_at("answer", path)
    run_id = lab.start("succeed")
    lab.link.wait_until_cut()
    lab.nat.forget()
    assert is_at(lab, run_id, path)
    before = lab.link.record()
    lab.link.mend()
    ended_whole(lab, run_id)
    assert any(path in line for line in lab.link.record()[len(before) :])


def test_a_link_that_is_cut_for_too_long_ends_the_run_on_both_sides(lab: Lab) -> None:
    agent = lab.agent("--keep", backend="quick")
    run_id = lab.start("wait", backend="quick")
    wait_until(lab.config, run_id, in_step("rehearsing"))
    with lab.silence():
        run = lab.ended(run_id)
    assert (run.error_code, run.error) == ("heartbeat_lost", "No word from the agent on quick for 8 seconds.")
    agent.wait_until(lambda: set(agent.left()) <= {agent.process.pid})
    ended_whole(lab, lab.start("succeed", backend="quick"))
    assert agent.end(signal.SIGTERM) == 0


def _connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2.0).close()
    except OSError:
        return False
    return True
