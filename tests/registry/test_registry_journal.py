"""The journal: everything that happens in any run, once, in the order of the commits."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from potato_ray.registry import NewRun, Registry, RegistryReader, State, journal, schema
from potato_ray.registry.watch import RegistryWatch

END = 10**18


def told(reader, after=0, upto=END, limit=1000, run_id=None):
    entries = reader.journal(after, upto, limit, run_id).entries
    return [(entry.run_id, entry.said.get("id") or entry.said["status"]) for entry in entries]


def numbers(reader, after=0):
    return [entry.number for entry in reader.journal(after, END, 1000).entries]


def log(registry, run, message="x"):
    registry.record_note(run.run_id, 1, {"event": "log", "level": "info", "message": message})


def test_events_and_changes_of_status_are_told_in_their_order(registry, reader, run_in) -> None:
    run = run_in(State.RUNNING)
    registry.record_events(run.run_id, 1, 0, [{"event": "metric", "name": "n", "value": 1}])
    registry.request_cancel(run.run_id)
    registry.transition(run.run_id, 1, State.CANCELLED)
    log(registry, run)
    assert [each for _, each in told(reader)] == [
        "queued", "building", "running", 1, "cancelling", 2, "cancelled", 3,
    ]  # fmt: skip


def test_an_entry_holds_the_event_as_the_run_has_it(registry, reader, run_in) -> None:
    run = run_in(State.RUNNING)
    registry.record_events(run.run_id, 1, 0, [{"event": "metric", "name": "n", "value": 1, "t": 7.5}])
    assert reader.journal(0, END).entries[-1].said == reader.events(run.run_id)[-1]


def test_a_change_says_when_it_was_and_in_which_attempt(reader, run_in) -> None:
    run = run_in(State.BUILDING)
    queued, building = (entry.said for entry in reader.journal(0, END).entries)
    assert queued == {
        "event": "state", "status": "queued", "attempt": 0, "source": "server", "t": run.created_at
    }  # fmt: skip
    assert (building["status"], building["attempt"]) == ("building", 1)


def test_an_offer_is_no_change_that_people_see(registry, reader, queue_run) -> None:
    run = queue_run()
    registry.transition(run.run_id, 0, State.OFFERED)
    assert told(reader) == [(run.run_id, "queued")]


def test_a_place_in_the_journal_stays_when_what_is_before_it_is_pruned(
    registry, reader, queue_run, run_in
) -> None:
    first, second = run_in(State.ERROR), run_in(State.RUNNING)
    place = numbers(reader)[-1]
    assert registry.prune(0) == [first.run_id]
    assert told(reader) == [(second.run_id, each) for each in ("queued", "building", "running")]
    log(registry, second)
    assert told(reader, after=place) == [(second.run_id, 1)]


def test_numbers_are_not_given_again_when_the_newest_are_pruned(registry, reader, run_in) -> None:
    run_in(State.ERROR)
    place = numbers(reader)[-1]
    registry.prune(0)
    assert told(reader) == []
    run = run_in(State.QUEUED)
    assert told(reader, after=place) == [(run.run_id, "queued")]


def test_what_a_cut_off_prune_left_is_pruned_the_next_time(registry, reader, path, run_in) -> None:
    run = run_in(State.ERROR)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM potato_ray_runs WHERE run_id = ?", (run.run_id,))
        connection.execute("DELETE FROM potato_ray_events")
    registry.prune(5)
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("SELECT count(*) FROM potato_ray_journal").fetchone()[0] == 0


def test_it_is_read_in_pages_and_for_one_run(registry, reader, run_in) -> None:
    first, second = run_in(State.BUILDING), run_in(State.BUILDING)
    log(registry, first)
    everything = told(reader)
    places = numbers(reader)
    assert [told(reader, after, limit=2) for after in (0, places[1], places[3])] == [
        everything[:2],
        everything[2:4],
        everything[4:],
    ]
    assert told(reader, upto=places[2]) == everything[:3]
    assert told(reader, run_id=second.run_id) == everything[2:4]
    assert told(reader, run_id="nope") == []


def test_a_stretch_ends_where_it_grows_large(registry, reader, run_in) -> None:
    run = run_in(State.BUILDING)
    for _ in range(3):
        log(registry, run, "x" * (journal.BYTES_MAX // 2))
    places = numbers(reader)
    assert len(places) == 4
    assert reader.journal(0, END).upto == places[-1]
    assert reader.journal(places[-1], END).upto == END
    assert len(told(reader)) + len(told(reader, after=places[-1])) == 5


def test_an_older_file_is_read_as_empty_and_numbered_when_it_is_brought_up_to_date(path, clock) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    schema.migrate(connection, clock, schema.MIGRATIONS[: schema.JOURNAL_VERSION - 1])
    connection.execute(
        "INSERT INTO potato_ray_events (run, seq, attempt, source, t, event, body)"
        " VALUES (1, 1, 1, 'worker', 0, 'log', '{}'), (1, 2, 1, 'worker', 0, 'log', '{}')"
    )
    connection.close()
    watch = RegistryWatch(path)
    assert watch.changed()
    before = watch.look(None, 10)
    with Registry(path, "demo", clock) as registry:
        run = registry.create_run(
            NewRun("t", ("s",), ("k",)), queue_max=1, allow_queue=True, max_concurrent=1
        )
        assert watch.changed()
        after = watch.look(before.upto, 10)
    watch.close()
    assert before.upto == 2
    assert [entry.said.get("status") for entry in after.entries] == ["queued"]
    assert told(RegistryReader(path), after=1) == [(run.run_id, 2), (run.run_id, "queued")]


def test_a_watch_notices_what_others_commit_and_nothing_else(registry, path, queue_run) -> None:
    watch = RegistryWatch(path)
    assert [watch.changed(), watch.changed()] == [True, False]
    run = queue_run()
    assert [watch.changed(), watch.changed()] == [True, False]
    look = watch.look(0, 10)
    assert [entry.run_id for entry in look.entries] == [run.run_id]
    assert [each.run_id for each in look.snapshot.waiting] == [run.run_id]
    assert watch.changed() is False
    watch.close()


def test_a_watch_goes_on_when_there_is_more_than_it_may_look_at(registry, path, run_in) -> None:
    run_in(State.RUNNING)
    watch = RegistryWatch(path)
    watch.changed()
    first = watch.look(0, 2)
    second = watch.look(first.upto, 2)
    watch.close()
    assert (len(first.entries), first.more) == (2, True)
    assert (len(second.entries), second.more) == (1, False)


def test_a_watch_waits_for_a_file_that_is_not_there_yet(path, clock) -> None:
    watch = RegistryWatch(path)
    assert [watch.changed(), watch.changed()] == [True, False]
    assert watch.look(None, 10).upto is None
    with Registry(path, "demo", clock):
        assert watch.changed()
        assert watch.look(0, 10).upto is not None
    watch.close()


def test_a_watch_follows_a_file_that_is_replaced(path, clock) -> None:
    watch = RegistryWatch(path)
    with Registry(path, "demo", clock):
        watch.changed()
        old = watch.look(None, 10).upto
    watch.close()
    path.unlink()
    with Registry(path, "demo", clock):
        assert watch.changed()
        new = watch.look(None, 10).upto
    watch.close()
    assert old is not None
    assert new is not None
    assert new > old


@pytest.mark.parametrize("state", [state for state in State if state is not State.OFFERED])
def test_the_journal_knows_a_runs_status_as_the_run_does(reader, run_in, state) -> None:
    run = run_in(state)
    assert told(reader, run_id=run.run_id)[-1] == (run.run_id, reader.run(run.run_id).status)
