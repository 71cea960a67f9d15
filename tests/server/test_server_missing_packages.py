"""What a trainer lacks is told alike by list, page, refusal and worker, with the line that installs it."""

from __future__ import annotations

import sys

import pytest
from many_params import Absent

from potato_ray.errors import StartRefused
from potato_ray.hiding import hide_paths
from potato_ray.starting import StartRequest, plan_new_start
from potato_ray.trainers import registry
from potato_ray.trainers.base import TrainerError

API = "/admin/training/api"
LACKING = f"{sys.executable} lacks no-such-package."
INSTALL = f"{sys.executable} -m pip install no-such-package"
SAID = f"Trainer 'absent' could not be imported: {LACKING}"
LAB = {"lab": {"type": "ssh", "host": "gpu.example.org"}}


@pytest.fixture(autouse=True)
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._registered, Absent.name, Absent)


def test_the_list_of_trainers_tells_it(serve) -> None:
    trainers = serve().client.get(f"{API}/trainers").json()["trainers"]
    (told,) = (each for each in trainers if each["name"] == Absent.name)
    assert (told["available"], told["reason"], told["install_hint"]) == (False, LACKING, INSTALL)


def test_the_page_tells_it_and_begins_with_a_trainer_that_can_run(serve) -> None:
    shown = serve().client.get("/admin/training", headers={"Accept": "text/html"}).text
    assert f"absent cannot run on local: {LACKING}" in shown
    assert f'<pre class="command" id="install--absent">{INSTALL}</pre>' in shown
    assert '<option value="absent">absent (not installed here)</option>' in shown
    assert '<option value="sklearn-text" selected>' in shown


def test_a_start_on_local_is_refused_with_it(serve) -> None:
    served = serve(backends=LAB)
    body = {"trainer": Absent.name, "schemas": ["sentiment"]}
    answer = served.client.post(f"{API}/runs", json=body)
    assert (answer.status_code, answer.json()["error_code"]) == (409, "missing_dependency")
    assert answer.json()["error"] == hide_paths(SAID, served.config.task_dir)
    assert answer.json()["next_step"] == INSTALL
    elsewhere = served.client.post(f"{API}/runs", json={**body, "backend": "lab"})
    assert elsewhere.json()["started"]


def test_a_start_whose_parameters_ask_for_a_package_is_refused_with_its_line(
    serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_is_installed", lambda module: module != "sentence_transformers")
    body = {"trainer": "sklearn-text", "schemas": ["sentiment"]}
    embedded = {**body, "params": {"vectorizer": "sentence-transformers"}}
    answer = serve().client.post(f"{API}/runs", json=embedded)
    assert (answer.status_code, answer.json()["error_code"]) == (409, "missing_dependency")
    assert answer.json()["next_step"].endswith("pip install scikit-learn skops sentence-transformers")


def test_a_start_elsewhere_is_refused_where_the_server_lacks_what_groups_its_items(
    serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_is_installed", lambda module: module != "rdkit")
    start = {
        "trainer": "rdkit-property",
        "schemas": ["sentiment"],
        "backend": "lab",
        "params": {"split": "scaffold"},
    }
    served = serve(backends=LAB)
    answer = served.client.post(f"{API}/runs", json=start)
    assert (answer.status_code, answer.json()["error_code"]) == (409, "missing_dependency")
    assert "Items cannot be split by scaffold here" in answer.json()["error"]
    assert answer.json()["next_step"] == f"{sys.executable} -m pip install rdkit"
    assert served.client.post(f"{API}/runs", json={**start, "params": {}}).json()["started"]


def test_the_command_is_refused_with_it(serve) -> None:
    with pytest.raises(StartRefused) as refused:
        plan_new_start(serve().config, StartRequest(Absent.name, ("sentiment",)))
    assert (refused.value.code, refused.value.message, refused.value.next_step) == (
        "missing_dependency",
        SAID,
        INSTALL,
    )


def test_a_worker_says_on_which_machine() -> None:
    with pytest.raises(TrainerError) as raised:
        registry.require_packages(Absent, "gpu1")
    assert raised.value.message == SAID.replace(" lacks", " on gpu1 lacks")
    assert raised.value.next_step == INSTALL
