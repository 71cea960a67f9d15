"""Files that stay on a host, over HTTP: listed, fetched in the background, stopped, removed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from left_files import FakeHost, left_run
from run_history import RUNS, folder_of, succeed, wait

from potato_ray.backends.artifact_copy import PARTS, CopyFailed
from potato_ray.backends.remote_note import read_note
from potato_ray.errors import NotFound
from potato_ray.server.remote_files import RemoteFiles
from potato_ray.ssh import SshFailed

GPU = {"gpu": {"type": "ssh", "host": "gpubox"}}
SILENT = SshFailed("ssh to gpubox failed: Connection refused", evidence="port 22: Connection refused")
BROKEN = CopyFailed("The copy from gpubox broke off", code="copy_broke_off")
DAMAGED = CopyFailed("The copy from gpubox brought another size", code="copy_damaged")


class Page:
    """One run with files on a host, and the routes for them."""

    def __init__(self, served: Any) -> None:
        self.served = served
        self.host = FakeHost({"model.bin": 1000, "sub/für alle #1.bin": 10})
        self.remote = served.app.state.remote_files = RemoteFiles(self.host)
        self.remote.fetches._retry_s = 0.0
        self.run_id = left_run(served).run_id
        self.url = f"{RUNS}/{self.run_id}/remote-files"
        self.home = folder_of(served, self.run_id) / "artifacts"

    def ask(self, method: str = "GET", path: str = "", status: int = 200) -> dict[str, Any]:
        answer = self.served.client.request(method, self.url + path)
        assert answer.status_code == status, answer.text
        return dict(answer.json())

    def fetch(self, path: str = "/model.bin") -> None:
        """Press Fetch; it may be here before that is answered."""
        assert self.served.client.post(self.url + path).status_code in (200, 202)

    def state(self, path: str = "model.bin") -> str:
        return next(str(each["state"]) for each in self.ask()["files"] if each["path"] == path)

    def wait_for(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        while not true():
            assert time.monotonic() < deadline, self.ask()
            time.sleep(0.01)


@pytest.fixture
def page(serve) -> Page:
    return Page(serve(backends=GPU))


def test_what_stays_is_listed_with_where_it_is(page: Page) -> None:
    body = page.ask()
    assert (body["run_id"], body["host"]) == (page.run_id, "gpubox")
    assert body["folder"].endswith(f"/runs/{page.run_id}.1/jobs/{page.run_id}.1/artifacts")
    assert body["files"][0] == {
        "path": "model.bin", "bytes": 1000, "state": "there", "here_bytes": 0, "problem": None,
    }  # fmt: skip


def test_a_file_is_fetched_in_the_background_and_the_list_says_how_far_it_is(page: Page) -> None:
    assert page.ask("POST", "/model.bin", 202)["state"] in ("waiting", "fetching")
    assert page.host.halfway.wait(10)
    [model, _] = page.ask()["files"]
    assert (model["state"], model["here_bytes"]) == ("fetching", 500)
    page.host.go.set()
    page.wait_for(lambda: page.state() == "here")
    assert (page.home / "model.bin").read_bytes() == bytes(1000)
    assert page.ask("POST", "/model.bin", 200)["here_bytes"] == 1000


def test_names_with_other_letters_and_blanks_work(page: Page) -> None:
    page.host.go.set()
    page.fetch("/sub/f%C3%BCr%20alle%20%231.bin")
    page.wait_for(lambda: page.state("sub/für alle #1.bin") == "here")


def test_files_of_one_host_come_one_after_the_other_and_a_second_press_changes_nothing(page: Page) -> None:
    page.ask("POST", "/model.bin", 202)
    assert page.host.halfway.wait(10)
    page.ask("POST", "/model.bin", 202)
    assert page.ask("POST", "/sub/f%C3%BCr%20alle%20%231.bin", 202)["state"] == "waiting"
    page.host.go.set()
    page.wait_for(lambda: {each["state"] for each in page.ask()["files"]} == {"here"})
    assert page.host.logins == 2  # one for the list, one for both files


def test_a_fetch_can_be_stopped_and_begun_again(page: Page) -> None:
    page.ask("POST", "/model.bin", 202)
    assert page.host.halfway.wait(10)
    assert page.ask("DELETE", "/model.bin")["state"] == "there"
    page.host.go.set()
    page.fetch()
    page.wait_for(lambda: page.state() == "here")


def test_a_link_that_breaks_off_is_tried_again(page: Page) -> None:
    page.host.failures = [BROKEN, SILENT]
    page.host.go.set()
    page.fetch()
    page.wait_for(lambda: page.state() == "here")


def test_a_fetch_that_fails_says_why_and_can_be_begun_again(page: Page) -> None:
    page.host.failures = [DAMAGED]
    page.host.go.set()
    page.fetch()
    page.wait_for(lambda: page.state() == "failed")
    problem = page.ask()["files"][0]["problem"]
    assert (problem["error_code"], problem["error"]) == ("copy_damaged", DAMAGED.message)
    page.fetch()
    page.wait_for(lambda: page.state() == "here")


def test_the_reason_of_a_failure_names_no_path_outside_the_project(page: Page) -> None:
    page.host.failures = [CopyFailed("no", code="copy_refused", evidence="It was /srv/secret/weights.bin.")]
    page.fetch()
    page.wait_for(lambda: page.state() == "failed")
    assert "/srv/secret" not in str(page.ask())


def test_a_host_that_cannot_be_reached_is_told_in_sshs_words(page: Page) -> None:
    page.host.trouble = SILENT
    body = page.ask(status=502)
    assert (body["error_code"], body["error"]) == ("ssh_failed", SILENT.message)
    assert page.ask("POST", "/model.bin", 502)["error_code"] == "ssh_failed"
    page.host.trouble = None
    assert len(page.ask()["files"]) == 2


def test_a_host_that_says_nothing_is_not_waited_for_without_end(page: Page) -> None:
    page.served.app.state.remote_files = RemoteFiles(lambda left: Slow(), answer_s=0.05)
    body = page.ask(status=502)
    assert body["error"] == "ssh to gpubox failed: No answer came within 0 s"


class Slow:
    def __enter__(self) -> Any:
        time.sleep(0.5)
        raise NotFound("late")

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""


def test_the_host_is_asked_once_a_minute_however_often_the_list_is_looked_at(page: Page) -> None:
    now = [0.0]
    page.served.app.state.remote_files = RemoteFiles(page.host, clock=lambda: now[0])
    for now[0] in (0.0, 1.0, 59.0):
        page.ask()
    assert page.host.logins == 1
    now[0] = 61.0
    page.ask()
    assert page.host.logins == 2


def test_a_file_that_does_not_stay_there_is_unknown(page: Page) -> None:
    for path in ("/none.bin", "/..%2Fsecret", "/%2Fetc%2Fpasswd"):
        assert page.ask("POST", path, 404)["error_code"] == "unknown_artifact"


def test_what_stays_can_be_removed_and_is_then_not_there(page: Page) -> None:
    page.ask()
    body = page.ask("DELETE")
    assert body["removed"].endswith(f"/runs/{page.run_id}.1")
    note = read_note(folder_of(page.served, page.run_id))
    assert note is not None
    assert note.files_removed
    refused = page.ask(status=409)
    assert refused["error_code"] == "no_remote_files"
    assert "were removed from gpubox" in refused["error"]


def test_nothing_is_removed_while_a_file_is_fetched(page: Page) -> None:
    page.ask("POST", "/model.bin", 202)
    assert page.host.halfway.wait(10)
    assert page.ask("DELETE", status=409)["error_code"] == "fetch_under_way"
    page.host.go.set()
    page.wait_for(lambda: page.state() == "here")
    page.ask("DELETE")


def test_a_run_that_left_nothing_on_a_host_says_so(page: Page) -> None:
    for run in (succeed(page.served), wait(page.served)):
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/x"), ("DELETE", "/x")):
            answer = page.served.client.request(method, f"{RUNS}/{run.run_id}/remote-files{path}")
            assert (answer.status_code, answer.json()["error_code"]) == (409, "no_remote_files")
    assert page.served.client.get(f"{RUNS}/none/remote-files").status_code == 404


def test_a_backend_that_leads_elsewhere_by_now_is_not_asked(page: Page) -> None:
    for backend, host in (("gpu", "another"), ("local", "gpubox")):
        run = left_run(page.served, backend, host)
        answer = page.served.client.get(f"{RUNS}/{run.run_id}/remote-files")
        assert (answer.status_code, answer.json()["error_code"]) == (409, "host_changed")
    assert page.host.logins == 0


def test_what_is_still_on_its_way_is_no_file_of_the_run(page: Page) -> None:
    (page.home / PARTS).mkdir()
    (page.home / PARTS / "x.part").write_bytes(b"half")
    listed = page.served.client.get(f"{RUNS}/{page.run_id}/artifacts").json()["artifacts"]
    assert not any(each["path"].startswith(PARTS) for each in listed)
    assert page.served.client.get(f"{RUNS}/{page.run_id}/artifacts/{PARTS}/x.part").status_code == 404


def test_the_page_has_the_section_only_where_something_stays(page: Page) -> None:
    def shown(run_id: str) -> str:
        return str(page.served.client.get(f"/admin/training/runs/{run_id}").text)

    assert "Files on gpubox" in shown(page.run_id)
    assert "Files on" not in shown(succeed(page.served).run_id)
    page.ask("DELETE")
    assert "Files on gpubox" not in shown(page.run_id)
    assert "stay on gpubox" not in shown(page.run_id)
