"""Starts posted while the server, its controller and its raylet are killed: none lost, none made twice."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from gpu_machine import give_gpus
from killing import kill, victims
from server_process import API, ServerProcess
from whole_runs import MakeProject, folder_of, reader_of

from potato_ray.config import ProjectConfig
from potato_ray.job import processes
from potato_ray.job.folder import read_json
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

LONG = bool(os.environ.get("POTATO_RAY_LONG"))
N_STARTS = 100 if LONG else 20
N_KILLS = 20 if LONG else 4
DEADLINE_S = 500.0 if LONG else 150.0
SEED = int(os.environ.get("POTATO_RAY_SEED", "20261129"))
PARTS = ("server", "controller", "raylet", "server")
BETWEEN_KILLS_S = (0.5, 6.0)
BETWEEN_STARTS_S = (0.0, 1.0)
PATIENCES_S = (0.3, 2.0, 40.0)
"""How long the client waits for an answer before it sends the same start again."""
AGAIN_AFTER_S = 0.2
GONE_WITHIN_S = 15.0


class House:
    """A project with a server at one address, which is started again whenever it has been killed."""

    def __init__(self, config: ProjectConfig) -> None:
        self.config = config
        self.reader = reader_of(config)
        self.servers = [ServerProcess(config)]
        self.url = ""
        self.sessions: set[Path] = set()

    def living(self) -> ServerProcess:
        """The server; one that has ended is started again, as a service manager does it.

        Ray ends the very server when the raylet is killed in the moment in which the two meet.
        """
        if self.servers[-1].process.poll() is not None:
            self.servers.append(ServerProcess(self.config, port=int(self.url.rpartition(":")[2])))
        return self.servers[-1]

    def kill(self, part: str) -> None:
        """SIGKILL for the part as soon as there is one; what the server does not bring back, we do."""
        deadline = time.monotonic() + DEADLINE_S
        while not victims(server := self.living(), part):
            assert time.monotonic() < deadline, f"there is no {part}: {server.said}"
            time.sleep(0.05)
        self.look_at_session()
        kill(server, part)
        self.living()

    def look_at_session(self) -> None:
        """Remember the folder that Ray works in."""
        note = read_json(self.config.state_dir / "ray.json")
        if note is not None:
            self.sessions.add(Path(note["folder"]))

    def runs(self) -> list[Run]:
        """All of them, oldest first."""
        return self.reader.runs(limit=10 * N_STARTS)[::-1]

    def close(self) -> None:
        for server in self.servers:
            server.close()


class Client(threading.Thread):
    """Posts starts, each with a number, until so many are acknowledged; `acknowledged`: number → run id.

    Three of four carry a key and are repeated until they are acknowledged. The others are sent once: they
    may be lost, but not when they were acknowledged.
    """

    def __init__(self, house: House, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[int, str] = {}
        self.sent = 0
        self.trouble: list[str] = []
        self._house = house
        self._url = f"{house.url}{API}/runs"
        self._headers = house.living().headers()
        self._chance = chance
        self._deadline = time.monotonic() + DEADLINE_S

    def run(self) -> None:
        while len(self.acknowledged) < N_STARTS and not self.trouble:
            number, self.sent = self.sent, self.sent + 1
            self._start(number)
            time.sleep(self._chance.uniform(*BETWEEN_STARTS_S))

    def _start(self, number: int) -> None:
        while (run_id := self.post(number)) is None and key_of(number) is not None:
            if time.monotonic() > self._deadline:
                self.trouble.append(f"start {number} was not acknowledged in time")
                return
            time.sleep(AGAIN_AFTER_S)
        if run_id is not None:
            self.acknowledged[number] = run_id

    def post(self, number: int) -> str | None:
        """The id of the run that the server says it has made; None when it has not said so."""
        body = {"trainer": "accelerated", "schemas": ["sentiment"], "params": {"mb": number}}
        key = key_of(number)
        headers = {**self._headers, **({"Idempotency-Key": key} if key else {})}
        patience_s = self._chance.choice(PATIENCES_S)
        try:
            answer = httpx.post(self._url, json=body, headers=headers, timeout=patience_s)
        except httpx.HTTPError:
            return None
        if answer.status_code not in (200, 202, 503):
            said = "".join(server.said[-4000:] for server in self._house.servers)
            self.trouble.append(f"{answer.status_code} {answer.text}: {said}")
        return str(answer.json()["run_id"]) if answer.is_success else None


def key_of(number: int) -> str | None:
    return None if number % 4 == 3 else f"start-{number}"


@pytest.fixture
def house(make_project: MakeProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """On a machine with one GPU, so that a reservation that is forgotten keeps the next run waiting."""
    give_gpus(monkeypatch, tmp_path, [30000])
    config = make_project(queue_max=10 * N_STARTS, retain_runs=10 * N_STARTS)
    monkeypatch.setenv("TMPDIR", str(config.task_dir.parent))
    house = House(config)
    try:
        house.url = house.living().wait_for_url()
        yield house
    finally:
        house.close()


@pytest.mark.timeout(2 * DEADLINE_S)
def test_every_acknowledged_start_is_made_once_and_ends_well_however_often_the_server_is_killed(
    house: House,
) -> None:
    chance = random.Random(SEED)
    client = Client(house, random.Random(SEED + 1))
    client.start()
    for part in chance.choices(PARTS, k=N_KILLS) if LONG else chance.sample(PARTS, k=N_KILLS):
        time.sleep(chance.uniform(*BETWEEN_KILLS_S))
        house.kill(part)
    client.join(DEADLINE_S)
    assert not client.is_alive()
    assert client.trouble == []
    wait_until_all_have_ended(house)
    assert_each_start_made_one_run(house, client)
    for run in house.runs():
        assert_one_worker_did_it(house, run)
        assert_written_back_once(house, run)
    assert_in_their_order(house.runs())
    house.look_at_session()
    server = house.living().wait_ready()
    assert server.end(signal.SIGTERM) == 0, server.said
    assert_nothing_is_left(house)


def wait_until_all_have_ended(house: House) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not all(run.ended for run in house.runs()) or house.reader.reservations():
        assert time.monotonic() < deadline, [(run.run_id, run.status, run.step) for run in house.runs()]
        house.living()
        time.sleep(0.2)


def assert_each_start_made_one_run(house: House, client: Client) -> None:
    made = Counter(run.params["mb"] for run in house.runs())
    assert set(made.values()) == {1}
    ids = {run.params["mb"]: run.run_id for run in house.runs()}
    assert client.acknowledged == {number: ids.get(number) for number in client.acknowledged}
    assert set(made) <= set(range(client.sent))
    keyed = [number for number in client.acknowledged if key_of(number) is not None]
    assert [client.post(number) or client.post(number) for number in keyed] == [ids[n] for n in keyed]
    assert len(house.runs()) == len(made)


def assert_one_worker_did_it(house: House, run: Run) -> None:
    """Each worker begins with the same words, so a second one would have left them twice."""
    assert run.state == State.SUCCESS, (run.run_id, run.error_code, run.error, run.error_evidence)
    lines = folder_of(house.config, run.run_id).events.read_text("utf-8").splitlines()
    said = [(event["event"], event["t"]) for event in map(json.loads, lines)]
    assert sum('"loading the trainer"' in line for line in lines) == 1
    events = house.reader.events(run.run_id, limit=10_000)
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    heard = [(event["event"], event["t"]) for event in events if event["source"] == "worker"]
    assert heard == said
    assert {event["attempt"] for event in events if event["source"] == "worker"} == {run.attempt}


def assert_written_back_once(house: House, run: Run) -> None:
    n_lines = len(folder_of(house.config, run.run_id).predictions.read_text("utf-8").splitlines())
    assert n_lines == (run.n_val or 0) + (run.n_test or 0) + (run.n_unlabeled or 0)
    assert run.writeback is not None
    assert run.writeback["n_read"] == run.writeback["n_written"] == n_lines


def assert_in_their_order(runs: list[Run]) -> None:
    lives = [(run.finished_at, run.created_at, run.begun_at, run.attempt, run.params["mb"]) for run in runs]
    assert lives == sorted(lives)


def assert_nothing_is_left(house: House) -> None:
    """No process of the servers or of the runs, no GPU that is held, no folder of Ray or of a spare."""
    found = (folder_of(house.config, run.run_id).read_processes() for run in house.runs())
    marks = [mark for each in found if each is not None for mark in each.markers]
    deadline = time.monotonic() + GONE_WITHIN_S
    while left := {*processes.marked(marks)}.union(*(each.processes() for each in house.servers)):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert house.reader.reservations() == []
    assert [session for session in house.sessions if session.exists()] == []
    assert list(house.config.task_dir.parent.glob("spare-*")) == []
