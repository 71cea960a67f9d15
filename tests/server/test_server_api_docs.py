"""docs/api.md names every route, operation and code, and each of its examples does what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from run_history import begin, succeed, wait

from potato_ray.server.answers import StartBody
from potato_ray.server.openapi import DESCRIPTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text("utf-8")
ADDRESS = "http://127.0.0.1:8000"
EXAMPLES = re.findall(r"^```sh\n(.*?)^```\n(?:\n```json\n(.*?)^```\n)?", PAGE, re.MULTILINE | re.DOTALL)
ROWS = re.findall(r"^\| `([A-Z]+) (/\S+)` \| `(\w+)` \| .* \| ([\d, ]*)\|$", PAGE, re.MULTILINE)


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """The application on a free port of this machine; its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, ws="none", lifespan="off", log_config=None))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()


def run(commands: str, address: str, **variables: str) -> list[str]:
    """What each command of an example prints."""
    environment = {"PATH": os.environ["PATH"], **variables}
    printed = []
    for command in re.split(r"\n(?=curl )", commands.strip()):
        assert re.search(r"--max-time \d+", command), command
        done = subprocess.run(
            ["bash", "-c", command.replace(ADDRESS, address)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=130,
        )
        assert done.returncode == 0, (command, done.stderr)
        printed.append(done.stdout)
    return printed


@pytest.mark.parametrize(("commands", "shown"), EXAMPLES)
def test_an_example_answers_what_the_page_shows(serve, commands: str, shown: str) -> None:
    served = serve()
    done = succeed(served).run_id
    waiting = ""
    if "$WAITING" in commands:
        begin(served, wait(served).run_id)
        waiting = wait(served).run_id
    with listening(served.app) as address:
        printed = run(
            commands, address, RUN=done, WAITING=waiting, POTATO_ADMIN_API_KEY=served.context.admin_key
        )
    assert all(printed)
    if shown:
        assert alike(json.loads(printed[-1]), json.loads(shown))
    else:
        assert not any('"error_code": "un' in each for each in printed)


def alike(actual: Any, shown: Any) -> bool:
    """Whether an answer has the members that the page shows, and the same texts and flags."""
    if isinstance(shown, dict):
        return all(name in actual and alike(actual[name], value) for name, value in shown.items()) and set(
            actual
        ) == set(shown)
    if isinstance(shown, list):
        return len(actual) >= len(shown) and all(map(alike, actual, shown))
    if isinstance(shown, str) and re.fullmatch(r"2026\d{4}T\d{6}-[0-9a-f]{6}", shown):
        return bool(re.fullmatch(r"\d{8}T\d{6}-[0-9a-f]{6}", actual))
    if isinstance(shown, bool | str) or shown is None:
        return actual == shown
    return isinstance(actual, int | float)


def test_every_route_is_in_the_table_with_its_operation_and_the_answers_that_others_do_not_give(
    serve,
) -> None:
    document = serve().client.get("/openapi.json").json()
    common = {"200", "400", "401", "403", "404", "408", "413", "414", "415", "429", "431", "500"}
    found = {
        (method.upper(), path, each["operationId"], tuple(sorted(set(each["responses"]) - common)))
        for path, item in document["paths"].items()
        for method, each in item.items()
    }
    assert {(m, p, o, tuple(re.findall(r"\d+", s))) for m, p, o, s in ROWS} == found


def test_every_status_that_an_operation_may_answer_is_on_the_page() -> None:
    assert [status for status in DESCRIPTIONS if not re.search(rf"\b{status}\b", PAGE)] == []


def test_every_member_of_a_start_is_in_its_table() -> None:
    assert [name for name in StartBody.model_fields if f"| `{name}` |" not in PAGE] == []


def test_every_code_on_the_page_is_in_the_list_of_codes() -> None:
    listed = (Path(__file__).parents[2] / "docs" / "errors.md").read_text("utf-8")
    section = PAGE.split("| status | `error_code` |")[1].split("\n\n")[0]
    codes = set(re.findall(r"`([a-z_]+)`", section))
    assert {code for code in codes if f"| `{code}` |" not in listed} == set()
