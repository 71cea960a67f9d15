from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from potato_ray.errors import Cancelled
from potato_ray.project.annotations import read_answers
from potato_ray.project.items import index_items
from potato_ray.project.paths import ProjectPaths
from potato_ray.project.schemes import KIND_OF_TYPE, scheme_named, schemes_of
from potato_ray.project.user_state import FILE_NAME, StateUnreadable, read_user_state

PROJECTS = Path(__file__).parents[1] / "projects"


def scheme(annotation_type="radio", name="mood", **options):
    return schemes_of([{"annotation_type": annotation_type, "name": name, **options}])[0]


MOOD = scheme(labels=["good", "bad"])
TOPICS = scheme("multiselect", "topics", labels=["b", "a", "c"])


def read(paths, what, **options):
    return read_answers(paths, what, index_items(paths).positions, **options)


def rows(reading):
    return list(reading.table.rows())


def potato(project, scheme_name):
    folder = PROJECTS / project
    config = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
    keys = config["item_properties"]
    data = tuple(folder / path for path in config["data_files"])
    paths = ProjectPaths(folder, data, folder / "annotation_output", keys["id_key"], keys["text_key"])
    return read(paths, scheme_named(schemes_of(config["annotation_schemes"]), scheme_name))


@pytest.mark.parametrize(
    ("project", "name", "n_answers", "first"),
    [
        ("review-sentiment", "sentiment", 290, "positive"),
        ("multi-scheme", "tone", 19, "ça va"),
        ("multi-scheme", "topics", 17, ["delivery", "price", "quality", "service"]),
        ("multi-scheme", "quality", 17, "2"),
        ("multi-scheme", "trust", 17, "yes indeed"),
        ("multi-scheme", "summary", 17, 'says "it works", mostly'),
        ("multi-scheme", "strength", 17, 48.0),
        ("multi-scheme", "stars", 17, 1.0),
        ("multi-scheme", "channel", 17, "internal"),
        ("multi-scheme", "order", 1, ["price", "speed", "comfort"]),
        ("multi-scheme", "evidence", 17, [{"start": 6, "end": 18, "label": "praise"}]),
        ("pairs", "helpful", 11, "B"),
        ("pairs", "margin", 11, 0.0),
        ("shapes", "busy", 8, "not busy"),
    ],
)
def test_what_potato_wrote_is_read_for_every_type(project, name, n_answers, first):
    reading = potato(project, name)
    assert (reading.table.n_answers, rows(reading)[0][2]) == (n_answers, first)
    assert reading.warnings == ()


def test_the_shapes_of_a_picture_keep_label_and_coordinates_alone():
    shapes = rows(potato("shapes", "objects"))[0][2]
    assert {shape["type"] for shape in shapes} == {"bbox", "polygon", "landmark"}
    assert all(shape.keys() == {"type", "label", "coordinates"} for shape in shapes)


def test_answers_are_sorted_by_item_then_annotator(make_project, state):
    good, bad = [("mood", "good", "good")], [("mood", "bad", "bad")]
    paths = make_project({"z": state("ann", i5=good, i1=bad), "a": state("zoe", i1=good)})
    table = read(paths, MOOD).table
    assert list(table.rows()) == [("i1", "zoe", "good"), ("i1", "ann", "bad"), ("i5", "ann", "good")]
    assert (table.items, table.annotators) == (["i1", "i5"], ["zoe", "ann"])


def test_the_older_encoding_means_the_same(make_project):
    old = {"i1": {"mood": {"good": "good"}}, "i2": {"mood": {"bad": True, "good": False}}}
    paths = make_project({"a": {"user_id": "a", "instance_id_to_label_to_value": old}})
    assert rows(read(paths, MOOD)) == [("i1", "a", "good"), ("i2", "a", "bad")]


def test_two_answers_of_one_annotator_to_a_radio_are_dropped_and_counted(make_project, state):
    paths = make_project({"a": state("a", i1=[("mood", "good", "good"), ("mood", "bad", "bad")])})
    reading = read(paths, MOOD)
    assert (rows(reading), reading.stats["n_double_answers"]) == ([], 1)
    assert reading.answered == {"i1"}
    assert "several for the same item" in reading.warnings[0]


