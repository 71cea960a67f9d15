"""From parameters to fields: what is shown of defaults, of the configuration, and of members."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from many_params import ManyParams

from potato_ray.server.form_fields import Field, fields_of
from potato_ray.server.param_schema import params_schema
from potato_ray.trainers.params import as_schema, check_params, complete


def fields(**configured: Any) -> dict[str, Field]:
    values = {**complete(ManyParams), **configured}
    params = [{**each, "configured": values[each["name"]]} for each in as_schema(ManyParams)]
    made = fields_of({"name": "m", "params": params, "configured": configured})
    return {each.name: each for field in made for each in (field, *field.members)}


@pytest.mark.parametrize(
    ("name", "control"),
    [
        ("model_name", "text"),
        ("epochs", "number"),
        ("lora", "group"),
        ("lora.r", "number"),
        ("lora.targets", "text"),
        ("lora.quantize", "menu"),
        ("lora.merge", "tick"),
        ("features", "ticks"),
        ("stops", "group"),
        ("extra", "json"),
    ],
)
def test_each_type_has_its_control(name: str, control: str) -> None:
    assert fields()[name].control == control


def test_a_field_says_what_holds_when_it_is_left_alone() -> None:
    shown = fields(learning_rate=0.5)
    assert shown["epochs"].note == "Default: 4. From 1 to 1000."
    assert shown["learning_rate"].note == "Configured: 0.5. From 0 to 1."
    assert (shown["head"].note, shown["head"].placeholder) == ("", "left out")
    assert shown["features"].note == "Default: morgan."
    assert shown["extra"].note == "Write it as JSON."


def test_only_what_has_a_value_and_may_be_null_can_be_left_out() -> None:
    shown = fields(learning_rate=0.5)
    assert [name for name, field in shown.items() if field.can_be_left_out] == ["learning_rate", "lora"]


def test_members_show_the_configured_mapping_and_else_their_defaults() -> None:
    shown = fields(lora={"r": 8, "targets": ["query", "value"]})
    assert (shown["lora"].ticked, shown["lora"].note) == (True, "Configured: on.")
    assert shown["lora"].given == '{"r": 8, "targets": ["query", "value"]}'
    r, alpha = shown["lora.r"], shown["lora.alpha"]
    assert (r.label, r.source, r.effective) == ("r", "Configured", "8")
    assert (alpha.source, alpha.effective) == ("Default", "32")
    assert shown["lora.targets"].effective == "query, value"
    assert shown["lora.r"].id == "m--lora--r"


@pytest.mark.parametrize(("configured", "on"), [(False, False), (True, True), ({}, True)])
def test_a_switch_stands_as_it_is_configured(configured: Any, on: bool) -> None:
    assert fields(lora=configured)["lora"].ticked is on


GIVEN: list[dict[str, Any]] = [
    {"lora": True},
    {"lora": {"r": 8, "targets": "query"}},
    {"lora": {"rank": 8}},
    {"lora": {"r": 0}},
    {"lora": "yes"},
    {"features": ["rdkit"]},
    {"features": ["rdkitt"]},
    {"features": []},
    {"stops": {"after": None}},
    {"learning_rate": None},
    {"epochs": None},
]


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_the_json_schema_takes_what_the_check_takes(given: dict[str, Any]) -> None:
    schema = params_schema(ManyParams)
    jsonschema.Draft202012Validator.check_schema(schema)
    found = list(jsonschema.Draft202012Validator(schema).iter_errors(given))
    assert bool(found) == bool(check_params(ManyParams, given))
