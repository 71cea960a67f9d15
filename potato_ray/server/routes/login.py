"""The key form, and its session."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from potato_ray.errors import PotatoRayError
from potato_ray.server.access import Keeper, keeper_of
from potato_ray.server.destinations import HOME, LOGIN, LOGOUT, destination
from potato_ray.server.problems import Rejected
from potato_ray.server.rendering import page
from potato_ray.server.sessions import LIFETIME_S

router = APIRouter(include_in_schema=False)

_FIELDS = 20
"""The most fields of a form; ours has two."""


async def form_fields(request: Request) -> dict[str, str]:
    """The fields of a form, the last of each name. Raises Rejected (400)."""
    try:
        body = (await request.body()).decode("utf-8")
        fields = parse_qs(body, keep_blank_values=True, errors="strict", max_num_fields=_FIELDS)
    except ValueError:
        raise Rejected(
            400,
            "The form cannot be read.",
            code="malformed_request",
            next_step="Send the fields key and next as application/x-www-form-urlencoded, in UTF-8.",
        ) from None
    return {name: values[-1] for name, values in fields.items()}


Form = Annotated[dict[str, str], Depends(form_fields)]
ItsKeeper = Annotated[Keeper, Depends(keeper_of)]


@router.get(LOGIN)
def key_form(next: str = HOME) -> Response:  # noqa: A002 - the name in the address
    """The form, also for somebody who is logged in: another key may be meant."""
    return _form(destination(next))


@router.post(LOGIN)
def log_in(request: Request, form: Form, keeper: ItsKeeper) -> Response:
    """Open a session for the right key, and lead on to `next`."""
    wanted = destination(form.get("next", HOME))
    try:
        keeper.guess(form.get("key", "").strip().encode("utf-8"), request.scope)
    except Rejected as refusal:
        return _form(wanted, refusal)
    _end_session(request, keeper)
    answer = RedirectResponse(wanted, 303)
    answer.set_cookie(
        keeper.cookie,
        keeper.sessions.open(),
        max_age=LIFETIME_S,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )
    return answer


@router.post(LOGOUT)
def log_out(request: Request, keeper: ItsKeeper) -> Response:
    """End the session on the server, and forget its cookie in the browser."""
    _end_session(request, keeper)
    answer = RedirectResponse(LOGIN, 303)
    answer.delete_cookie(keeper.cookie, path="/", httponly=True, samesite="lax")
    return answer


def _end_session(request: Request, keeper: Keeper) -> None:
    token = keeper.session_of(request)
    if token is not None:
        keeper.sessions.end(token)


def _form(wanted: str, refusal: PotatoRayError | None = None) -> Response:
    status = refusal.status if isinstance(refusal, Rejected) else 200
    trouble = ""
    if isinstance(refusal, Rejected):
        trouble = refusal.message if status == 403 else f"{refusal.message} {refusal.next_step}"
    answer = page("login.html", status, here="login", admin=False, next=wanted, trouble=trouble)
    if isinstance(refusal, Rejected):
        answer.headers.update(refusal.headers)
    return answer
