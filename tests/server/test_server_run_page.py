"""The page of one run, as the server sends it."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from typing import Any

import pytest
from run_history import begin, fail, folder_of, move, succeed, wait
from scored_runs import WARNINGS, long_labels, scored

from potato_ray.registry.states import State
from potato_ray.server.run_view import grouped

SPAN = {"start": 0, "end": 6, "label": "praise"}


def page(served: Any, run_id: str, status: int = 200) -> str:
    answer = served.client.get(f"/admin/training/runs/{run_id}")
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    return str(answer.text)


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_the_score_stands_beside_the_baseline_and_the_previous_run(serve) -> None:
    served = serve()
    before = scored(served, wrong_every=3)
    headline = before.headline | {"previous": before.headline["value"]}
    run = scored(served, headline=headline)
    served.controller.write(
        served.controller.registry.update, run.run_id, 1, scores={**run.scores, "headline": headline}
    )
    html = page(served, run.run_id)
    assert f'href="/admin/training/runs/{before.run_id}">Previous run</a>' in html
    assert "Better than the baseline: the whole 95 % interval" in html
    assert "The 95 % intervals of this run and of the previous one overlap, so they alone show no" in html
    assert "istinguishable" not in html


def test_a_faultless_score_on_few_items_has_no_interval_and_is_compared_with_nothing(serve) -> None:
    served = serve()
    run = scored(served, n_items=6, wrong_every=0)
    text = text_of(page(served, run.run_id))
    assert "1.000 macro_f1 on val 3 items, no 95 % interval: every resample of 3 items gives the same" in text
    assert "The score has no 95 % interval (every resample of 3 items gives the same value), so" in text
    assert "Better than" not in text
    assert "coverage 1.000 1.000" in text


@pytest.mark.parametrize(("selects_on_val", "unseen"), [(False, True), (True, False)])
def test_val_is_called_unseen_only_where_the_trainer_did_not_choose_by_it(
    serve, selects_on_val: bool, unseen: bool
) -> None:
    served = serve()
    run = scored(served)
    scores = {**run.scores, "selects_on_val": selects_on_val}
    served.controller.write(served.controller.registry.update, run.run_id, 1, scores=scores)
    text = text_of(page(served, run.run_id))
    assert ("on items that the model has never seen" in text) == unseen
    assert ("the figures of val flatter the model" in text) != unseen


def test_a_finished_run_shows_neither_cancel_nor_running(serve) -> None:
    served = serve()
    html = page(served, scored(served).run_id)
    assert "Cancel run" not in html
    assert 'data-live="no"' in html
    assert re.search(r"\brunning\b", text_of(html)) is None


def test_what_was_measured_on_the_way_is_told_of_the_items_that_it_is_of(serve) -> None:
    served = serve()
    said = text_of(page(served, scored(served).run_id))
    assert "val_… of val items, by which a trainer may choose its best epoch" in said
    assert "val_… on val items after the last epoch, even where the model of an earlier one was kept" in said


def test_pictures_have_a_text_and_a_table(serve) -> None:
    served = serve()
    html = page(served, scored(served).run_id)
    sources = set(re.findall(r'<img src="([^"]+\.svg)"', html)) - {"/static/favicon.svg"}
    assert {source.rsplit("/", 1)[1] for source in sources} == {
        "val_confusion_matrix.svg",
        "val_reliability.svg",
        "test_confusion_matrix.svg",
        "test_reliability.svg",
        "curves.svg",
    }
    assert all(served.client.get(source).status_code == 200 for source in sources)
    assert html.count("in figures</summary>") == 5


def test_mistakes_show_what_each_annotator_said(serve) -> None:
    served = serve()
    shown = text_of(page(served, scored(served).run_id))
    assert "Most confident mistakes" in shown
    assert "annotator_a: positive annotator_b: negative" in shown
    assert "A note on item-" in shown


def test_warnings_come_in_groups(serve) -> None:
    served = serve()
    html = page(served, scored(served).run_id)
    assert [name for name, _ in grouped(iter(WARNINGS))] == [
        "Files that could not be read",
        "What the annotators agree on",
        "Which items are held out",
    ]
    assert "<h3>Files that could not be read</h3>" in html


def test_a_failed_run_has_its_reason_first(serve) -> None:
    served = serve()
    run = fail(served, "It <b>broke</b>.", error_evidence="/home/ann/secret/place.py says so")
    html = page(served, run.run_id)
    assert html.index("It failed: It &lt;b&gt;broke&lt;/b&gt;.") < html.index('id="facts-heading"')
    assert "Look." in html
    assert "/home/ann/secret" not in html


def test_a_waiting_run_tells_its_place_and_can_be_cancelled(serve) -> None:
    served = serve()
    wait(served)
    html = page(served, wait(served).run_id)
    assert "waiting #2" in html
    assert html.count("Cancel run") == 1
    assert 'data-live="yes"' in html


def test_a_run_that_is_being_cancelled_hides_its_button(serve) -> None:
    served = serve()
    run = wait(served)
    begin(served, run.run_id)
    move(served, run.run_id, State.RUNNING)
    served.controller.write(served.controller.registry.request_cancel, run.run_id)
    html = page(served, run.run_id)
    assert "cancelling" in html
    assert re.search(r"<button[^>]+data-cancel[^>]+ hidden>", html)


@pytest.mark.parametrize("state", [State.CANCELLED, State.INTERRUPTED])
def test_every_end_without_success_is_told(serve, state: State) -> None:
    served = serve()
    run = wait(served)
    begin(served, run.run_id)
    move(served, run.run_id, state)
    html = page(served, run.run_id)
    assert f"It was {state}" in html
    assert "Cancel run" not in html


def test_an_unknown_run_is_a_page_that_leads_back(serve) -> None:
    html = page(serve(), "no-such-run", 404)
    assert "No such run: no-such-run" in html
    assert '<a href="/admin/training">' in html


@pytest.mark.parametrize("run_id", ["%2e%2e", "a%00b", "x" * 400, "%3Cscript%3E"])
def test_what_can_be_no_run_is_a_page_too(serve, run_id: str) -> None:
    answer = serve().client.get(f"/admin/training/runs/{run_id}")
    assert answer.status_code == 404
    assert "<script>" not in answer.text


def test_a_run_that_was_pruned_says_where_its_folder_is(serve) -> None:
    served = serve()
    folder_of(served, "20260101T000000-abc123").mkdir(parents=True)
    html = page(served, "20260101T000000-abc123", 404)
    assert "annotation_output/training/runs/20260101T000000-abc123" in html
    assert str(served.config.task_dir) not in html


def test_a_run_that_potato_made_shows_what_there_is(serve) -> None:
    served = serve()
    with sqlite3.connect(served.config.registry_path) as connection:
        connection.execute(
            "INSERT INTO training_runs (project, run_id, trainer, schema_names, kinds, status, created_at,"
            " n_train, metrics) VALUES ('p', 'potato-1', 'setfit', '[\"sentiment\"]', '[\"nominal\"]',"
            " 'running', ?, 40, '{\"val_macro_f1\": 0.5}')",
            (time.time(),),
        )
    connection.close()
    html = page(served, "potato-1")
    assert "Potato itself made this run" in html
    assert "val_macro_f1" in html
    assert "Cancel run" not in html
    assert 'data-live="no"' in html


def test_pre_labels_can_be_withdrawn_once(serve) -> None:
    served = serve()
    run = succeed(served)
    assert 'id="withdraw"' in page(served, run.run_id)
    assert served.client.delete(f"/admin/training/api/runs/{run.run_id}/predictions").status_code == 200
    assert 'id="withdraw"' not in page(served, run.run_id)


def test_a_page_says_when_predictions_were_withdrawn_or_that_newer_ones_replaced_them(serve) -> None:
    served = serve()
    run = succeed(served)
    registry = served.controller.registry
    served.controller.write(registry.update, run.run_id, 1, writeback={"n_read": 3, "summary": "Published 3"})
    served.client.delete(f"/admin/training/api/runs/{run.run_id}/predictions")
    assert "Withdrawn at <time" in page(served, run.run_id)
    assert "newer runs have replaced them" not in page(served, run.run_id)
    replaced = succeed(served, n_predictions=0)
    served.controller.write(registry.update, replaced.run_id, 1, writeback={"n_read": 3})
    assert "newer runs have replaced them" in page(served, replaced.run_id)


@pytest.mark.parametrize(
    ("kind", "annotation_type", "targets", "words"),
    [
        ("nominal", "radio", long_labels(30), "Most confident mistakes"),
        ("ordinal", "likert", ["1", "2", "3"], "quadratic_kappa"),
        ("multilabel", "multiselect", [["a"], ["a", "b"], []], "none of the labels"),
        ("continuous", "slider", [1.0, 4.0, 9.5], "Largest errors"),
        ("text", "text", ["one line", "another"], "exact_match"),
        ("span", "span", [[SPAN], []], "“A note” praise"),
        ("ranking", "ranking", [["a", "b", "c"], ["b", "a", "c"]], "b &gt; a &gt; c"),
        ("preference", "pairwise", ["A", "B"], "accuracy"),
    ],
)
def test_every_kind_has_a_page(serve, kind: str, annotation_type: str, targets: Any, words: str) -> None:
    served = serve()
    html = page(served, scored(served, kind, targets, annotation_type=annotation_type).run_id)
    assert words in html


def test_a_damaged_file_of_mistakes_leaves_the_page_whole(serve) -> None:
    served = serve()
    run = scored(served)
    (folder_of(served, run.run_id) / "mistakes.json").write_text("{torn")
    html = page(served, run.run_id)
    assert "Most confident mistakes" not in html
    assert "Held-out score" in html


def test_a_lone_surrogate_does_no_harm(serve) -> None:
    served = serve()
    path = folder_of(served, scored(served).run_id) / "mistakes.json"
    body = json.loads(path.read_text())
    body["splits"]["val"]["mistakes"][0]["text"] = "\ud800"
    path.write_text(json.dumps(body))
    assert "Most confident mistakes" in page(served, path.parent.name)


def test_the_page_shows_the_end_of_a_long_log(serve) -> None:
    served = serve()
    run = scored(served, steps=400)
    html = page(served, run.run_id)
    log = html.split('id="log"', 1)[1].split("</pre>", 1)[0]
    assert "(step 399)" in log
    assert "(step 1)" not in log
    assert len(log.splitlines()) <= 202


def logged(served: Any, run_id: str) -> list[str]:
    html = page(served, run_id)
    log = re.search(r'<pre[^>]* id="log"[^>]*>(.*?)</pre>', html, re.DOTALL)
    assert log is not None
    return [line.partition(" ")[2] for line in log[1].splitlines()]


def test_progress_does_not_push_the_lines_out_of_the_log(serve) -> None:
    served = serve()
    run = wait(served)
    begin(served, run.run_id)
    said = [{"event": "log", "level": "info", "message": f"line {number}"} for number in range(3)]
    said += [{"event": "progress", "current": number, "total": 500} for number in range(500)]
    served.controller.write(served.controller.registry.record_events, run.run_id, 1, 0, said)
    assert logged(served, run.run_id) == ["line 0", "line 1", "line 2"]


def test_the_page_of_a_second_attempt_reads_no_more_than_it_shows(serve, monkeypatch) -> None:
    served = serve()
    run = wait(served)
    begin(served, run.run_id)
    record = served.controller.registry.record_events
    said = [{"event": "log", "level": "info", "message": f"line {number}"} for number in range(1500)]
    served.controller.write(record, run.run_id, 1, 0, said)
    move(served, run.run_id, State.QUEUED)
    begin(served, run.run_id)
    served.controller.write(record, run.run_id, 2, 0, said[:1])
    read: list[object] = []
    monkeypatch.setattr(
        "potato_ray.server.run_view.shown_event", lambda _, event: read.append(event) or event
    )
    assert logged(served, run.run_id) == [*(f"line {number}" for number in range(1301, 1500)), "line 0"]
    assert len(read) == 200


def test_the_page_is_for_admins_alone(serve) -> None:
    served = serve()
    run_id = succeed(served).run_id
    answer = served.anonymous.get(f"/admin/training/runs/{run_id}", follow_redirects=False)
    assert answer.status_code in (302, 303, 307, 401)
    assert run_id not in answer.text or "sklearn-text" not in answer.text
