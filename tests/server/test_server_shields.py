"""Every answer carries the headers that keep browsers safe."""

from __future__ import annotations

import pytest
from fastapi import APIRouter
from starlette.responses import HTMLResponse, StreamingResponse

from potato_ray.server.shields import CONTENT_SECURITY_POLICY, FILE_POLICY, HEADERS

ROUTES = APIRouter()


@ROUTES.get("/broken")
def broken() -> None:
    raise RuntimeError("/home/ann/secret.txt")


@ROUTES.get("/stream")
def stream() -> StreamingResponse:
    return StreamingResponse(iter([b"a", b"b"]), headers={"Cache-Control": "max-age=60"})


@ROUTES.get("/strict")
def strict() -> HTMLResponse:
    return HTMLResponse("", headers={"Content-Security-Policy": "sandbox"})


@ROUTES.get("/picture")
def picture() -> HTMLResponse:
    return HTMLResponse("", headers={"Content-Security-Policy": FILE_POLICY})


@pytest.fixture
def client(serve):
    served = serve()
    served.app.include_router(ROUTES)
    return served.client


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/health", 200),
        ("/openapi.json", 200),
        ("/nowhere", 404),
        ("/broken", 500),
        ("/stream", 200),
        ("/admin/login", 200),
        ("/admin/training", 200),
        ("/admin/training/api/nowhere", 404),
        ("/static/style.css", 200),
        ("/static/none.css", 404),
        ("/admin", 302),
    ],
)
def test_every_answer_carries_every_header(client, path, status) -> None:
    answer = client.get(path, follow_redirects=False)
    assert answer.status_code == status
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    kept = path == "/static/style.css"
    assert answer.headers["cache-control"] == ("no-cache" if kept else "no-store")


def test_refusals_carry_them_too(client) -> None:
    refusals = [
        client.post("/admin/training/api/runs", headers={"Origin": "null"}),
        client.get("/admin/training/api/runs", headers={"X-API-Key": "wrong"}),
        client.post("/admin/training/api/runs", content=b"x" * 2_000_000),
        client.get("/health", headers={"Host": "a b"}),
    ]
    assert [answer.status_code for answer in refusals] == [403, 403, 413, 400]
    assert {answer.headers["content-security-policy"] for answer in refusals} == {CONTENT_SECURITY_POLICY}


def test_a_file_of_the_pages_is_kept_and_asked_for_again(client) -> None:
    first = client.get("/static/style.css")
    again = client.get("/static/style.css", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.headers["cache-control"] == "no-cache"


def test_a_route_can_only_be_stricter(client) -> None:
    assert client.get("/strict").headers.get_list("content-security-policy") == [
        "sandbox",
        CONTENT_SECURITY_POLICY,
    ]


def test_a_picture_keeps_the_style_that_it_brings(client) -> None:
    # Firefox applies the policy of a picture's own answer to the style sheet inside it.
    answer = client.get("/picture")
    assert answer.headers.get_list("content-security-policy") == [FILE_POLICY]
    assert answer.headers["x-frame-options"] == "DENY"


def test_an_unexpected_error_tells_neither_trace_nor_path(client) -> None:
    answer = client.get("/broken")
    assert answer.json()["error_code"] == "unexpected"
    assert "Traceback" not in answer.text
    assert "ann" not in answer.text
