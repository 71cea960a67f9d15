"""At the start of a server, and when somebody withdraws a run."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest
from publishing import completed, publish, replay
from writeback_samples import prediction

from potato_ray.errors import Conflict, NotFound
from potato_ray.registry import RegistryReader, State
from potato_ray.writeback import Publication, Replay, Withdrawal, WritebackSettings, withdraw

POSITIVE = {"sentiment": {"label": "positive", "confidence": 0.9}}


def test_a_replay_shows_what_was_shown_and_writes_nothing(registry, path, succeed, settings, shown):
    succeed(prediction("a"), prediction("b", confidence=0.1))
    before = path.with_name("project.sqlite-wal").stat().st_size
    report = replay(registry, settings)
    assert (report.n_read, report.n_written, report.n_superseded_cleared) == (2, 1, 0)
    assert shown("a") == POSITIVE
    assert path.with_name("project.sqlite-wal").stat().st_size == before


def test_a_replay_restores_what_was_lost(registry, path, succeed, settings, shown):
    run_id, _ = succeed(prediction("a"))
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM potato_ray_prelabels")
    connection.execute("DELETE FROM training_predictions")
    connection.commit()
    replay(registry, settings)
    assert shown("a") == POSITIVE
    assert connection.execute("SELECT run_id FROM training_predictions").fetchall() == [(run_id,)]
    connection.close()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"schemas": ()}, {}),
        ({"min_confidence": 0.95}, {}),
        ({"min_confidence": 0.0}, POSITIVE),
        ({"schemas": ("tone",)}, {}),
    ],
)
def test_a_replay_follows_the_settings_of_now(registry, succeed, settings, shown, changes, expected):
    succeed(prediction("a"))
    replay(registry, replace(settings, **changes))
    assert shown("a") == expected


def test_a_scheme_that_is_enabled_later_is_published_at_the_next_start(registry, succeed, settings, shown):
    succeed(prediction("a"), settings=WritebackSettings())
    assert shown("a") == {}
    assert replay(registry, settings).summary == "Published 1 of 1 predictions"
    assert shown("a") == POSITIVE


def test_a_replay_takes_the_newest_run_alone(registry, succeed, settings, shown):
    succeed(prediction("a", "negative"), prediction("b", "negative"))
    succeed(prediction("a", confidence=0.1))
    report = replay(registry, settings)
    assert (report.n_read, report.n_written) == (2, 1)
    assert shown("a") == {}
    assert shown("b")["sentiment"]["label"] == "negative"


def test_a_replay_takes_rejected_and_trained_items_off(registry, succeed, finishing, reject, settings, shown):
    succeed(*map(prediction, ("rejected", "trained", "kept")))
    reject("rejected")
    finishing(trained=("trained",))
    report = replay(registry, settings)
    assert (report.n_skipped_rejected, report.n_skipped_train_split) == (1, 1)
    assert report.n_superseded_cleared == 2
    assert [bool(shown(item)) for item in ("rejected", "trained", "kept")] == [False, False, True]


def test_a_crash_between_publishing_and_success_is_put_right(registry, succeed, finishing, settings, shown):
    succeed(prediction("a", "negative"))
    run_id = finishing(prediction("a"), prediction("b"))
    publish(registry, run_id, 1, settings)
    registry.transition(run_id, 1, State.INTERRUPTED)
    replay(registry, settings)
    assert shown("a")["sentiment"]["label"] == "negative"
    assert shown("b") == {}


def test_a_replay_leaves_a_publication_that_is_under_way_alone(registry, succeed, finishing, settings, shown):
    ids = [f"item-{number:05}" for number in range(1500)]
    succeed(*(prediction(item, "negative") for item in ids))
    run_id = finishing(*map(prediction, ids[1:]), prediction(ids[0], confidence=0.1))
    assert replay(registry, settings).n_written == 1500
    assert shown(ids[1])["sentiment"]["label"] == "negative"
    publication = Publication(registry, run_id, 1, settings)
    publication.step()
    publication.step()
    replay(registry, settings)
    assert shown(ids[0]) == {}
    assert shown(ids[1]) == shown(ids[-1]) == POSITIVE
    while not publication.step():
        pass
    assert publication.report().n_written == 1499


def test_a_blocked_model_stays_blocked_and_is_published_once_the_gate_opens(
    registry, succeed, settings, shown
):
    block = replace(settings, gate="block")
    succeed(prediction("a", "negative"))
    succeed(prediction("a"), headline={"value": 0.4, "baseline": 0.5}, settings=block)
    replay(registry, block)
    assert shown("a")["sentiment"]["label"] == "negative"
    replay(registry, settings)
    assert shown("a") == POSITIVE


def test_a_replay_of_many_runs_and_items_settles_each_pair_once(registry, succeed, settings):
    ids = [f"item-{number:05}" for number in range(2300)]
    for _ in range(3):
        succeed(*map(prediction, ids))
    report = replay(registry, settings)
    assert (report.n_read, report.n_written) == (2300, 2300)


def test_a_replay_of_nothing_says_so(registry, settings):
    assert replay(registry, settings).summary == "No predictions were published: there are none"


def test_withdrawing_takes_a_runs_pre_labels_off_for_good(registry, succeed, settings, shown):
    older, _ = succeed(prediction("a", "negative"), prediction("b"))
    newer, _ = succeed(prediction("a"), prediction("c", confidence=0.1))
    assert withdraw(registry, newer) == 1
    assert withdraw(registry, newer) == 0
    assert shown("a") == {}
    assert shown("b") == POSITIVE
    assert list(RegistryReader(registry.path).predictions(newer)) == []
    assert withdraw(registry, older) == 1


def test_a_withdrawal_stands_in_the_report_and_in_the_log_once(registry, succeed):
    run_id, report = succeed(prediction("a"))
    assert registry.run(run_id).writeback["withdrawn_at"] is None
    withdraw(registry, run_id)
    kept = registry.run(run_id).writeback
    assert kept["withdrawn_at"] >= registry.run(run_id).finished_at
    assert (kept["n_written"], kept["summary"]) == (1, report.summary)
    withdraw(registry, run_id)
    assert registry.run(run_id).writeback == kept
    events = RegistryReader(registry.path).events(run_id)
    assert [e["message"] for e in events if e["event"] == "log"] == ["Its predictions were withdrawn."]


def test_a_withdrawal_is_noted_at_once_and_goes_a_chunk_at_a_time(registry, succeed, shown):
    run_id, _ = succeed(*(prediction(f"item-{number:05}") for number in range(1500)))
    withdrawal = Withdrawal(registry, run_id)
    assert registry.run(run_id).writeback["withdrawn_at"]
    steps = [withdrawal.step() for _ in range(2)]
    assert list(RegistryReader(registry.path).predictions(run_id)) == []
    assert shown("item-00000") == POSITIVE
    while not withdrawal.step():
        steps.append(False)
    assert (withdrawal.removed, len(steps), shown("item-00000")) == (1500, 4, {})


def test_a_withdrawal_that_was_cut_off_is_completed_by_the_next_replay(registry, succeed, settings, shown):
    ids = [f"item-{number:05}" for number in range(2500)]
    run_id, _ = succeed(*map(prediction, ids))
    withdrawal = Withdrawal(registry, run_id)
    while not withdrawal.removed:
        withdrawal.step()
    replaying = Replay(registry, settings)
    assert replaying.step() is False
    assert [each for each in ids if shown(each)] == ids[2000:]
    assert completed(replaying).n_superseded_cleared == 1500
    assert shown(ids[-1]) == {}


def test_a_withdrawal_that_had_hardly_begun_is_completed_by_the_next_replay(
    registry, succeed, settings, shown
):
    kept, _ = succeed(prediction("kept"))
    run_id, _ = succeed(*(prediction(f"item-{number:05}") for number in range(1500)))
    Withdrawal(registry, run_id).step()
    assert replay(registry, settings).n_superseded_cleared == 1500
    reader = RegistryReader(registry.path)
    assert (list(reader.predictions(run_id)), len(list(reader.predictions(kept)))) == ([], 1)
    assert (shown("item-01499"), shown("kept")) == ({}, POSITIVE)


def test_withdrawing_leaves_nothing_in_potatos_table(registry, path, succeed):
    run_id, _ = succeed(*(prediction(f"item-{number}") for number in range(1500)))
    assert withdraw(registry, run_id) == 1500
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM training_predictions").fetchone() == (0,)
    connection.close()


def test_a_run_that_is_not_over_or_not_there_cannot_be_withdrawn(registry, finishing):
    with pytest.raises(Conflict):
        withdraw(registry, finishing(prediction("a")))
    with pytest.raises(NotFound):
        withdraw(registry, "nope")
