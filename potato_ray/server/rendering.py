"""From a template and its values to a page."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from potato_ray.server import wording

TEMPLATES = Path(__file__).parent / "templates"
FILES = Path(__file__).parent / "static"
"""Style, scripts and pictures of the pages."""


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates; every value is escaped, and a value that is missing is an error."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        duration=wording.duration,
        number=wording.number,
        score=wording.score,
        when=wording.when,
        iso=wording.iso_time,
    )
    return made


def page(
    template: str, status: int = 200, *, project: str = "", here: str = "", admin: bool = True, **values: Any
) -> HTMLResponse:
    """A page as an answer. `project` is its name, `here` names the page, `admin`: somebody is logged in.

    A page shows the state of one moment; shields.py keeps browsers from keeping it.
    """
    html = environment().get_template(template).render(project=project, here=here, admin=admin, **values)
    # Half a character, which names of a trainer's metrics may hold, has no form in UTF-8.
    body = html.encode("utf-8", "replace")
    return HTMLResponse(body, status)