@pytest.mark.parametrize(
    ("what", "label"),
    [
        (scheme(labels=["good", "bad"], has_free_response=True), "good"),
        (scheme("multiselect", labels=["good", "bad"], has_free_response={"instructions": "Why?"}), ["good"]),
        (scheme("likert", size=5, has_free_response=True), "3"),
    ],
)
def test_a_remark_beside_the_labels_is_no_part_of_the_answer(make_project, state, what, label):
    name = label if isinstance(label, str) else label[0]
    remark = ("mood", "free_response", "because I say so")
    reading = read(make_project({"a": state("a", i1=[("mood", name, name), remark], i2=[remark])}), what)
    assert rows(reading) == [("i1", "a", label)]
    assert reading.answered == {"i1"}
    assert not reading.warnings


@pytest.mark.parametrize("options", [{}, {"has_free_response": True, "labels": ["good", "free_response"]}])
def test_an_answer_named_like_the_remark_counts_where_there_is_no_such_box_or_such_a_label(
    make_project, state, options
):
    what = scheme(**{"labels": ["good", "bad"], **options})
    entries = [("mood", "good", "good"), ("mood", "free_response", "free_response")]
    reading = read(make_project({"a": state("a", i1=entries)}), what)
    assert (rows(reading), reading.answered) == ([], {"i1"})


@pytest.mark.parametrize(
    "section", ["instance_id_to_span_to_value", "instance_id_to_behavioral_data", "origin", "anything"]
)
def test_a_section_that_is_null_is_empty(make_project, state, section):
    after = state("ann", {section: None}, i1=[("mood", "good", "good")])
    before = {section: None, **state("bob", i1=[("mood", "good", "good")])}
    reading = read(make_project({"ann": after, "bob": before}), MOOD)
    assert rows(reading) == [("i1", "ann", "good"), ("i1", "bob", "good")]
    assert not reading.warnings


def test_an_annotator_whose_labels_are_null_has_none(make_project):
    reading = read(make_project({"ann": {"user_id": "ann", "instance_id_to_label_to_value": None}}), MOOD)
    assert (rows(reading), reading.stats["n_annotators"], reading.warnings) == ([], 1, ())


def test_a_machine_annotator_is_left_out_and_counted(make_project, state):
    robot = state("robot", {"origin": {"model": "x"}}, i1=[("mood", "good", "good")])
    reading = read(make_project({"robot": robot}), MOOD)
    assert (rows(reading), reading.stats["n_machine_annotators"]) == ([], 1)


def test_a_seeded_answer_is_kept_and_counted(make_project, state):
    seeds = {"instance_id_to_behavioral_data": {"i1": {"pre_annotation_seeds": {"mood": {"label": "good"}}}}}
    entries = [("mood", "good", "good")]
    reading = read(make_project({"a": state("a", seeds, i1=entries, i2=entries)}), MOOD)
    assert (reading.table.n_answers, reading.stats["n_seeded_answers"]) == (2, 1)
    assert reading.seeded == {"i1"}


@pytest.mark.parametrize(
    "torn",
    [
        '{"user_id": "x", "instance_id_to_label_to_value": {"i1": [[{"sch',
        "",
        "[]",
        "null",
        '{"something": "else"}',
        '{"instance_id_to_label_to_value": []}',
        '{"instance_id_to_label_to_value": {}} more',
        "\ud800".encode("utf-8", "surrogatepass"),
    ],
)
def test_a_torn_or_foreign_file_is_named_left_alone_and_the_rest_goes_on(make_project, state, torn):
    paths = make_project({"good": state("good", i1=[("mood", "good", "good")]), "torn": ""})
    file = paths.output_dir / "torn" / FILE_NAME
    file.write_bytes(torn if isinstance(torn, bytes) else torn.encode())
    before = (file.read_bytes(), file.stat().st_mtime_ns)
    reading = read(paths, MOOD)
    assert rows(reading) == [("i1", "good", "good")]
    assert "annotation_output/torn/user_state.json (annotator 'torn')" in reading.warnings[0]
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_a_copied_folder_does_not_vote_twice(make_project, state):
    same = state("ann", i1=[("mood", "good", "good")])
    reading = read(make_project({"ann": same, "ann backup": same}), MOOD)
    assert reading.table.n_answers == 1
    assert "'ann backup'" not in reading.warnings[0]
    assert "ann backup/user_state.json was left out" in reading.warnings[0]


