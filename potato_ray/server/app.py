"""The application: routes, what stands in front of them, and how errors are answered."""

from __future__ import annotations

from fastapi import FastAPI

import potato_ray
from potato_ray.server import openapi, problems
from potato_ray.server.context import ServerContext
from potato_ray.server.routes import catalogue, health, login, pages, run_files, run_page, runs, status
from potato_ray.server.static_files import PageFiles


def create_app(context: ServerContext) -> FastAPI:
    """The application of one project."""
    app = FastAPI(
        title="potato_ray",
        version=potato_ray.__version__,
        # The interactive pages of FastAPI load their scripts from elsewhere, and ours work offline.
        docs_url=None,
        redoc_url=None,
    )
    app.state.context = context
    problems.install(app)
    for group in (health, login, pages, run_page, catalogue, status, runs, run_files):
        app.include_router(group.router)
    openapi.install(app)
    app.mount("/static", PageFiles(), name="static")
    return app
