"""What an agent sends becomes durable in its run's mirror, once, in order, and for its holder alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_jobs import EXIT, LEASE, RESULT_EVENT, claimed, digest

from potato_ray.errors import Conflict
from potato_ray.job.follow import Follower
from potato_ray.mirror import mirror as subject
from potato_ray.mirror.durable import Lines
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.mirror.mirror import Holder, Mirror, mirror_of
from potato_ray.mirror.reading import Failure, Result, progress_of, result_of
from potato_ray.mirror.refusals import EventsMissing, TooLarge

HOLDER = Holder(1, digest(LEASE))


@pytest.fixture
def folder(tmp_path) -> Path:
    claimed(tmp_path / "run")
    return tmp_path / "run"


def events(*numbers: int) -> list[dict[str, Any]]:
    return [{"v": 1, "event": "metric", "t": 1.0, "name": "train_loss", "value": n} for n in numbers]


def send(mirror: Mirror, first_seq: int, *numbers: int, holder: Holder = HOLDER, **more: Any) -> int:
    report = progress_of({"first_seq": first_seq, "events": events(*numbers), **more})
    with mirror.held(holder):
        return mirror.take(report)


def end(mirror: Mirror, **fields: Any) -> None:
    with mirror.held(HOLDER):
        mirror.end(result_of({"exit": EXIT, "next_seq": 1, **fields}))


def values(folder: Path) -> list[Any]:
    return [event.get("value") for event in Follower(MirrorFolder(folder)).poll()]


def test_events_come_into_the_file_in_their_order(folder) -> None:
    mirror = Mirror(folder)
    assert (send(mirror, 0, 1, 2), send(mirror, 2, 3)) == (2, 3)
    assert values(folder) == [1, 2, 3]


def test_events_that_are_sent_again_are_kept_once(folder) -> None:
    mirror = Mirror(folder)
    send(mirror, 0, 1, 2)
    assert send(mirror, 0, 1, 2) == 2
    assert send(mirror, 1, 2, 3) == 3
    assert values(folder) == [1, 2, 3]


@pytest.mark.parametrize(
    ("first_seq", "order"), [(0, ["notes.jsonl", "events.jsonl"]), (1, ["events.jsonl", "notes.jsonl"])]
)
def test_what_is_said_of_a_workers_start_is_there_before_its_first_words(
    folder, monkeypatch, first_seq, order
) -> None:
    mirror = Mirror(folder)
    send(mirror, 0, *range(first_seq))
    written: list[str] = []
    append = Lines.append
    monkeypatch.setattr(
        Lines, "append", lambda lines, new: (written.append(lines.path.name), append(lines, new))
    )
    send(mirror, first_seq, 7, notes=[{"kind": "step", "step": "starting the worker"}])
    assert written == order


def test_the_first_word_of_a_worker_says_since_when_it_works(folder) -> None:
    now = [100.0]
    mirror = Mirror(folder, lambda: now[0])
    send(mirror, 0)
    assert mirror.folder.read_start() is None
    send(mirror, 0, alive=True)
    now[0] = 200.0
    send(mirror, 0, 1)
    assert Mirror(folder).folder.read_start() == 100.0


def test_events_tell_of_a_worker_too_and_a_new_holder_has_none_yet(folder) -> None:
    send(Mirror(folder), 0, 1)
    assert MirrorFolder(folder).read_start() is not None
    MirrorFolder(folder).forget_sent()
    assert MirrorFolder(folder).read_start() is None


def test_a_gap_says_from_where_to_send_and_changes_nothing(folder) -> None:
    mirror = Mirror(folder)
    send(mirror, 0, 1)
    with pytest.raises(EventsMissing) as missing:
        send(mirror, 3, 4)
    assert missing.value.next_seq == 1
    assert values(folder) == [1]


def test_a_server_that_was_restarted_counts_the_events_again(folder) -> None:
    send(Mirror(folder), 0, 1, 2)
    assert send(Mirror(folder), 2, 3) == 3
    assert values(folder) == [1, 2, 3]


def test_a_torn_last_line_is_cut_off_and_sent_again(folder) -> None:
    send(Mirror(folder), 0, 1)
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"v": 1, "event": "met')
    assert send(Mirror(folder), 0) == 1
    assert send(Mirror(folder), 1, 2) == 2
    assert values(folder) == [1, 2]


@pytest.mark.parametrize("holder", [Holder(1, digest("another")), Holder(2, digest(LEASE))])
def test_nobody_but_the_holder_writes_anything(folder, holder: Holder) -> None:
    mirror = Mirror(folder)
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(Conflict, match="not have the run in hand") as refused:
        send(mirror, 0, 1, holder=holder)
    assert refused.value.code == "stale_attempt"
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_folder_that_nobody_has_claimed_takes_nothing(tmp_path) -> None:
    with pytest.raises(Conflict, match="Nobody has it in hand"):
        send(Mirror(tmp_path), 0, 1)


def test_what_an_earlier_attempt_has_sent_is_gone_for_the_next_one(folder) -> None:
    mirror = Mirror(folder)
    send(mirror, 0, 1, 2, notes=[{"kind": "step", "step": "x"}])
    claimed(folder, attempt=2, lease="f" * 32)
    assert send(mirror, 0, 9, holder=Holder(2, digest("f" * 32))) == 1
    assert values(folder) == [9]
    assert not (folder / "notes.jsonl").exists()


def test_each_good_request_is_a_heartbeat_that_says_whether_a_worker_lives(folder) -> None:
    mirror = Mirror(folder)
    send(mirror, 0, alive=True)
    first = (folder / "heartbeat").stat().st_mtime_ns
    assert (folder / "heartbeat").read_text() == "working"
    send(mirror, 0)
    assert (folder / "heartbeat").read_text() == "waiting"
    assert (folder / "heartbeat").stat().st_mtime_ns > first


def test_notes_whose_answer_was_lost_are_kept_once(folder) -> None:
    mirror = Mirror(folder)
    for steps in (["40 of 200 MB"], ["40 of 200 MB"], ["40 of 200 MB", "80 of 200 MB"], []):
        send(mirror, 0, notes=[{"kind": "step", "step": step} for step in steps])
    send(mirror, 0, 1, notes=[])
    send(mirror, 1, notes=[{"kind": "step", "step": "80 of 200 MB"}])
    lines = (folder / "notes.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == ["40 of 200 MB", "80 of 200 MB", "80 of 200 MB"]


def test_events_without_end_are_refused(folder, monkeypatch) -> None:
    monkeypatch.setattr(subject, "MAX_EVENTS_BYTES", 100)
    with pytest.raises(TooLarge, match="said too much"):
        send(Mirror(folder), 0, 1, 2, 3)


def test_a_success_is_taken_once_events_and_predictions_are_there(folder) -> None:
    mirror = Mirror(folder)
    with pytest.raises(EventsMissing) as missing:
        end(mirror)
    assert missing.value.next_seq == 0
    send(mirror, 0, 1)
    with pytest.raises(Conflict) as refused:
        end(mirror)
    assert refused.value.code == "predictions_missing"
    assert not (folder / "exit.json").exists()
    MirrorFolder(folder).artifacts.mkdir()
    MirrorFolder(folder).predictions.write_text("")
    end(mirror, stderr_tail="all well\n", agent_log="ran\n", artifact_uri="agent-host:/x")
    left = MirrorFolder(folder)
    assert (left.stderr.read_text(), left.agent_log.read_text()) == ("all well\n", "ran\n")
    assert left.read_exit() is not None
    told = left.read_result()
    assert told is not None
    assert (told["artifact_uri"], told["stderr_tail"]) == ("agent-host:/x", "all well\n")


def test_a_result_that_is_sent_again_is_taken_and_another_one_is_not(folder) -> None:
    mirror = Mirror(folder)
    failed = {"exit": {**EXIT, "code": 1}, "next_seq": 0}
    end(mirror, **failed)
    before = (folder / "result.json").read_bytes()
    end(mirror, **failed, agent_log="it was restarted since")
    assert (folder / "result.json").read_bytes() == before
    with pytest.raises(Conflict) as refused:
        end(mirror, exit={**EXIT, "code": 2}, next_seq=0)
    assert refused.value.code == "stale_attempt"


def test_no_event_comes_behind_the_result_but_repeats_do(folder) -> None:
    mirror = Mirror(folder)
    send(mirror, 0, 1)
    end(mirror, exit={**EXIT, "code": 1})
    assert send(mirror, 0, 1) == 1
    with pytest.raises(Conflict, match="not have the run in hand"):
        send(mirror, 1, 2)


def test_an_end_without_an_exit_leaves_a_result_alone(folder) -> None:
    end(Mirror(folder), exit=None, next_seq=0, failure={"code": "no_python", "message": "There is none."})
    left = MirrorFolder(folder)
    assert left.read_exit() is None
    told = left.read_result()
    assert told is not None
    assert told["failure"] == {"code": "no_python", "message": "There is none.", "next_step": ""}


def test_only_an_exit_of_zero_without_a_reason_is_a_success() -> None:
    good = result_of({"exit": EXIT, "next_seq": 0})
    assert good.is_success
    assert good.exit is not None
    for changed in ({"code": 1}, {"signal": 9}, {"reason": "cancelled"}):
        assert not replace(good, exit=replace(good.exit, **changed)).is_success
    assert not replace(good, failure=Failure("x", "y")).is_success
    assert not Result(None, 0).is_success


def test_a_folder_has_one_mirror_and_old_ones_are_forgotten(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(subject, "KEPT", 2)
    first = mirror_of(tmp_path / "a")
    assert mirror_of(tmp_path / "a") is first
    for name in "bcd":
        mirror_of(tmp_path / name)
    assert mirror_of(tmp_path / "a") is not first


def test_a_result_event_is_an_event_as_any_other(folder) -> None:
    mirror = Mirror(folder)
    with mirror.held(HOLDER):
        mirror.take(progress_of({"first_seq": 0, "events": [RESULT_EVENT]}))
    assert Follower(MirrorFolder(folder)).poll() == [RESULT_EVENT]