def test_folders_without_a_state_are_no_annotators(make_project):
    paths = make_project({})
    (paths.output_dir / "pocket").mkdir(parents=True)
    (paths.output_dir / "potato.log").write_text("x")
    assert read(paths, MOOD).stats["n_annotators"] == 0


def test_a_file_that_vanishes_while_it_is_replaced_is_read_again(make_project, state, monkeypatch):
    paths = make_project({"a": state("a", i1=[("mood", "good", "good")])})
    opened = []
    real = Path.open

    def vanishing(self, *args, **kwargs):
        if self.name == FILE_NAME and not opened:
            opened.append(self)
            raise FileNotFoundError(2, "No such file or directory")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", vanishing)
    assert read(paths, MOOD).table.n_answers == 1


def test_a_file_that_is_written_while_it_is_read_is_read_again(make_project, state):
    labels = {f"i{number}": [("mood", "good", "good")] for number in range(1, 6)}
    paths = make_project({"a": state("a", **labels)})
    file = paths.output_dir / "a" / FILE_NAME
    changed = file.read_text("utf-8").replace("good", "bad")

    def write_once():
        if "good" in file.read_text("utf-8"):
            file.write_text(changed, "utf-8")

    stored = read_user_state(file.parent, "mood", write_once)
    assert {entry.value for entries in stored.entries.values() for entry in entries} == {"bad"}


def test_a_file_that_never_rests_is_left_out(make_project, state):
    paths = make_project({"a": state("a", i1=[("mood", "good", "good")])})
    file = paths.output_dir / "a" / FILE_NAME

    def write_on():
        file.write_text(file.read_text("utf-8") + " ", "utf-8")

    with pytest.raises(StateUnreadable, match="went on being written"):
        read_user_state(file.parent, "mood", write_on)


def test_a_renamed_label_is_counted_and_named(make_project, state):
    paths = make_project({"a": state("a", i1=[("mood", "great", "great")], i2=[("mood", "bad", "bad")])})
    reading = read(paths, MOOD)
    assert rows(reading) == [("i2", "a", "bad")]
    assert reading.stats["n_unknown_label_answers"] == 1
    assert "'great' (1)" in reading.warnings[0]


def test_a_renamed_scheme_is_named_with_its_count(make_project, state):
    paths = make_project({"a": state("a", i1=[("feeling", "good", "good")])})
    reading = read(paths, MOOD, known_schemes=["mood"])
    assert "'feeling' (1)" in reading.warnings[0]
    assert reading.stats["answers_by_scheme"] == {"feeling": 1}


def test_answers_to_items_that_left_the_data_are_counted_and_named(make_project, state):
    paths = make_project({"a": state("a", gone=[("mood", "good", "good")])})
    reading = read(paths, MOOD)
    assert reading.stats["n_answers_without_item"] == 1
    assert "'gone'" in reading.warnings[0]


def test_ticking_nothing_is_an_answer_of_an_annotator_who_uses_the_scheme(make_project, state):
    other = [("mood", "good", "good")]
    user = state("user", i1=[*other, ("topics", "c", "c"), ("topics", "b", "b")], i2=other, i3=[])
    stranger = state("stranger", i2=other)
    reading = read(make_project({"user": user, "stranger": stranger}), TOPICS)
    assert rows(reading) == [("i1", "user", ["b", "c"]), ("i2", "user", [])]
    assert reading.table.labels == ["b", "c"]
    assert reading.stats["n_empty_answers"] == 1


def test_ticking_nothing_is_no_answer_where_the_scheme_is_required(make_project, state):
    required = scheme("multiselect", "topics", labels=["a"], label_requirement={"required": True})
    user = state("u", i1=[("mood", "good", "good"), ("topics", "a", "a")], i2=[("mood", "good", "good")])
    assert rows(read(make_project({"u": user}), required)) == [("i1", "u", ["a"])]


def test_a_tick_on_a_lost_label_leaves_the_whole_answer_out(make_project, state):
    user = state("u", i1=[("topics", "a", "a"), ("topics", "old", "old")])
    reading = read(make_project({"u": user}), TOPICS)
    assert (rows(reading), reading.stats["n_unknown_label_answers"]) == ([], 1)


