"""The Training page as the server writes it, before any script."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest
from many_runs import LONG_REASON, Past, a_run_and_a_queue, thirty_runs
from playing_trainer import Playing

from potato_ray.errors import PotatoRayError
from potato_ray.registry.states import State
from potato_ray.server.context import Phase
from potato_ray.trainers import registry as trainers
from potato_ray.trainers.base import Licence, Param

PAGE = "/admin/training"


def page(served, path: str = PAGE) -> str:
    answer = served.client.get(path, headers={"Accept": "text/html"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return answer.text


def past(served, do, *args, **named):
    return served.controller.write(do, served.controller.registry, *args, **named)


def text(markup: str) -> str:
    """What is left when the tags are gone, with single blanks."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def section(markup: str, heading: str) -> str:
    start = markup.index(f'aria-labelledby="{heading}"')
    return markup[start : markup.index("</section>", start)]


def test_an_empty_project_is_told_what_to_do_first(serve) -> None:
    runs = text(section(page(serve()), "runs-heading"))
    assert "No runs yet." in runs
    assert "Label some items" in runs


def test_every_backend_is_offered_and_the_default_one_chosen(serve) -> None:
    backends = {"lab": {"type": "ssh", "host": "gpu.example.org", "description": "Two cards"}}
    shown = page(serve(backends=backends, backend="lab"))
    assert '<option value="lab" selected>lab (ssh to gpu.example.org)' in shown
    assert '<option value="local">local (this machine)</option>' in shown
    assert '<p data-of-backend="lab">Two cards</p>' in shown


def test_a_backend_that_runs_nothing_says_so_in_the_menu_and_why_beneath_it(serve) -> None:
    served = serve(backends={"lab": {"type": "ray", "node": "gpu.example.org"}})
    shown = page(served)
    assert "lab (ray to gpu.example.org) (cannot run anything yet)</option>" in shown
    _, lab = served.client.get("/admin/training/api/backends").json()["backends"]
    assert f'<p data-of-backend="lab" hidden>{html.escape(lab["why_not"])}</p>' in shown


def test_the_form_says_of_a_scheme_what_the_api_says(serve) -> None:
    served = serve("multi-scheme")
    shown = text(section(page(served), "start-heading"))
    for scheme in served.client.get("/admin/training/api/schemas").json()["schemas"]:
        assert (scheme["why_not"] or f"{scheme['name']} ({scheme['annotation_type']})") in shown


def test_a_scheme_that_nothing_learns_is_listed_with_the_reason(serve) -> None:
    form = section(page(serve("multi-scheme")), "start-heading")
    assert '<option value="tone"' in form
    assert '<option value="evidence"' not in form
    assert "Scheme evidence (span) No trainer here learns from annotations of type span." in text(form)


def test_without_a_scheme_that_can_be_learnt_there_is_no_form(serve, monkeypatch) -> None:
    monkeypatch.setattr(trainers, "all_trainers", list)
    form = section(page(serve()), "start-heading")
    assert "<form" not in form
    assert "No trainer here learns any of this project's schemes." in text(form)


def test_configured_parameters_are_shown_in_place_of_the_defaults(serve) -> None:
    form = page(serve(trainer_params={"sklearn-text": {"min_instances": 25, "calibrate": False}}))
    field = re.search(r'<input id="sklearn-text--min_instances"[^>]*>', form)
    assert field
    assert 'placeholder="25"' in field[0]
    assert 'min="1"' in field[0]
    assert "Configured: 25." in text(form)
    assert not re.search(r'id="sklearn-text--calibrate"[^>]* checked', form)


@pytest.fixture
def licensed(monkeypatch):
    class Licensed(Playing):
        name = "licensed"
        licence = Licence("AGPL-3.0", "https://licence.example.org/agpl", True, commercial_use=False)
        params = (*Playing.params, Param("rate", "float", 0.5, "How fast.", minimum=0.0, maximum=1.0))

    monkeypatch.setitem(trainers._registered, "licensed", Licensed)
    return Licensed


def test_a_trainer_whose_licence_must_be_accepted_asks_for_it(serve, licensed) -> None:
    form = page(serve())
    assert "I accept the licence of this trainer's software, AGPL-3.0" in text(form)
    assert 'href="https://licence.example.org/agpl"' in form
    assert "It allows no commercial use." in form


def test_fields_follow_the_types_of_the_parameters(serve, licensed) -> None:
    form = page(serve())
    assert '<select id="licensed--play"' in form
    assert "<option>stubborn</option>" in form
    assert re.search(r'id="licensed--rate" type="number"[^>]* step="any" min="0" max="1"', form)
    assert '<textarea id="sklearn-text--classifier_kwargs"' in form


def test_a_run_under_way_is_shown_with_its_step_and_can_be_cancelled(serve) -> None:
    served = serve()
    run, *waiting = past(served, a_run_and_a_queue)
    now = section(page(served), "now-heading")
    assert "fitting LogisticRegression" in now
    assert "1,200 of 3,000, about 1 min 35 s left" in now
    assert "3 torn annotation files were left out." in now
    assert f'data-cancel="{run.run_id}"' in now
    assert re.findall(r"waiting #\d", now) == ["waiting #1", "waiting #2", "waiting #3"]
    assert all(f'data-cancel="{each.run_id}"' in now for each in waiting)


