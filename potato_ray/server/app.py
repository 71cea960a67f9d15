"""The application: routes, what stands in front of them, and how errors are answered."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

import potato_ray
from potato_ray.server import agent_door, methods, openapi, problems
from potato_ray.server.access import Keeper
from potato_ray.server.agent_wire import AgentWire
from potato_ray.server.bodies import Bodies
from potato_ray.server.context import ServerContext
from potato_ray.server.gate import Gate
from potato_ray.server.rendering import FILES
from potato_ray.server.routes import (
    agent_files,
    agent_jobs,
    agent_tokens,
    catalogue,
    health,
    login,
    pages,
    remote_files,
    run_files,
    run_page,
    runs,
    status,
)
from potato_ray.server.sessions import Sessions
from potato_ray.server.shields import Shields
from potato_ray.server.throttle import Throttle


class Application(FastAPI):
    """The framework's, with Shields around the whole: added as its middleware they would miss a 500."""

    def build_middleware_stack(self) -> ASGIApp:
        return Shields(super().build_middleware_stack())


def create_app(context: ServerContext) -> FastAPI:
    """The application of one project."""
    app = Application(
        title="potato_ray",
        version=potato_ray.__version__,
        # The interactive pages of FastAPI load their scripts from elsewhere, and ours work offline.
        docs_url=None,
        redoc_url=None,
        middleware=[
            Middleware(AgentWire),
            Middleware(Gate),
            Middleware(Bodies, streamed=agent_jobs.STREAMED),
        ],
    )
    app.state.context = context
    sessions = Sessions(context.config.state_dir, context.admin_key)
    app.state.keeper = Keeper(context, sessions, Throttle())
    agent_door.install(app, agent_door.door_for_backends(context))
    problems.install(app)
    for group in (health, login, pages, run_page, catalogue, status, runs, run_files, remote_files):
        app.include_router(group.router)
    for group in (agent_tokens, agent_jobs, agent_files):
        app.include_router(group.router)
    methods.install(app)
    openapi.install(app)
    app.mount("/static", StaticFiles(directory=FILES), name="static")
    return app
