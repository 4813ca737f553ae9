"""Gate of a server that other machines can reach: requests with its token pass, others get one sentence.

The address that the command prints has the token. The first request with it is answered with a cookie and the
same address without the token, so that it is neither in the history of the browser nor on the screen.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from storage.errors import Mistake

_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,}")  # as it is in addresses and cookies
REFUSAL = "This page needs the token of its server: open the address that `league serve` has printed."

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Message, _Receive, _Send], Awaitable[None]]


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def checked_token(token: str) -> str:
    """Return a token that a user has chosen. Raise Mistake for one that is short, or has other characters."""
    if not _TOKEN.fullmatch(token):
        raise Mistake("--token: expected at least 16 letters, digits, '-', '_', '.' and '~'; or leave it out")
    return token


class TokenGate:
    """Application that lets requests with the token through to another one."""

    def __init__(self, app: _App, token: str, headers: dict[str, str], cookie: str = "league") -> None:
        """`headers`: of every answer of its own. `cookie`: a name, another for each server of a host."""
        self._app, self._token, self._cookie = app, token, cookie
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http" or self._is_known(scope):
            await self._app(scope, receive, send)
            return
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token", "")
        if scope["method"] in ("GET", "HEAD") and self._is_right(given):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            to = f"./{quote(scope['path'].rpartition('/')[2])}{'?' if rest else ''}{rest}"
            cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Lax"
            await self._answer(send, 303, b"", [(b"location", to.encode()), (b"set-cookie", cookie.encode())])
        else:
            plain = (b"content-type", b"text/plain; charset=utf-8")
            await self._answer(send, 403, f"{REFUSAL}\n".encode(), [plain])

    def _is_known(self, scope: _Message) -> bool:
        """Return whether a cookie of the request has the token."""
        for name, value in scope["headers"]:
            if name == b"cookie":
                try:
                    found = SimpleCookie(value.decode("latin-1")).get(self._cookie)
                except CookieError:
                    continue
                if found is not None and self._is_right(found.value):
                    return True
        return False

    def _is_right(self, given: str) -> bool:
        """Return whether this is the token, in a time that says nothing of it."""
        return secrets.compare_digest(given.encode(), self._token.encode())

    async def _answer(
        self, send: _Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]
    ) -> None:
        size = (b"content-length", str(len(body)).encode())
        start = {"type": "http.response.start", "status": status, "headers": [*self._headers, *headers, size]}
        await send(start)
        await send({"type": "http.response.body", "body": body})
