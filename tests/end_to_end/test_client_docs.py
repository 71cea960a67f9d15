"""docs/client.md against a real server: every block is run, in order."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_pandas import FakePandas
from server_process import ServerProcess
from whole_runs import MakeProject

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.ray
def test_the_examples_of_the_clients_page_work(
    make_project: MakeProject,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = make_project()
    monkeypatch.setenv("POTATO_ADMIN_API_KEY", str(config.admin_api_key))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", FakePandas())
    server = ServerProcess(config)
    names: dict[str, Any] = {"__name__": "docs"}
    try:
        url = server.wait_for_url()
        for block in BLOCKS:
            exec(block.replace("http://127.0.0.1:8000", url), names)  # noqa: S102 - our own page
    finally:
        if "client" in names:
            names["client"].close()
        server.close()
    said = capsys.readouterr().out
    for expected in (
        "success val macro_f1 0.",
        "400 unknown_schema",
        "admin_key_wrong",
        "server_unreachable",
    ):
        assert expected in said
    assert names["table"]["rows"][0]["schema_name"] == "sentiment"
    assert (tmp_path / "results" / "model_card.json").is_file()


def test_the_page_shows_each_way_to_use_the_client() -> None:
    assert len(BLOCKS) > 6
    assert PAGE.read_text("utf-8").count("```") == 2 * len(BLOCKS)
