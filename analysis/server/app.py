"""Web application of `league serve`: the report, and its changes.

    GET /         the whole page as it is now
    GET /events   changes from then on, as server-sent events
    /play...      matches against competitors of the run, if there is a room for them

No request can change the run. Pages of other sites cannot read it through the user's browser: a request must
name this machine as its host, and no other origin is allowed. A server that other machines reach asks for its
token (`analysis.server.gate`) and plays no matches: others would use this machine's processor.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from analysis.server.gate import TokenGate
from analysis.server.play import HEADERS as _HEADERS
from analysis.server.play import MakeRoom, play_routes
from analysis.server.watch import Drawn, Watch

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HOSTS = ["localhost", "127.0.0.1", "[::1]"]
LOOK_SECONDS = 0.2  # between two checks for a new drawing
ALIVE_SECONDS = 10.0  # longest silence: without messages a broken connection is not noticed


def make_app(
    watch: Watch,
    stopped: asyncio.Event | None = None,
    room: MakeRoom | None = None,
    *,
    hosts: Sequence[str] = HOSTS,
    token: str | None = None,
    cookie: str = "league",
) -> Starlette:
    """Return the application that serves the drawings of `watch`; streams end when `stopped` is set.

    `room` makes what plays the matches of pages, if there are to be any. `hosts` are the names under which it
    is reached. With a `token` requests without it are refused, and
    any name will do; `cookie` is the name of the cookie that holds it.
    """
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import HTMLResponse, StreamingResponse
    from starlette.routing import Route

    async def page(request: Request) -> Response:
        watch.touch()
        return HTMLResponse(watch.drawn.page, headers=_HEADERS)

    async def events(request: Request) -> Response:
        seen = request.headers.get("last-event-id") or request.query_params.get("since") or "0"
        known = seen.isdecimal() and len(seen) < 20  # int() raises for 5,000 digits
        stream = _events(watch, int(seen) if known else 0, stopped or asyncio.Event())
        return StreamingResponse(stream, media_type="text/event-stream", headers=_HEADERS)

    gate = (
        Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
        if token is None
        else Middleware(TokenGate, token=token, headers=_HEADERS, cookie=cookie)
    )
    return Starlette(
        routes=[Route("/", page), Route("/events", events), *(play_routes(room) if room else ())],
        middleware=[gate],
    )


def make_play_app(room: MakeRoom) -> Starlette:
    """Return the application that only plays matches."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import RedirectResponse
    from starlette.routing import Route

    async def home(request: Request) -> Response:
        return RedirectResponse("/play", headers=_HEADERS)

    return Starlette(
        routes=[Route("/", home), *play_routes(room, report=False)],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)],
    )


async def _events(watch: Watch, seen: int, stopped: asyncio.Event) -> AsyncIterator[str]:
    """Yield an event for each drawing newer than number `seen`, with the sections that changed.

    A page that shows an older drawing, or a drawing of an earlier server, gets all sections.
    """
    marks: dict[str, str] = {}
    before = watch.drawn
    if before.number == seen:
        marks = {name: part.mark for name, part in before.parts.items()}
    silent = ALIVE_SECONDS
    while not stopped.is_set():
        watch.touch()
        drawn = watch.drawn
        if drawn.number != seen:
            yield f"id: {drawn.number}\ndata: {json.dumps(_changes(drawn, marks))}\n\n"
            marks = {name: part.mark for name, part in drawn.parts.items()}
            seen, silent = drawn.number, 0.0
        elif silent >= ALIVE_SECONDS:
            yield ": still here\n\n"
            silent = 0.0
        await asyncio.sleep(LOOK_SECONDS)
        silent += LOOK_SECONDS


def _changes(drawn: Drawn, marks: dict[str, str]) -> dict[str, object]:
    changed = [part for name, part in drawn.parts.items() if marks.get(name) != part.mark]
    return {
        "order": list(drawn.parts),
        "sections": [{"id": part.section.id, "html": part.section.html} for part in changed],
        "asOf": drawn.as_of,
        "trouble": drawn.trouble,
    }
