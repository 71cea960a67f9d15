"""The example projects are begun with as the pages say: copied, and valid where they lie then."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from potato_ray.config import load, validate
from potato_ray.starting import StartRequest, plan_start

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("page", "name"), [("slurm", "slurm"), ("ssh", "ssh"), ("agents", "agent")])
def test_the_example_of_a_page_is_valid_once_it_is_copied_as_the_page_says(
    tmp_path: Path, page: str, name: str
) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    (copy,) = re.findall(r"`(mkdir lab && cp -r [^`]+)`", text)
    assert f"work in `lab/{name}`" in text
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    subprocess.run(["sh", "-c", copy], cwd=tmp_path, check=True, timeout=30)
    assert load(tmp_path / "lab" / name / "config.yaml").task_dir == tmp_path / "lab" / "local"


def test_the_project_of_molecules_is_valid_and_each_of_its_schemes_can_be_learnt(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "trainers.md").read_text("utf-8")
    section = page.split("### A project of molecules\n", 1)[1].split("\n##", 1)[0]
    (config,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    (tmp_path / "config.yaml").write_text(config, "utf-8")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "molecules.csv").write_text("id,name,smiles\nm1,ethanol,CCO\n", "utf-8")
    found = validate(tmp_path / "config.yaml")
    assert found.findings == ()
    for scheme in ("solubility", "toxic"):
        plan = plan_start(found.require(), StartRequest("rdkit-property", (scheme,)))
        assert plan.params["smiles_field"] == "smiles"
