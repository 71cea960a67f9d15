"""Trainers, schemes and backends over HTTP, and the check of a backend."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import jsonschema
import pytest
from training_libraries import NUMERICAL

from potato_ray.backends.base import Check, CheckReport
from potato_ray.server.backend_checks import BackendChecks
from potato_ray.server.routes import catalogue
from potato_ray.trainers import registry
from potato_ray.trainers.registry import BrokenTrainer

API = "/admin/training/api"
SSH = {"type": "ssh", "host": "gpu.example.org", "description": "two A100"}


def get(served: Any, what: str) -> list[dict[str, Any]]:
    return served.client.get(f"{API}/{what}").json()[what]


def test_a_trainer_comes_with_its_parameters_and_what_is_configured(serve) -> None:
    served = serve(trainer_params={"sklearn-text": {"min_instances": 30}})
    (trainer,) = (each for each in get(served, "trainers") if each["name"] == "sklearn-text")
    assert (trainer["available"], trainer["reason"]) == (True, "")
    assert "nominal" in trainer["kinds"]
    assert trainer["modalities"] == ["text"]
    assert trainer["configured"] == {"min_instances": 30}
    assert trainer["defaults"]["min_instances"] == 10
    params = {param["name"]: param for param in trainer["params"]}
    assert (params["min_instances"]["default"], params["min_instances"]["configured"]) == (10, 30)


def test_the_schema_of_a_trainers_parameters_takes_its_defaults_and_nothing_unknown(serve) -> None:
    for trainer in get(serve(), "trainers"):
        schema = trainer["params_schema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(trainer["defaults"], schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"no_such_parameter": 1}, schema)


def test_a_trainer_that_cannot_be_imported_is_named_with_the_reason(serve, monkeypatch) -> None:
    broken = BrokenTrainer("mine", "Trainer 'mine' could not be imported: no /usr/lib/python3/thing.so")
    monkeypatch.setattr(registry, "broken_trainers", lambda: [broken])
    (told,) = serve().client.get(f"{API}/trainers").json()["broken"]
    assert told["name"] == "mine"
    assert "thing.so" in told["reason"]
    assert "/usr/lib" not in told["reason"]


def test_listing_trainers_imports_none_of_their_packages() -> None:
    code = (
        "import sys; from potato_ray.server.routes import catalogue;"
        "from types import SimpleNamespace as N;"
        "from potato_ray.server.catalogue import trainers_body;"
        "trainers_body(N(model_training=N(trainer_params={})));"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert (NUMERICAL | {"ray"}) & set(done.stdout.split()) == set()


def test_a_scheme_comes_with_the_trainers_that_fit(serve) -> None:
    (schema,) = (each for each in get(serve(), "schemas") if each["name"] == "sentiment")
    assert schema["kind"] == "nominal"
    assert schema["labels"]
    assert "sklearn-text" in schema["trainers"]
    assert schema["why_not"] == ""


def test_a_scheme_that_nobody_can_learn_says_why(serve) -> None:
    for schema in get(serve("shapes"), "schemas"):
        assert bool(schema["trainers"]) != bool(schema["why_not"])


def test_a_scheme_comes_with_its_description(serve) -> None:
    served = serve()
    (scheme,) = served.config.annotation_schemes
    (told,) = get(served, "schemas")
    assert told["description"] == scheme["description"]


def test_backends_are_listed_with_their_line_in_the_menu(serve) -> None:
    local, gpu = get(serve(backends={"gpu-server": SSH}), "backends")
    assert (local["name"], local["default"], local["runnable"]) == ("local", True, True)
    assert (gpu["type"], gpu["host"], gpu["default"]) == ("ssh", "gpu.example.org", False)
    assert gpu["text"] == "gpu-server (ssh to gpu.example.org): two A100"
    assert gpu["runnable"] != bool(gpu["why_not"])


def test_a_check_answers_the_report(serve, monkeypatch) -> None:
    report = CheckReport("local", "local", "local: this machine", (Check("python", True, "Python 3.11"),), {})
    monkeypatch.setattr(catalogue, "make_backend", lambda name, config: Fake(lambda: report))
    body = serve().client.post(f"{API}/backends/local/check").json()
    assert (body["ok"], body["summary"]) == (True, "local: this machine")
    assert body["checks"] == [
        {"name": "python", "ok": True, "message": "Python 3.11", "next_step": "", "is_note": False}
    ]


def test_the_check_of_an_unknown_backend_is_answered_with_404(serve) -> None:
    answer = serve().client.post(f"{API}/backends/moon/check")
    assert answer.status_code == 404
    assert "The backends are local" in answer.json()["evidence"]


def test_a_check_that_hangs_is_answered_with_what_to_do(serve, monkeypatch) -> None:
    hanging = threading.Event()
    monkeypatch.setattr(catalogue, "make_backend", lambda name, config: Fake(lambda: hanging.wait(20)))
    served = serve()
    served.app.state.backend_checks = BackendChecks(deadline_s=0.05)
    body = served.client.post(f"{API}/backends/local/check").json()
    hanging.set()
    assert body["ok"] is False
    assert "has not ended within" in body["checks"][0]["message"]


def test_a_check_that_breaks_is_answered_as_an_error(serve, monkeypatch) -> None:
    def broken() -> CheckReport:
        raise OSError("no such thing")

    monkeypatch.setattr(catalogue, "make_backend", lambda name, config: Fake(broken))
    answer = serve().client.post(f"{API}/backends/local/check")
    assert (answer.status_code, answer.json()["error_code"]) == (500, "unexpected")


class Fake:
    """A backend that only checks."""

    type = "local"

    def __init__(self, check: Any) -> None:
        self.check = check
