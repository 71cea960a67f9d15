from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from potato_ray.errors import StartRefused
from potato_ray.project.schemes import KIND_OF_TYPE, scheme_named, schemes_of
from potato_ray.trainers import kinds

PROJECTS = Path(__file__).parents[1] / "projects"


def scheme(**options):
    return schemes_of([{"name": "s", "description": "d", **options}])[0]


@pytest.mark.parametrize(
    ("types", "kind"),
    [
        ("radio select triage pairwise", kinds.NOMINAL),
        ("likert confidence", kinds.ORDINAL),
        ("slider number vas", kinds.CONTINUOUS),
        ("multiselect hierarchical_multiselect", kinds.MULTILABEL),
        ("span error_span extractive_qa", kinds.SPAN),
        ("text textbox text_edit", kinds.TEXT),
        ("image_annotation microscopy geo_annotation", kinds.GEOMETRY),
        ("ranking bws", kinds.RANKING),
    ],
)
def test_every_type_of_the_metric_table_has_its_kind(types, kind):
    for annotation_type in types.split():
        assert scheme(annotation_type=annotation_type).kind == kind


def test_the_kinds_cover_nothing_but_known_kinds():
    assert set(KIND_OF_TYPE.values()) == set(kinds.ALL)


def test_an_unknown_type_has_no_kind_and_says_why():
    video = scheme(annotation_type="video_annotation")
    assert video.kind is None
    assert "'video_annotation'" in video.why_not


def test_labels_may_be_texts_or_mappings_and_keep_their_order():
    labels = ["z", {"name": "a / b", "tooltip": "t"}, {"name": "ça va"}, 3]
    assert scheme(annotation_type="radio", labels=labels).labels == ("z", "a / b", "ça va", "3")


def test_a_likert_size_becomes_digits_and_its_own_labels_win():
    assert scheme(annotation_type="likert", size=4).labels == ("1", "2", "3", "4")
    assert scheme(annotation_type="likert", size=4, labels=["no", "yes"]).labels == ("no", "yes")


@pytest.mark.parametrize("size", [0, -1, "5", True, None, 10**9])
def test_a_likert_size_that_is_no_count_gives_no_labels(size):
    assert scheme(annotation_type="likert", size=size).labels == ()


def test_binary_pairwise_keeps_the_letters_that_potato_stores():
    shown = {"annotation_type": "pairwise", "labels": ["Review A", "Review B"]}
    assert scheme(**shown, allow_tie=True).labels == ("A", "B", "tie")
    assert scheme(**shown).labels == ("A", "B")


def test_pairwise_in_mode_scale_is_continuous_and_in_an_unknown_mode_nothing():
    assert scheme(annotation_type="pairwise", mode="scale").kind == kinds.CONTINUOUS
    other = scheme(annotation_type="pairwise", mode="multi")
    assert other.kind is None
    assert "'multi'" in other.why_not


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(StartRefused) as refused:
        scheme_named(schemes_of([{"name": "sentiment", "annotation_type": "radio"}]), "sentimnt")
    assert refused.value.code == "unknown_schema"
    assert "'sentiment'?" in refused.value.next_step


def test_potatos_own_project_has_a_kind_for_each_of_its_schemes():
    config = yaml.safe_load((PROJECTS / "multi-scheme" / "config.yaml").read_text("utf-8"))
    found = {each.name: each.kind for each in schemes_of(config["annotation_schemes"])}
    assert found["trust"] == kinds.ORDINAL
    assert found["evidence"] == kinds.SPAN
    assert None not in found.values()
