"""The source files of this package that run on other machines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The folder that holds the package."""
_PACKAGE = "potato_ray"
_WORKER = ("job", "trainers")
_AGENT = ("agent", "job")
_HOST = ("agent", "host", "job", "trainers")


def worker_sources() -> list[tuple[str, Path]]:
    """(name, file) of what a launcher and its worker need, in order of name."""
    return _named({ROOT / _PACKAGE / "__init__.py", *_files(_WORKER)})


def agent_sources() -> list[tuple[str, Path]]:
    """The same of what an agent needs: its own package, the job folder, and what these import."""
    # Of the job package the worker's part imports all trainers, which an agent never does: what is
    # imported is followed from the agent alone.
    unread = set(_files(_AGENT[:1]))
    followed = set(unread)
    while unread:
        imported = {each for name in _imports(unread.pop()) for each in _with_parents(name)}
        unread |= imported - followed
        followed |= imported
    return _named({ROOT / _PACKAGE / "__init__.py", *_files(_AGENT), *followed})


def host_sources() -> list[tuple[str, Path]]:
    """The same of what a host needs that is reached over ssh: all of the packages that are shipped."""
    return _named({ROOT / _PACKAGE / "__init__.py", *_files(_HOST)})


def _files(packages: tuple[str, ...]) -> Iterator[Path]:
    for package in packages:
        yield from (ROOT / _PACKAGE / package).rglob("*.py")


def _named(paths: set[Path]) -> list[tuple[str, Path]]:
    return sorted((path.relative_to(ROOT).as_posix(), path) for path in paths)


def _imports(path: Path) -> Iterator[str]:
    """The modules of ours that a module imports, at its head or in a function."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            # What is imported from a package may be a module of it, too.
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] == _PACKAGE)


def _with_parents(name: str) -> Iterator[Path]:
    """The file of a module and those of the packages around it; nothing for what is no module."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        path = ROOT.joinpath(*parts[:length])
        if path.is_dir():
            yield path / "__init__.py"
        elif path.with_suffix(".py").is_file():
            yield path.with_suffix(".py")
