"""What an agent says, and what of it goes home with a job."""

from __future__ import annotations

import io

from potato_ray.agent.voice import Record, Voice


def test_of_a_long_job_the_first_lines_and_the_last_ones_go_home() -> None:
    voice = Voice(io.StringIO())
    voice.say("of the job before")
    voice.begin_record()
    for number in range(3000):
        voice.say(f"line {number} of many")
    lines = voice.record().splitlines()
    assert lines[0].endswith("line 0 of many")
    assert lines[-1].endswith("line 2999 of many")
    assert len(voice.record()) < 64_100


def test_what_is_left_out_is_counted_where_it_was() -> None:
    record = Record(first_chars=8, last_chars=8)
    for number in range(10):
        record.add(f"l-{number}")
    assert record.text().splitlines() == ["l-0", "l-1", "… 6 lines are left out here …", "l-8", "l-9"]


def test_short_records_are_whole_and_one_long_line_is_kept() -> None:
    record = Record(first_chars=8, last_chars=8)
    assert record.text() == ""
    record.add("first")
    record.add("x" * 20)
    assert record.text() == "first\n" + "x" * 20 + "\n"
