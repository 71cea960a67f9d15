from __future__ import annotations

import json

import pytest

from potato_ray.job import events
from potato_ray.job.event_log import TEXT_LIMIT, EventLog, clean
from potato_ray.job.folder import JobFolder
from potato_ray.job.follow import Follower
from potato_ray.job.reporting import JobReporter, Stopped, StopSignal


class NumpyLike:
    size = 1

    def item(self):
        return 0.5


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_does_not_know_become_null(value):
    assert clean({"loss": [value]}) == {"loss": [None]}


def test_lone_surrogates_become_question_marks_in_keys_too():
    assert clean({"\ud800": "a\udfffb"}) == {"?": "a?b"}


def test_numbers_of_other_libraries_become_pythons():
    assert clean(NumpyLike()) == 0.5


def test_what_is_no_json_at_all_becomes_text():
    assert clean({1: (2, {3})}) == {"1": [2, [3]]}
    assert clean(object).startswith("<class")


def test_values_that_contain_themselves_come_to_an_end():
    endless: list[object] = []
    endless.append(endless)
    assert json.dumps(clean(endless))


def test_long_texts_are_cut():
    assert len(clean("x" * 100_000)) == TEXT_LIMIT + 1


def test_an_event_is_one_line_with_version_name_and_time(tmp_path):
    EventLog(tmp_path / "events.jsonl").write("log", level="info", message="one\ntwo")
    (line,) = (tmp_path / "events.jsonl").read_text("ascii").splitlines()
    event = json.loads(line)
    assert (event["v"], event["event"], event["message"]) == (events.VERSION, "log", "one\ntwo")
    assert event["t"] > 1e9


def test_an_event_that_no_reader_knows_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no event named 'gossip'"):
        EventLog(tmp_path / "events.jsonl").write("gossip")


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def stop():
    return StopSignal()


@pytest.fixture
def reporter(tmp_path, stop, clock):
    return JobReporter(EventLog(tmp_path / "events.jsonl"), stop, clock=lambda: clock[0])


def reported(tmp_path, name):
    return [event for event in Follower(JobFolder(tmp_path)).poll() if event["event"] == name]


def test_progress_comes_at_most_ten_times_a_second_and_always_at_the_end(tmp_path, reporter, clock):
    for step in range(1, 101):
        clock[0] += 0.01
        reporter.progress(step, 100)
    current = [event["current"] for event in reported(tmp_path, "progress")]
    assert 10 <= len(current) <= 12
    assert current[-1] == 100


def test_any_level_that_is_not_info_is_a_warning(tmp_path, reporter):
    for level in ("info", "warning", "error"):
        reporter.log("message", level)
    levels = [event["level"] for event in reported(tmp_path, "log")]
    assert levels == ["info", "warning", "warning"]


def test_a_stop_that_a_trainer_swallowed_comes_back_at_its_next_word(reporter, stop):
    stop.received = True
    with pytest.raises(Stopped):
        reporter.status("fitting")
