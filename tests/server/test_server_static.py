"""The files of the pages, and the ways that lead to the Training page."""

from __future__ import annotations

import pytest


def test_a_browser_that_has_the_style_is_not_sent_it_again(serve) -> None:
    served = serve()
    first = served.anonymous.get("/static/style.css")
    assert first.headers["content-type"].startswith("text/css")
    assert first.headers["cache-control"] == "no-cache"
    again = served.anonymous.get("/static/style.css", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304


def test_no_file_outside_the_folder_is_served(serve) -> None:
    assert serve().anonymous.get("/static/..%2Fapp.py").status_code == 404


def test_what_files_do_not_take_is_refused_with_what_they_take(serve) -> None:
    answer = serve().anonymous.post("/static/style.css")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert answer.json()["evidence"] == "It takes GET, HEAD."


def test_the_icon_is_where_browsers_look_for_it(serve) -> None:
    answer = serve().anonymous.get("/favicon.ico")
    assert answer.headers["content-type"] == "image/svg+xml"


@pytest.mark.parametrize("path", ["/", "/admin"])
def test_short_addresses_lead_to_the_training_page(serve, path: str) -> None:
    answer = serve().client.get(path, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (302, "/admin/training")
