"""What a run leaves, over HTTP: events, log, predictions, files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from run_history import ARTIFACTS, EVENTS, NEW, RUNS, SVG, begin, folder_of, succeed, wait

from potato_ray.server import artifact_files


def problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.status_code == answer.json()["status"] == status
    return answer.json()


@pytest.fixture
def served(serve) -> Any:
    return serve()


@pytest.fixture
def run_id(served) -> str:
    return succeed(served).run_id


# Events and log


def test_events_come_page_by_page(served, run_id) -> None:
    first = served.client.get(f"{RUNS}/{run_id}/events?limit=2").json()
    assert [event["event"] for event in first["events"]] == ["status", "metric"]
    rest = served.client.get(f"{RUNS}/{run_id}/events?after={first['next']}").json()
    assert [event["event"] for event in rest["events"][:3]] == ["log", "log", "result"]
    last = served.client.get(f"{RUNS}/{run_id}/events?after={rest['next']}").json()
    assert last == {"events": [], "next": rest["next"]}


@pytest.mark.parametrize("query", ["after=-1", f"after={2**63}", "limit=0", "limit=1001", "limit=2.5"])
def test_pages_that_cannot_be_are_refused(served, run_id, query: str) -> None:
    problem(served.client.get(f"{RUNS}/{run_id}/events?{query}"), 400)


def test_the_log_is_plain_text_with_one_line_for_each_event(served, run_id) -> None:
    answer = served.client.get(f"{RUNS}/{run_id}/log")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    lines = answer.text.splitlines()
    assert lines[0] == "2026-03-01T09:30:00Z fitting on 126 items"
    assert lines[2] == "2026-03-01T09:30:02Z WARNING: 2 items were moved"
    assert "\U0001f600" in lines[3]


def test_each_event_comes_with_its_line_of_the_log(served, run_id) -> None:
    events = served.client.get(f"{RUNS}/{run_id}/events").json()["events"]
    log = served.client.get(f"{RUNS}/{run_id}/log").content
    lines = "".join(f"{event['line']}\n" for event in events if event["line"])
    assert lines.encode("utf-8", "backslashreplace") == log


def test_a_log_longer_than_a_page_is_whole(served) -> None:
    run = wait(served)
    begin(served, run.run_id)
    said = [{"event": "log", "level": "info", "message": f"line {number}"} for number in range(2500)]
    served.controller.write(served.controller.registry.record_events, run.run_id, 1, 0, said)
    lines = served.client.get(f"{RUNS}/{run.run_id}/log").text.splitlines()
    assert [line.partition(" ")[2] for line in lines] == [f"line {number}" for number in range(2500)]


def test_warnings_in_events_and_log_name_no_path_outside_the_project(served) -> None:
    run = wait(served)
    begin(served, run.run_id)
    said = [{"event": "log", "level": "warning", "message": "see /usr/lib/secret/x.log"}]
    served.controller.write(served.controller.registry.record_events, run.run_id, 1, 0, said)
    for kind in ("events", "log"):
        text = served.client.get(f"{RUNS}/{run.run_id}/{kind}").text
        assert "x.log" in text
        assert "/usr/lib" not in text


# Predictions


def test_predictions_are_json_lines_in_order_of_item_however_many(served) -> None:
    run = succeed(served, n_predictions=2001)
    answer = served.client.get(f"{RUNS}/{run.run_id}/predictions")
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["instance_id"] for line in lines] == [f"item-{number:05}" for number in range(2001)]
    assert lines[0] == {
        "instance_id": "item-00000",
        "schema_name": "sentiment",
        "payload": {"label": "positive"},
        "confidence": 0.75,
    }


def test_withdrawn_predictions_are_gone(served, run_id) -> None:
    answer = served.client.delete(f"{RUNS}/{run_id}/predictions")
    assert answer.json() == {"run_id": run_id, "withdrawn": 0}
    gone = served.client.get(f"{RUNS}/{run_id}/predictions")
    assert (gone.status_code, gone.text) == (200, "")


def test_predictions_of_a_run_that_goes_on_cannot_be_withdrawn(served) -> None:
    run = wait(served)
    assert (
        problem(served.client.delete(f"{RUNS}/{run.run_id}/predictions"), 409)["error_code"] == "wrong_state"
    )


@pytest.mark.parametrize("what", ["events", "log", "predictions", "artifacts", "artifacts/model_card.json"])
def test_an_unknown_run_has_none_of_it(served, what: str) -> None:
    assert problem(served.client.get(f"{RUNS}/nothing/{what}"), 404)["error_code"] == "unknown_run"


# Files


def test_the_files_of_a_run_are_those_of_its_artifacts(served, run_id) -> None:
    listed = served.client.get(f"{RUNS}/{run_id}/artifacts").json()["artifacts"]
    assert {each["path"]: each["bytes"] for each in listed} == {n: len(t) for n, t in ARTIFACTS.items()}
    assert [each["path"] for each in listed] == sorted(ARTIFACTS)


def test_a_run_without_a_folder_has_no_files(served) -> None:
    run = wait(served, NEW)
    assert served.client.get(f"{RUNS}/{run.run_id}/artifacts").json()["artifacts"] == []


def test_every_listed_file_can_be_downloaded(served, run_id) -> None:
    for name, text in ARTIFACTS.items():
        answer = served.client.get(f"{RUNS}/{run_id}/artifacts/{name}")
        assert (answer.status_code, answer.text) == (200, text)
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_file_is_saved_by_browsers_and_a_picture_runs_no_script(served, run_id) -> None:
    model = served.client.get(f"{RUNS}/{run_id}/artifacts/model/weights.bin")
    assert model.headers["content-disposition"] == 'attachment; filename="weights.bin"'
    assert model.headers["content-type"] == "application/octet-stream"
    picture = served.client.get(f"{RUNS}/{run_id}/artifacts/test_reliability.svg")
    assert (picture.headers["content-type"], picture.text) == ("image/svg+xml", SVG)
    assert "sandbox" in picture.headers["content-security-policy"]


def test_names_with_other_letters_and_blanks_work(served, run_id) -> None:
    path = folder_of(served, run_id) / "artifacts" / "für alle #1?.txt"
    path.write_text("hej", "utf-8")
    answer = served.client.get(f"{RUNS}/{run_id}/artifacts/f%C3%BCr%20alle%20%231%3F.txt")
    assert answer.text == "hej"


@pytest.mark.parametrize(
    "path",
    [
        "../spec.json",
        "..%2Fspec.json",
        "%2e%2e/spec.json",
        "model/../../spec.json",
        "model/../model_card.json",
        "%2Fetc%2Fpasswd",
        "..%5Cspec.json",
        "model",
        "model/",
        "model//weights.bin",
        "model_card.json%00",
        "missing.json",
        "./model_card.json",
        "x" * 5000,
    ],
)
def test_nothing_but_the_runs_own_files_can_be_downloaded(served, run_id, path: str) -> None:
    answer = served.client.get(f"{RUNS}/{run_id}/artifacts/{path}")
    # Some are made into another path before they leave the client.
    assert answer.status_code in (400, 404) or (path.startswith(("model/..", "./")) and answer.text == "{}")


def test_links_out_of_the_folder_and_special_files_are_neither_listed_nor_sent(
    served, run_id, tmp_path
) -> None:
    artifacts = folder_of(served, run_id) / "artifacts"
    (tmp_path / "secret.txt").write_text("secret")
    (artifacts / "out.txt").symlink_to(tmp_path / "secret.txt")
    (artifacts / "spec.json").symlink_to("../spec.json")
    (artifacts / "away").symlink_to(tmp_path)
    (artifacts / "loop").symlink_to("loop")
    (artifacts / "inside.json").symlink_to("model_card.json")
    os.mkfifo(artifacts / "pipe")
    listed = {e["path"] for e in served.client.get(f"{RUNS}/{run_id}/artifacts").json()["artifacts"]}
    assert listed == {*ARTIFACTS, "inside.json"}
    for name in ("out.txt", "spec.json", "away/secret.txt", "loop", "pipe"):
        answer = served.client.get(f"{RUNS}/{run_id}/artifacts/{name}")
        assert problem(answer, 404)["error_code"] == "unknown_artifact"


def test_a_file_whose_name_is_no_text_is_left_out_and_spoils_no_page(served) -> None:
    run_id = succeed(served).run_id
    (folder_of(served, run_id) / "artifacts" / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    listed = [e["path"] for e in served.client.get(f"{RUNS}/{run_id}/artifacts").json()["artifacts"]]
    assert "model_card.json" in listed
    assert not any(path.startswith("caf") for path in listed)
    assert served.client.get(f"/admin/training/runs/{run_id}").status_code == 200


def test_an_artifacts_folder_that_is_a_link_shows_nothing(served, tmp_path: Path) -> None:
    run = wait(served)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.txt").write_text("x")
    folder_of(served, run.run_id).mkdir(parents=True)
    (folder_of(served, run.run_id) / "artifacts").symlink_to(elsewhere)
    assert served.client.get(f"{RUNS}/{run.run_id}/artifacts").json()["artifacts"] == []
    assert served.client.get(f"{RUNS}/{run.run_id}/artifacts/x.txt").status_code == 404


def test_the_list_of_files_has_an_end(served, run_id, monkeypatch) -> None:
    monkeypatch.setattr(artifact_files, "MAX_FILES", 2)
    assert len(served.client.get(f"{RUNS}/{run_id}/artifacts").json()["artifacts"]) == 2


# Ranges and what the caller has already


def weights(served: Any, run_id: str, method: str = "GET", **headers: str) -> Any:
    return served.client.request(method, f"{RUNS}/{run_id}/artifacts/model/weights.bin", headers=headers)


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [
        ("bytes=2-4", 206, "234"),
        ("bytes=7-", 206, "789"),
        ("bytes=-3", 206, "789"),
        ("bytes=8-99", 206, "89"),
        ("bytes=-99", 206, "0123456789"),
        # What is no single range in bytes is passed over.
        ("bytes=4-2", 200, "0123456789"),
        ("bytes=0-1,4-5", 200, "0123456789"),
        ("lines=1-2", 200, "0123456789"),
        ("bytes=" + "9" * 5000 + "-", 200, "0123456789"),
    ],
)
def test_a_range_is_sent_alone(served, run_id, asked: str, status: int, body: str) -> None:
    answer = weights(served, run_id, Range=asked)
    assert (answer.status_code, answer.text) == (status, body)


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=-0", "bytes=99-100"])
def test_a_range_outside_the_file_is_refused_with_its_size(served, run_id, asked: str) -> None:
    answer = weights(served, run_id, Range=asked)
    assert problem(answer, 416)["error_code"] == "unsatisfiable_range"
    assert answer.headers["content-range"] == "bytes */10"


def test_a_range_of_an_older_file_brings_the_whole_new_one(served, run_id) -> None:
    etag = weights(served, run_id).headers["etag"]
    assert weights(served, run_id, Range="bytes=8-", **{"If-Range": etag}).status_code == 206
    for asked in ("bytes=8-", "bytes=50-"):
        assert weights(served, run_id, Range=asked, **{"If-Range": '"older"'}).status_code == 200


def test_a_file_that_the_caller_has_is_not_sent_again(served, run_id) -> None:
    etag = weights(served, run_id).headers["etag"]
    answer = weights(served, run_id, **{"If-None-Match": f'"x", W/{etag}'})
    assert (answer.status_code, answer.text, answer.headers["etag"]) == (304, "", etag)


def test_head_says_what_a_download_would_bring(served, run_id) -> None:
    answer = weights(served, run_id, "HEAD")
    assert (answer.status_code, answer.text, answer.headers["content-length"]) == (200, "", "10")


def test_the_events_of_the_testbed_are_all_told(served, run_id) -> None:
    assert len(served.reader.events(run_id)) >= len(EVENTS)
