"""What the page of a run says of its times and parameters, and the table of its id."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from many_params import ManyParams
from run_history import begin, folder_of, move, succeed, wait
from scored_runs import scored

from potato_ray.registry.runs import NewRun
from potato_ray.registry.states import State
from potato_ray.server.wording import when
from potato_ray.trainers import registry as trainers
from potato_ray.trainers.params import complete


def page(served: Any, where: str) -> str:
    answer = served.client.get(f"/admin/training{where}")
    assert answer.status_code == 200
    return str(answer.text)


def setter(html: str, name: str) -> str:
    found = re.search(rf">{name}</th>.*?class=\"setter\">([^<]*)<", html)
    assert found
    return found[1]


def test_the_times_of_a_run_have_their_seconds(serve) -> None:
    served = serve()
    run = succeed(served)
    html = page(served, f"/runs/{run.run_id}")
    for label, time in (("Asked for", run.created_at), ("Ended", run.finished_at)):
        assert re.search(
            rf"<dt>{label}</dt><dd><time datetime=\"[^\"]+\" data-exact>{when(time, exact=True)}<", html
        )


def test_an_exact_time_has_its_seconds() -> None:
    assert when(1772357400.25, exact=True) == "2026-03-01 09:30:00 UTC"


def test_how_long_a_run_took_is_told_of_its_worker_and_in_all(serve) -> None:
    served = serve()
    run = succeed(served)
    assert re.search(
        r"[\d.]+ s of the worker .*[\d.]+ s since it was asked for", page(served, f"/runs/{run.run_id}")
    )


def test_of_a_run_that_never_had_a_worker_no_times_of_one_are_told(serve) -> None:
    served = serve()
    run_id = wait(served).run_id
    begin(served, run_id)
    move(served, run_id, State.RUNNING, State.CANCELLED)
    html = page(served, f"/runs/{run_id}")
    assert "<dt>Ended</dt>" in html
    assert not any(words in html for words in ("Worker started", "its worker took", "<dt>Duration</dt>"))
    assert '<td role="cell" data-label="Duration" class="figures none">–</td>' in page(served, "")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("min_instances", 5, "this run"),
        ("letter_groups", False, "configuration"),
        ("letter_groups", True, "default"),
        ("of_an_older_version", 1, "configuration or default"),
    ],
)
def test_each_parameter_says_what_set_it(serve, name: str, value: Any, expected: str) -> None:
    served = serve()
    run = scored(served)
    spec = json.dumps({"v": 1, "params": {name: value}})
    (folder_of(served, run.run_id) / "spec.json").write_text(spec, "utf-8")
    assert setter(page(served, f"/runs/{run.run_id}"), name) == expected


def test_a_mapping_is_shown_with_the_defaults_of_what_the_start_left_out(serve, monkeypatch) -> None:
    monkeypatch.setitem(trainers._registered, ManyParams.name, ManyParams)
    served = serve()
    run = wait(served, NewRun(ManyParams.name, ("sentiment",), ("nominal",), {"lora": {"r": 8}}))
    begin(served, run.run_id)
    move(served, run.run_id, State.RUNNING, State.ERROR, error="It broke.")
    folder = folder_of(served, run.run_id)
    folder.mkdir(parents=True, exist_ok=True)
    spec = json.dumps({"v": 1, "params": complete(ManyParams, run.params)})
    (folder / "spec.json").write_text(spec, "utf-8")
    shown = page(served, f"/runs/{run.run_id}")
    assert '"r": 8, "alpha": 32, "dropout": 0.05' in unescape(shown)
    assert (setter(shown, "lora"), setter(shown, "stops")) == ("this run", "default")


def test_the_table_tells_runs_of_one_minute_apart_by_the_ends_of_their_ids(serve) -> None:
    served = serve()
    run = succeed(served)
    assert f'title="Run {run.run_id}">{run.run_id[-6:]}</span>' in page(served, "")
