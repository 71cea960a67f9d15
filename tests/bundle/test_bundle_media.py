from __future__ import annotations

import pytest

from potato_ray.bundle.media import MediaLinks, is_media
from potato_ray.project.items import Item
from potato_ray.project.paths import ProjectPaths


@pytest.fixture
def links(tmp_path):
    project = tmp_path / "project"
    for name in ("media/a.png", "media/sub/a.png", "data/b.png", "c d.png"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_bytes(name.encode())
    (tmp_path / "secret.png").write_bytes(b"secret")
    paths = ProjectPaths(
        project, (project / "data" / "items.json",), project / "out", media_directory=project / "media"
    )
    return MediaLinks(paths, tmp_path / "bundle" / "media")


def item(reference):
    return Item("i", reference, (), False, {}, 0, 1)


@pytest.mark.parametrize(
    ("reference", "content"),
    [
        ("/media/a.png", "media/a.png"),
        ("a.png", "media/a.png"),
        ("media/sub/a.png", "media/sub/a.png"),
        ("b.png", "data/b.png"),
        ("data/b.png", "data/b.png"),
        ("c%20d.png", "c d.png"),
    ],
)
def test_a_picture_is_found_where_potato_looks_and_beside_the_data(links, tmp_path, reference, content):
    name = links.link(item(reference))
    assert (tmp_path / "bundle" / "media" / name).read_bytes().decode() == content


def test_an_absolute_path_inside_of_the_project_is_found(links, tmp_path):
    assert links.link(item(str(tmp_path / "project" / "media" / "a.png"))) is not None


@pytest.mark.parametrize(
    "reference",
    ["../secret.png", "/etc/hostname", "https://example.org/a.png", "none.png", "", "a\0b.png", "media"],
)
def test_what_leads_out_or_is_not_there_counts_as_missing(links, reference):
    assert links.link(item(reference)) is None
    assert (links.n_linked, links.n_missing) == (0, 1)


def test_a_link_that_leads_out_of_the_project_is_not_followed(links, tmp_path):
    (tmp_path / "project" / "media" / "out.png").symlink_to(tmp_path / "secret.png")
    assert links.link(item("out.png")) is None


def test_two_pictures_of_one_name_keep_two_links_and_one_picture_one(links):
    first, second, again = (links.link(item(name)) for name in ("a.png", "sub/a.png", "a.png"))
    assert first == again != second


@pytest.mark.parametrize("text", ["/media/shape1.png", "a.JPEG", "slides/one.svs", "x.tif"])
def test_a_file_name_is_no_text_to_read(text):
    assert is_media(text)


@pytest.mark.parametrize("text", ["", "I like a.png", "great picture", "a.pdf", "x" * 2000 + ".png"])
def test_a_text_is_no_file_name(text):
    assert not is_media(text)
