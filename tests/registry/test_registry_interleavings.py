"""Any order of commands, events and deaths keeps the invariants of queue, slots, GPUs and ends."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from potato_ray.errors import Conflict, NotFound
from potato_ray.registry import ACTIVE, ENDED, NewRun, Registry, RegistryReader, Reservation, State

NEW = NewRun("sklearn-text", ("sentiment",), ("nominal",))
GPUS = ("GPU-a", "GPU-b")
SLOTS = 2


class Interleavings(RuleBasedStateMachine):
    """Commands come with the attempt that their sender believes in, present or past."""

    runs = Bundle("runs")
    attempts = Bundle("attempts")

    @initialize()
    def open(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "project.sqlite"
        self.now = 1_795_955_098.0
        self.registry = Registry(self.path, "demo", self.clock).open()
        self.ends: dict[str, State] = {}
        self.heard: Counter[tuple[str, int]] = Counter()

    def clock(self):
        self.now += 1
        return self.now

    @rule(target=runs)
    def start(self):
        return self.registry.create_run(NEW, queue_max=99, allow_queue=True, max_concurrent=SLOTS).run_id

    @rule(
        target=attempts,
        run=runs,
        gpus=st.sets(st.sampled_from(GPUS)),
        backend=st.sampled_from(("local", "ssh")),
    )
    def begin(self, run, gpus, backend):
        self.refusable(lambda: self.registry.begin(run, Reservation(backend, tuple(gpus)), SLOTS))
        present = [each.attempt for each in self.all_runs() if each.run_id == run]
        return (run, present[0] if present else 0)

    @rule(run=runs)
    def offer(self, run):
        self.refusable(lambda: self.registry.transition(run, self.registry.run(run).attempt, State.OFFERED))

    @rule(attempt=attempts, state=st.sampled_from(State))
    def change(self, attempt, state):
        self.refusable(lambda: self.registry.transition(*attempt, state))

    @rule(run=runs)
    def cancel(self, run):
        self.refusable(lambda: self.registry.request_cancel(run))

    @rule(attempt=attempts, first=st.integers(0, 3), count=st.integers(0, 3))
    def say(self, attempt, first, count):
        said = [{"event": "metric", "name": "n", "value": first + number} for number in range(count)]
        stale = self.refusable(lambda: self.registry.record_events(*attempt, first, said))
        if stale is False and count:
            self.heard[attempt] = max(self.heard[attempt], first + count)

    @rule(attempt=consumes(attempts))
    def process_is_gone(self, attempt):
        self.registry.release(*attempt)

    @rule()
    def die_and_come_back(self):
        self.registry.close()
        self.registry = Registry(self.path, "demo", self.clock).open()

    @rule(retain=st.integers(0, 3))
    def prune(self, retain):
        unended = {run.run_id for run in self.registry.unfinished()}
        held = {each.run_id for each in self.registry.reservations()}
        assert not (unended | held) & set(self.registry.prune(retain))

    def refusable(self, command):
        """What a command answers; None when it is refused, or its run has been pruned."""
        try:
            return command()
        except (Conflict, NotFound):
            return None

    @invariant()
    def at_most_so_many_slots(self):
        assert sum(run.state in ACTIVE for run in self.all_runs()) <= SLOTS

    @invariant()
    def no_two_runs_on_one_gpu(self):
        held = [uuid for each in self.registry.reservations() for uuid in each.gpu_uuids]
        assert len(held) == len(set(held))

    @invariant()
    def ended_stays_ended(self):
        now = {run.run_id: run.state for run in self.all_runs()}
        for run_id, end in self.ends.items():
            assert now.get(run_id, end) is end
        self.ends.update({run_id: state for run_id, state in now.items() if state in ENDED})

    @invariant()
    def every_event_is_there_once(self):
        for run in self.all_runs():
            assert run.last_seq == self.heard[(run.run_id, run.attempt)]

    @invariant()
    def a_waiting_run_is_nobodys_to_cancel(self):
        assert not any(run.cancelling and run.state not in ACTIVE for run in self.all_runs())

    def all_runs(self):
        return RegistryReader(self.path).runs(limit=1000)

    def teardown(self):
        if hasattr(self, "registry"):
            self.registry.close()
            self.folder.cleanup()


class TestInterleavings(Interleavings.TestCase):
    settings = settings(
        max_examples=25,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


@pytest.mark.long
class TestManyInterleavings(Interleavings.TestCase):
    settings = settings(TestInterleavings.settings, max_examples=150, stateful_step_count=50)
