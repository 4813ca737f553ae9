"""The pages of `league serve`: the report, and what has changed in it since.

    GET /         the whole page, as it is now
    GET /events   what changes from then on, as server-sent events

Nothing can be asked to change the run. Pages of other sites cannot read it through the browser of somebody
who has it open: a request must name this machine as its host, and no other origin is let in.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from analysis.server.watch import Drawn, Watch

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HOSTS = ["localhost", "127.0.0.1", "[::1]"]
LOOK_SECONDS = 0.2  # between two looks whether something new has been drawn
ALIVE_SECONDS = 10.0  # at least so often something is sent: else a broken line is noticed by nobody

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page itself says the rest
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def make_app(watch: Watch, stopped: asyncio.Event | None = None) -> Starlette:
    """The application over what `watch` draws; streams end when `stopped` is set."""
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
        known = seen.isdecimal() and len(seen) < 20  # of 5,000 digits int makes an error
        stream = _events(watch, int(seen) if known else 0, stopped or asyncio.Event())
        return StreamingResponse(stream, media_type="text/event-stream", headers=_HEADERS)

    return Starlette(
        routes=[Route("/", page), Route("/events", events)],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)],
    )


async def _events(watch: Watch, seen: int, stopped: asyncio.Event) -> AsyncIterator[str]:
    """Each drawing that is newer than number `seen`: the sections that read differently, and what the page
    says of itself. A page that shows an older drawing, or one of a server before, gets everything."""
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