@pytest.mark.parametrize("value", ["much", "nan", "inf", "", None, True, [], "1,5"])
def test_a_value_that_is_no_number_is_no_answer(make_project, state, value):
    reading = read(make_project({"u": state("u", i1=[("mood", "slider", value)])}), scheme("slider"))
    assert rows(reading) == []
    assert reading.stats["n_bad_value_answers"] == (0 if value in ("", None) else 1)


@pytest.mark.parametrize(("value", "point"), [("3", "3"), (3, "3"), (3.0, "3")])
def test_a_point_of_a_scale_may_be_stored_as_text_or_number(make_project, state, value, point):
    reading = read(make_project({"u": state("u", i1=[("mood", "point", value)])}), scheme("likert", size=5))
    assert rows(reading) == [("i1", "u", point)]
    assert reading.table.labels == ["1", "2", "3", "4", "5"]


def test_a_ranking_of_labels_with_commas_is_read(make_project, state):
    ranking = scheme("ranking", labels=["a, b", "c", "d"])
    user = state("u", i1=[("mood", "rank_order", "c,a, b,d")], i2=[("mood", "rank_order", "c,c,d")])
    reading = read(make_project({"u": user}), ranking)
    assert rows(reading) == [("i1", "u", ["c", "a, b", "d"])]


def spans(*found):
    return [[{"schema": "mood", "name": label, "start": start, "end": end}, 1] for start, end, label in found]


def test_spans_lie_in_the_raw_text(make_project):
    items = [{"id": "i1", "text": "  leading   spaces\nand a newline, great service"}]
    state = {"user_id": "u", "instance_id_to_span_to_value": {"i1": spans((36, 43, "good"), (0, 7, "bad"))}}
    found = rows(read(make_project({"u": state}, items), scheme("span", labels=["good", "bad"])))
    assert found[0][2] == [
        {"start": 2, "end": 9, "label": "bad"},
        {"start": 40, "end": 47, "label": "good"},
    ]


@pytest.mark.parametrize("span", [(0, 999, "good"), (3, 3, "good"), (-1, 2, "good")])
def test_a_span_outside_of_the_text_is_rejected_and_counted(make_project, span):
    state = {"user_id": "u", "instance_id_to_span_to_value": {"i1": spans(span)}}
    reading = read(make_project({"u": state}), scheme("span", labels=["good"]))
    assert (rows(reading), reading.stats["n_rejected_span_answers"]) == ([], 1)


def test_reading_stops_when_asked(make_project, state):
    paths = make_project({"a": state("a"), "b": state("b")})
    with pytest.raises(Cancelled):
        read(paths, MOOD, should_stop=lambda: True)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["good", "[1]"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["schema", "name", "start", "end", "type", "label", "coordinates", "mood", "i1"]),
            inner,
        )
    ),
    max_leaves=12,
)
entries = st.lists(
    st.tuples(
        st.fixed_dictionaries({"schema": st.just("mood"), "name": anything, "start": anything}), anything
    )
)
states = anything | st.fixed_dictionaries(
    {},
    optional={
        "user_id": anything,
        "origin": anything,
        "instance_id_to_label_to_value": anything | st.fixed_dictionaries({"i1": anything | entries}),
        "instance_id_to_span_to_value": anything | st.fixed_dictionaries({"i1": anything | entries}),
        "instance_id_to_behavioral_data": anything,
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(
    state=states,
    annotation_type=st.sampled_from(sorted(KIND_OF_TYPE)),
    labels=st.sampled_from([["good"], []]),
)
def test_whatever_a_state_holds_reading_goes_on(tmp_path, state, annotation_type, labels):
    data = tmp_path / "items.json"
    data.write_text('[{"id": "i1", "text": "some good text"}]')
    folder = tmp_path / "annotation_output" / "a"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE_NAME).write_text(json.dumps(state))
    reading = read(ProjectPaths(tmp_path, (data,), folder.parent), scheme(annotation_type, labels=labels))
    assert reading.table.n_answers <= 1
    json.dumps([target for _, _, target in reading.table.rows()], allow_nan=False).encode()
