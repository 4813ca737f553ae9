"""Web application of `league serve`: the report, and its changes.

    GET /         the whole page as it is now
    GET /events   changes from then on, as server-sent events
    /play...      matches against competitors of the run, if there is a room for them

No request can change the run. Pages of other sites cannot read it through the user's browser: a request must
name this machine as its host, and no other origin is allowed. A server that other machines reach asks for its
token (`TokenGate`) and plays no matches: others would use this machine's processor.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from analysis.report.markup import Section
from analysis.server.play import HEADERS as _HEADERS
from analysis.server.play import MakeRoom, play_routes
from analysis.server.run_watch import Drawn, RunWatch
from storage.errors import Mistake

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

HOSTS = ["localhost", "127.0.0.1", "[::1]"]
LOOK_SECONDS = 0.2  # between two checks for a new drawing
ALIVE_SECONDS = 10.0  # longest silence: without messages a broken connection is not noticed


def make_app(
    watch: RunWatch,
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


async def _events(watch: RunWatch, seen: int, stopped: asyncio.Event) -> AsyncIterator[str]:
    """Yield an event for each drawing newer than number `seen`, with the sections that changed.

    A page that shows an older drawing, or a drawing of an earlier server, gets all sections.
    """
    before, silent = watch.drawn, ALIVE_SECONDS
    shown = before.parts if before.number == seen else {}
    while not stopped.is_set():
        watch.touch()
        drawn = watch.drawn
        if drawn.number != seen:
            yield f"id: {drawn.number}\ndata: {json.dumps(_changes(drawn, shown))}\n\n"
            shown, seen, silent = drawn.parts, drawn.number, 0.0
        elif silent >= ALIVE_SECONDS:
            yield ": still here\n\n"
            silent = 0.0
        await asyncio.sleep(LOOK_SECONDS)
        silent += LOOK_SECONDS


def _changes(drawn: Drawn, shown: dict[str, Section]) -> dict[str, object]:
    changed = [part for name, part in drawn.parts.items() if shown.get(name) != part]
    return {
        "order": list(drawn.parts),
        "sections": [{"id": part.id, "html": part.html} for part in changed],
        "asOf": drawn.as_of,
        "ended": drawn.ended,
        "trouble": drawn.trouble,
    }


_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,}")  # as it is in addresses and cookies
REFUSAL = "This page needs the token of its server: open the address that `league serve` has printed."


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def checked_token(token: str) -> str:
    """Return a token that a user has chosen. Raise Mistake for one that is short, or has other characters."""
    if not _TOKEN.fullmatch(token):
        raise Mistake("--token: expected at least 16 letters, digits, '-', '_', '.' and '~'; or leave it out")
    return token


class TokenGate:
    """Application that lets requests with the token through to another one; others get one sentence.

    The address that the command prints has the token. The first request with it is answered with a cookie and
    the same address without the token, so that it is neither in the history of the browser nor on the screen.
    """

    def __init__(self, app: ASGIApp, token: str, headers: dict[str, str], cookie: str = "league") -> None:
        """`headers`: of every answer of its own. `cookie`: a name, another for each server of a host."""
        self._app, self._token, self._headers, self._cookie = app, token, headers, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse, Response

        answer: ASGIApp = self._app
        if scope["type"] == "http":
            request = Request(scope)
            if not self._is_right(request.cookies.get(self._cookie, "")):
                query = request.query_params
                answer = PlainTextResponse(f"{REFUSAL}\n", 403, self._headers)
                if request.method in ("GET", "HEAD") and self._is_right(query.get("token", "")):
                    rest = urlencode(
                        [(name, value) for name, value in query.multi_items() if name != "token"]
                    )
                    to = f"./{quote(scope['path'].rpartition('/')[2])}{'?' if rest else ''}{rest}"
                    cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Lax"
                    answer = Response(None, 303, {**self._headers, "location": to, "set-cookie": cookie})
        await answer(scope, receive, send)

    def _is_right(self, given: str) -> bool:
        """Return whether this is the token, in a time that says nothing of it."""
        return secrets.compare_digest(given.encode(), self._token.encode())
