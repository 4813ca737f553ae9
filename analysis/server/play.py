"""Page on which matches are played and played back, and its routes.

    GET  /play                          the page
    GET  /play/about                    run, game, names of competitors
    POST /play/matches                  begin a match
    GET  /play/matches/ID               a match as it is
    POST /play/matches/ID/go            an action of the person, or the next step
    POST /play/matches/ID/hint          what a policy would do
    POST /play/matches/ID/back          take back the person's last action
    POST /play/matches/ID/leave         end it
    GET  /play/recorded, /play/recorded/ID    recorded matches

Only pages of this server may send a POST: its origin must be the host that is asked, and its content JSON.
Other sites can read nothing and begin nothing, not by a link to the page either.
Matches are played in one thread, recorded ones are read in another, so that neither holds up the report.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from analysis.report.markup import Html, draw, resource, visible
from analysis.report.page import policy
from storage.errors import Failure, Mistake

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

MOST_BYTES = 8192  # of a request
_FOREIGN = "this request is from another page, expected one of this server"

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page itself contains the rest
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class PlayRooms(Protocol):
    """Matches that are played by pages: what the command hands to the server.

    All methods return data for JSON, and raise Mistake with one line for the reader of the page.
    """

    @property
    def style(self) -> str:
        """The style sheet of the pictures."""

    def about(self) -> dict[str, Any]:
        """Return the run, its game, the number of seats, and names of competitors."""

    def begin(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a match and return it."""

    def look(self, key: str) -> dict[str, Any]:
        """Return a match."""

    def go_on(self, key: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Play on, with an action of the person if one is due."""

    def hint(self, key: str) -> dict[str, Any]:
        """Return what a policy would do in the person's place."""

    def take_back(self, key: str) -> dict[str, Any]:
        """Take back the person's last action, and what followed."""

    def leave(self, key: str) -> dict[str, Any]:
        """End a match."""

    def recordings(self) -> list[dict[str, Any]]:
        """Return the newest recorded matches."""

    def playback(self, match_id: int) -> dict[str, Any]:
        """Return all steps of a recorded match."""


MakeRoom = Callable[[], PlayRooms]


def play_routes(make_room: MakeRoom, *, report: bool = True) -> list[Route]:
    """Return the routes of a room, which is made when a page first needs it: it loads policies.

    `report`: whether the server has the report at "/".
    """
    from starlette.exceptions import HTTPException
    from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse
    from starlette.routing import Route

    playing = ThreadPoolExecutor(1, thread_name_prefix="play")
    reading = ThreadPoolExecutor(1, thread_name_prefix="read recorded matches")
    lock = threading.Lock()
    made: list[PlayRooms] = []

    def room() -> PlayRooms:
        with lock:
            if not made:
                made.append(make_room())
            return made[0]

    async def answer(where: ThreadPoolExecutor, ask: Callable[[], Any]) -> Response:
        try:
            found = await asyncio.get_running_loop().run_in_executor(where, ask)
        except (Mistake, Failure) as error:
            return _refusal(400, str(error))
        except Exception as error:  # a game, network or bot of a user's own may raise anything
            return _refusal(500, f"{type(error).__name__}: {error}")
        return JSONResponse(_visible(found), headers=HEADERS)

    def _refusal(status: int, why: str) -> Response:
        return JSONResponse({"error": visible(" ".join(why.split()))}, status, headers=HEADERS)

    async def page(request: Request) -> Response:
        if _is_foreign(request) and request.url.query:
            return RedirectResponse("/play", headers=HEADERS)  # a link elsewhere begins no match
        loop = asyncio.get_running_loop()
        try:
            found, style = await loop.run_in_executor(playing, lambda: (room().about(), room().style))
        except (Mistake, Failure) as error:
            return _refusal(400, str(error))
        return HTMLResponse(play_page(found["run"], style, report=report), headers=HEADERS)

    def fetched(where: ThreadPoolExecutor, ask: Callable[[Request], Any]) -> Callable[[Request], Any]:
        """Return an endpoint that answers pages of this server with `ask`."""

        async def endpoint(request: Request) -> Response:
            if _is_foreign(request):
                return _refusal(403, _FOREIGN)
            return await answer(where, lambda: ask(request))

        return endpoint

    def playback(request: Request) -> Any:
        text = request.path_params["match"]
        if not text.removeprefix("-").isdecimal() or len(text) > 20:
            raise Mistake(f"match '{text[:40]}': expected the id of a recorded match")
        return room().playback(int(text))

    def posted(act: Callable[[str, Mapping[str, Any]], Any]) -> Callable[[Request], Any]:
        """Return an endpoint that calls `act` with the key of the path and the content."""

        async def endpoint(request: Request) -> Response:
            try:
                asked = await _content(request)
            except HTTPException as refused:
                return _refusal(refused.status_code, refused.detail)
            return await answer(playing, lambda: act(request.path_params.get("key", ""), asked))

        return endpoint

    match = "/play/matches/{key}"
    return [
        Route("/play", page),
        Route("/play/about", fetched(playing, lambda _: room().about())),
        Route("/play/matches", posted(lambda _, asked: room().begin(asked)), methods=["POST"]),
        Route(match, fetched(playing, lambda request: room().look(request.path_params["key"]))),
        Route(f"{match}/go", posted(lambda key, asked: room().go_on(key, asked)), methods=["POST"]),
        Route(f"{match}/hint", posted(lambda key, _: room().hint(key)), methods=["POST"]),
        Route(f"{match}/back", posted(lambda key, _: room().take_back(key)), methods=["POST"]),
        Route(f"{match}/leave", posted(lambda key, _: room().leave(key)), methods=["POST"]),
        Route("/play/recorded", fetched(reading, lambda _: room().recordings())),
        Route("/play/recorded/{match}", fetched(reading, playback)),
    ]


def play_page(name: str, style: str, *, report: bool) -> str:
    """Return the page for the run `name`, which loads nothing but answers of this server.

    `style` is that of the pictures. `report`: whether the page links to the report of this server.
    """
    script = resource("server/play.js")
    sheets = (resource("report/style.css"), resource("server/play.css"), style)
    return draw(
        "play.html",
        name=name,
        policy=policy([script], "'self'"),
        style=Html("".join(sheets)),
        report=report,
        script=Html(script),
    )


def _is_foreign(request: Request) -> bool:
    """Return whether a browser sent this for a page of another origin."""
    return request.headers.get("sec-fetch-site") in ("cross-site", "same-site")


async def _content(request: Request) -> Mapping[str, Any]:
    """Return the JSON object of a request. Raise HTTPException for other content and another origin."""
    from starlette.exceptions import HTTPException

    origin = urlsplit(request.headers.get("origin") or "")
    if not origin.netloc or origin.netloc != request.headers.get("host"):
        raise HTTPException(403, _FOREIGN)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "expected JSON")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"found more than {MOST_BYTES} bytes")
    try:
        asked = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise HTTPException(400, "expected JSON") from None
    if not isinstance(asked, dict):
        raise HTTPException(400, "expected a JSON object")
    return asked


def _visible(value: Any) -> Any:
    """Return data whose texts have no invisible characters, so that no name can look like another."""
    match value:
        case str():
            return visible(value)
        case dict():
            return {key: _visible(one) for key, one in value.items()}
        case list() | tuple():
            return [_visible(one) for one in value]
        case _:
            return value
