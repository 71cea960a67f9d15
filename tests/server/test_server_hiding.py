"""No answer names a path outside the project."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.hiding import hide_paths, hide_paths_but_installs

PROJECT = Path("/srv/my study")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("No such file: '/srv/my study/data/x y.csv'", "No such file: 'data/x y.csv'"),
        ("/srv/my study/data/a.json:12: bad", "data/a.json:12: bad"),
        ("/srv/my study//.potato_ray/lock.", ".potato_ray/lock."),
        ("file:///srv/my study/data/a.json", "data/a.json"),
        ("/srv/my study", "…/my study"),
        ("/srv/my study/ is full.", "…/my study/ is full."),
        ("/srv/my studying/x", "…/x"),
    ],
)
def test_a_path_in_the_project_is_named_from_its_folder(text, shown) -> None:
    assert hide_paths(text, PROJECT) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[Errno 2]: '/home/ann/my docs/x.csv'", "[Errno 2]: '…/x.csv'"),
        ('File "/usr/lib/python3/x.py", line 3', 'File "…/x.py", line 3'),
        ("/mnt/my disk/secret dir/file.txt is gone", "…/file.txt is gone"),
        ("Use /usr/bin/python3, not /usr/bin/python2.7.", "Use …/python3, not …/python2.7."),
        ("host:/home/ann/x", "host:…/x"),
        ("PATH=/usr/bin:/bin", "PATH=…/bin:…/bin"),
        ("file:///home/ann/x.bin", "…/x.bin"),
        ("//home/ann//x/", "…/x"),
        ("/home/ann,smith/private/x", "…/x"),
        ("(/tmp/x) `/etc/passwd`", "(…/x) `…/passwd`"),
        ("/admin/secret and /healthy/x", "…/secret and …/x"),
        ("/home/ann/static/x", "…/x"),
    ],
)
def test_any_other_path_is_named_by_its_last_part(text, shown) -> None:
    assert hide_paths(text, PROJECT) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/opt/v/bin/python -m pip install torch", "/opt/v/bin/python -m pip install torch"),
        ("On g: '/opt/a b/python' -m pip install x", "On g: '/opt/a b/python' -m pip install x"),
        (
            "/opt/python lacks x; or run: /opt/python -m pip install /home/ann/x.whl",
            "…/python lacks x; or run: /opt/python -m pip install …/x.whl",
        ),
        ("/home/ann/x and -m pip install y", "…/x and -m pip install y"),
        ("python3 -m pip install y", "python3 -m pip install y"),
    ],
)
def test_a_line_that_installs_names_its_interpreter_whole(text, shown) -> None:
    assert hide_paths_but_installs(text, PROJECT) == shown


@pytest.mark.parametrize(
    "text",
    [
        "Correct it; /openapi.json describes every route.",
        "GET /admin/training/api/trainers lists them.",
        "'/admin/training/runs/3', /admin/login, /api/training/agent.pyz, /health.",
        "See https://example.org/a/b?c=/d/e and s3://bucket/x.",
        "1/2, N/A, and/or, text/plain, ~/.cache/x, ../x, data/x.csv, …/x",
        "<b>bold</b> / nothing",
    ],
)
def test_addresses_and_relative_paths_stay(text) -> None:
    assert hide_paths(text, PROJECT) == text


def test_a_project_behind_a_link_is_known_by_both_its_paths(tmp_path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    text = f"{tmp_path}/link/a and {tmp_path.resolve()}/real/b"
    assert hide_paths(text, tmp_path / "link") == "a and b"


PART = st.text("abcé._-", min_size=1, max_size=6).filter(lambda part: part.strip("."))


@given(
    parts=st.lists(PART, min_size=2, max_size=5), before=st.sampled_from(["", "x: ", "'", "(", "a=", "é "])
)
def test_no_folder_of_a_foreign_path_is_left(parts, before) -> None:
    shown = hide_paths(before + "/" + "/".join(parts), PROJECT)
    assert shown == f"{before}…/{parts[-1]}"


@given(st.text("/a '\"\\.:,;=()…\n", max_size=60))
def test_hiding_twice_changes_nothing_more(text) -> None:
    once = hide_paths(text, PROJECT)
    assert hide_paths(once, PROJECT) == once


def processor_s(text: str) -> float:
    """The least of three times that hiding takes, of this thread alone."""
    took = []
    for _ in range(3):
        began = time.thread_time()
        hide_paths(text, PROJECT)
        took.append(time.thread_time() - began)
    return min(took)


UNITS = [
    "/",
    "/a",
    "/a b",
    "'/",
    "/a,",
    ":",
    "/a b/",
    "a:",
    "x",
    "a.",
    "-a",
    "a+",
    "file:/",
    "a://",
    "/health.",
    "`/'/",
]


@pytest.mark.parametrize("unit", [*UNITS, "/srv/my study", "/admin/training"])
def test_the_time_grows_no_faster_than_the_text(unit) -> None:
    text = unit * (100_000 // len(unit))
    # Eight times the text: a quadratic pattern would take 64 times as long.
    assert processor_s(text) < 24 * processor_s(text[: len(text) // 8]) + 0.05