def test_a_run_that_is_being_cancelled_offers_no_cancel(serve) -> None:
    served = serve()
    run = past(served, lambda registry: Past(registry).working())
    past(served, lambda registry: registry.request_cancel(run.run_id))
    now = section(page(served), "now-heading")
    assert "cancelling" in now
    assert f'data-cancel="{run.run_id}" hidden' in now


def test_a_run_on_offer_waits_for_an_agent(serve) -> None:
    served = serve()
    run = past(served, lambda registry: Past(registry).queue())
    past(served, lambda registry: registry.transition(run.run_id, 0, State.OFFERED))
    assert "waiting for an agent" in section(page(served), "now-heading")


def test_a_finished_run_is_in_the_table_and_nowhere_else(serve) -> None:
    served = serve()
    run = past(served, lambda registry: Past(registry).succeed(0.8))
    shown = page(served)
    assert run.run_id not in section(shown, "now-heading")
    row = text(section(shown, "runs-heading"))
    assert "success sklearn-text sentiment 126 / 28 / 26 0.800 0.720–0.870 val macro_f1 local · cpu" in row
    assert "val macro_f1, 95 % interval 0.720–0.870; 28 items; baseline 0.391" in html.unescape(shown)


def test_an_error_is_marked_as_better_when_lower_and_a_missing_interval_with_its_reason(serve) -> None:
    served = serve()
    headline = {"metric": "mae", "split": "test", "value": 0, "n_items": 1, "lower_is_better": True}
    headline |= {"low": None, "high": None, "interval_note": "fewer than 10 items", "baseline": 1}
    run = past(served, lambda registry: Past(registry).succeed(0.8))
    past(served, lambda registry: registry.update(run.run_id, 1, scores={"headline": headline}))
    shown = page(served)
    assert "0.000 test mae, lower is better local · cpu" in text(section(shown, "runs-heading"))
    sentence = "test mae; no 95 % interval: fewer than 10 items; 1 item; baseline 1.000; lower is better"
    assert sentence in html.unescape(shown)


def test_a_run_without_val_and_test_is_not_scored(serve) -> None:
    served = serve()

    def unscored(registry):
        run = Past(registry).begin()
        states = (State.RUNNING, State.EVALUATING, State.FINISHING, State.SUCCESS)
        Past(registry).move(run, *states, scores={"headline": None, "note": "not scored"})

    past(served, unscored)
    assert "not scored" in section(page(served), "runs-heading")


def test_a_failed_run_says_why_and_nothing_in_it_is_markup(serve) -> None:
    served = serve()
    past(served, lambda registry: Past(registry).fail())
    shown = page(served)
    assert "<b>every</b>" not in shown
    assert LONG_REASON in text(shown)


def test_a_reason_names_no_path_outside_the_project(serve) -> None:
    served = serve()
    past(served, lambda registry: Past(registry).fail("No such file: /home/ada/secret/model.bin"))
    assert "/home/ada/secret" not in page(served)


def test_runs_can_be_chosen_by_status_and_trainer(serve) -> None:
    served = serve()
    past(served, thirty_runs)
    failed = section(page(served, f"{PAGE}?status=error"), "runs-heading")
    assert failed.count("<tbody") == 1
    none = section(page(served, f"{PAGE}?trainer=other"), "runs-heading")
    assert "No run is like that." in none


def test_more_runs_than_are_shown_are_a_click_away(serve) -> None:
    served = serve()
    past(served, thirty_runs)
    assert "Show more runs" in page(served, f"{PAGE}?limit=10")
    assert "Show more runs" not in page(served)


def test_warnings_of_the_configuration_are_shown(serve) -> None:
    served = serve()
    served.app.state.context = replace(served.context, findings=("The time <is> long.",))
    shown = page(served)
    assert "1 warning of the configuration" in shown
    assert "The time &lt;is&gt; long." in shown


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        (Phase.STARTING, "The server is starting."),
        (Phase.RESTARTING, "The controller is being restarted."),
        (Phase.STOPPING, "The server is stopping."),
        (Phase.FAILED, "Runs cannot be started: Ray did not start. Look at its log."),
    ],
)
def test_a_controller_that_is_not_ready_is_told(serve, phase: Phase, said: str) -> None:
    served = serve()
    served.controller.phase = phase
    if phase is Phase.FAILED:
        served.controller.trouble = PotatoRayError("Ray did not start.", next_step="Look at its log.")
    assert said in text(page(served))


def test_half_a_character_in_a_metric_does_not_break_the_page(serve) -> None:
    served = serve()
    run = past(served, lambda registry: Past(registry).working())
    said = [{"event": "metric", "name": "train_\ud800", "value": 1.5}]
    past(served, lambda registry: registry.record_events(run.run_id, 1, 5, said))
    assert "1.500" in page(served)


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere(serve) -> None:
    served = serve()
    past(served, thirty_runs)
    shown = page(served)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)", shown)
    assert all(url.startswith("/") for url in re.findall(r'(?:src|href)="([^"#]+)"', shown))
