"""The routes of agents alone, for connections that come in over ssh: no pages, no admins, no tokens made."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware import Middleware

import potato_ray
from potato_ray.server import agent_door, methods, problems
from potato_ray.server.agent_wire import AgentWire
from potato_ray.server.bodies import Bodies
from potato_ray.server.context import ServerContext
from potato_ray.server.gate import Gate
from potato_ray.server.routes import agent_files, agent_jobs


def agent_app(context: ServerContext) -> FastAPI:
    """An application in which nobody is an admin, whatever he shows and wherever he comes from.

    Each agent knows one run alone, that of its token, which it claims by the lease that it was given.
    """
    app = FastAPI(
        title="potato_ray agents",
        version=potato_ray.__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        middleware=[
            Middleware(AgentWire),
            Middleware(Gate, admins=False),
            Middleware(Bodies, streamed=agent_jobs.STREAMED),
        ],
    )
    app.state.context = context
    agent_door.install(app, agent_door.door_for_runs(context))
    problems.install(app)
    app.include_router(agent_jobs.router)
    app.include_router(agent_files.router)
    methods.install(app)
    return app
