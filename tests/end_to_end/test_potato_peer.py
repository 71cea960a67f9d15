"""Beside a real Potato server on the same project: it shows our pre-labels, we list its runs."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from parts import missing
from potato_server import PotatoServer, potato_command
from recorded_items import items_of
from whole_runs import MakeProject, OpenSession, ended, reader_of, start

from potato_ray.config import ProjectConfig
from potato_ray.registry.states import State

pytestmark = [pytest.mark.ray, pytest.mark.peer]

RUN_TIMEOUT_S = 120.0


@pytest.fixture
def potato(make_project: MakeProject) -> Callable[[ProjectConfig], PotatoServer]:
    command = potato_command()
    if command is None:
        missing("Potato is not installed in .venv-potato (./run test does it)")
    return lambda config: PotatoServer(command, config.path)


def test_potato_shows_our_prelabel_after_its_restart(
    make_project: MakeProject, open_session: OpenSession, potato: Callable[[ProjectConfig], PotatoServer]
) -> None:
    config = make_project()
    with potato(config):
        pass
    session = open_session(config)
    run = ended(config, start(session, "sklearn-text"))
    assert run.state == State.SUCCESS, run.error
    shown = {
        item: reader_of(config).shown(item)["sentiment"]["label"]
        for item in items_of(config.registry_path, run.run_id, "unlabeled")
        if reader_of(config).shown(item)
    }
    assert shown
    item, label = next(iter(shown.items()))
    with potato(config) as server:
        assert server.checked_labels("a-new-annotator", item) == [label]
        assert run.run_id in [each["run_id"] for each in server.api("runs")["runs"]]


def test_we_list_a_run_that_potato_made(
    make_project: MakeProject, potato: Callable[[ProjectConfig], PotatoServer]
) -> None:
    config = make_project()
    with potato(config) as server:
        theirs = server.api("runs", {"trainer": "sklearn-text", "schemas": ["sentiment"]})["run_id"]
        deadline = time.monotonic() + RUN_TIMEOUT_S
        while server.api("status")["state"] not in ("success", "error"):
            assert time.monotonic() < deadline
            time.sleep(0.2)
    listed = {run.run_id: run for run in reader_of(config).runs()}
    assert listed[theirs].made_by == "potato"
    assert listed[theirs].state == State.SUCCESS
