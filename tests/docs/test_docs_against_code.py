"""The docs name every command, option, error code and event of the code, and nothing that is gone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from potato_ray import errors
from potato_ray.cli.app import app
from potato_ray.job import events
from potato_ray.scoring.measures import MEASURES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "potato_ray"


def documented(page: str) -> str:
    return (ROOT / "docs" / page).read_text("utf-8")


def commands() -> Iterator[tuple[str, object]]:
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    for name, command in root.commands.items():
        if isinstance(command, TyperGroup):
            yield from ((f"{name} {sub}", each) for sub, each in command.commands.items())
        else:
            yield name, command


COMMANDS = dict(commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    page = documented("cli.md")
    section = page.split(f"## `potato-ray {name}`", 1)
    assert len(section) == 2, f"docs/cli.md has no section for potato-ray {name}"
    body = section[1].split("\n## ", 1)[0]
    options = {o for p in COMMANDS[name].params for o in p.opts if o.startswith("--")} - {"--help"}
    assert {o for o in options if f"`{o}" not in body} == set()


def test_the_docs_name_no_command_that_is_gone() -> None:
    named = set(re.findall(r"^## `potato-ray ([a-z ]+)`", documented("cli.md"), re.MULTILINE))
    assert named == set(COMMANDS)


def codes_in(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            yield from codes_of_call(node)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(t, ast.Name) and t.id == "default_code" for t in targets):
                yield from strings(node.value)


def codes_of_call(node: ast.Call) -> Iterator[str]:
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if name in ("TrainerError", "Refusal") and node.args:
        yield from strings(node.args[0])
    if name == "getattr" or name.endswith("Finding"):
        return
    for keyword in node.keywords:
        if keyword.arg in ("code", "error_code"):
            yield from strings(keyword.value)


def strings(node: ast.expr | None) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        yield node.value


def test_every_error_code_is_documented_with_its_next_step() -> None:
    codes = {code for source in PACKAGE.rglob("*.py") for code in codes_in(source)}
    rows = set(re.findall(r"^\| `([a-z_]+)` \|", documented("errors.md"), re.MULTILINE))
    assert codes - rows == set()


def test_the_error_tree_in_the_docstring_is_complete() -> None:
    classes = {
        name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)
    }
    assert {name for name in classes if name not in (errors.__doc__ or "")} == set()


@pytest.mark.parametrize("name", events.NAMES)
def test_every_event_is_documented(name: str) -> None:
    assert f"`{name}`" in documented("job-folder.md")


@pytest.mark.parametrize("kind", MEASURES)
def test_every_metric_is_documented_in_the_row_of_its_kind(kind: str) -> None:
    row = next(line for line in documented("scores.md").splitlines() if line.startswith(f"| `{kind}` |"))
    assert [name for name in MEASURES[kind].METRICS if f"`{name}`" not in row] == []


def test_the_readme_commands_exist() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    used = re.findall(r"^    potato-ray ((?:training )?[a-z]+)", readme, re.MULTILINE)
    assert used
    assert set(used) <= set(COMMANDS)
