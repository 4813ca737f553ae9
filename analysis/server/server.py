"""Server of the live report, from the first drawing to Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import functools
import ipaddress
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from analysis.server.play import MakeRoom
from analysis.server.run_watch import EVERY_SECONDS, RunWatch
from storage.errors import Mistake
from storage.layout import FORMAT, LEDGER

LOOPBACK = "127.0.0.1"
FIRST_SECONDS = 0.5  # that the first page is waited for; of a long run it comes later
WAIT_SECONDS = 0.5  # between two looks for a run that is not there yet


def serve(
    run: str | Path,
    port: int,
    *,
    ready: Callable[[str], None],
    every_seconds: float = EVERY_SECONDS,
    room: MakeRoom | None = None,
    host: str = LOOPBACK,
    token: str | None = None,
) -> None:
    """Serve the page of `run` until Ctrl-C or SIGTERM, to this machine alone unless `host` is another.

    Port 0 means any free port. `ready` is called with the address once the server answers. `room` makes
    what plays the matches of pages. With a `host` that is not this machine's loopback, all requests must have
    the `token`, and no matches are played. Raise Mistake if the port is taken, the host is not this machine's
    or has no token, or the extra `serve` is missing; NotARun; CorruptLedger.
    """
    uvicorn = _installed("write the page to a file: league report RUN")
    from analysis.server.app import HOSTS, make_app

    if is_loopback(host):
        token = None
    elif token is None:
        raise Mistake(f"--host {host}: found no token, expected one: other machines can reach this host")
    else:
        room = None
    with _listening(host, port) as listening:
        port = listening.getsockname()[1]
        hosts = [*HOSTS, _in_address(host)]
        watch = RunWatch(run, every_seconds=every_seconds, plays=room is not None, patience=FIRST_SECONDS)
        watch.begin()
        try:
            address = f"http://{_in_address(_named(host))}:{port}/{f'?token={token}' if token else ''}"
            make = functools.partial(
                make_app, watch, room=room, hosts=hosts, token=token, cookie=f"league-{port}"
            )
            asyncio.run(_serve(uvicorn, make, listening, lambda: ready(address)))
        finally:
            watch.close()


def wait_for(run: Path, waiting: Callable[[], None], *, every_seconds: float = WAIT_SECONDS) -> None:
    """Return when there is a run at `run`, or at once if there is anything else; until then call `waiting`.

    `waiting` is called once. Ctrl-C raises KeyboardInterrupt, as always.
    """
    if run.exists():
        return
    waiting()
    while not ((run / FORMAT).exists() and (run / LEDGER).is_dir()):
        time.sleep(every_seconds)


def is_loopback(host: str) -> bool:
    """Return whether this is a name or an address that only this machine can reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve_play(room: MakeRoom, port: int, *, ready: Callable[[str], None]) -> None:
    """Serve the page on which matches are played, alone, on this machine's loopback until Ctrl-C or SIGTERM.

    `port` and `ready` as for `serve`. Raise Mistake as it does.
    """
    uvicorn = _installed("play in the terminal, without --browser")
    from analysis.server.app import make_play_app

    with _listening(LOOPBACK, port) as listening:
        address = f"http://{LOOPBACK}:{listening.getsockname()[1]}/"
        asyncio.run(_serve(uvicorn, lambda stopped: make_play_app(room), listening, lambda: ready(address)))


def _installed(instead: str) -> Any:
    """Return uvicorn. Raise Mistake if it or starlette is missing; `instead` is what works without them."""
    try:
        import starlette
        import uvicorn
    except ImportError as missing:
        raise Mistake(
            f"serve: {missing.name} is not installed; pip install '.[serve]', or {instead}"
        ) from None
    del starlette
    return uvicorn


async def _serve(
    uvicorn: Any, make: Callable[[asyncio.Event], Any], listening: socket.socket, ready: Callable[[], None]
) -> None:
    """Serve the application that `make` returns; it is given an event that ends its streams."""
    stopped = asyncio.Event()

    class Server(uvicorn.Server):
        """Server that ends its streams on Ctrl-C before it waits for them, without an error."""

        def handle_exit(self, sig: int, frame: object) -> None:
            self.force_exit = stopped.is_set()
            self.should_exit = True
            stopped.set()

    config = uvicorn.Config(make(stopped), log_level="error", lifespan="off", timeout_graceful_shutdown=2)
    server = Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if server.started:
        ready()
    await serving


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens to `host`. Raise Mistake if the host or the port is not available."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError, OverflowError) as error:
        raise Mistake(
            f"--host {host}: {_why(error)}; expected a name or an address of this machine, or 0.0.0.0 for all"
        ) from None
    listening = socket.socket(family, kind)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(place)
    except (OSError, OverflowError) as error:
        listening.close()
        number = error.errno if isinstance(error, OSError) else None
        if number == errno.EADDRNOTAVAIL:
            raise Mistake(
                f"--host {host}: it is no address of this machine; expected one, or 0.0.0.0 for all of them"
            ) from None
        why = "another program listens there" if number == errno.EADDRINUSE else _why(error)
        raise Mistake(f"--port {port}: {why}; expected a free port, such as --port 0 for any") from None
    return listening


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _named(host: str) -> str:
    """Return the name under which other machines reach a host: this machine's where it is all addresses."""
    return socket.gethostname() if host in ("0.0.0.0", "::", "") else host


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host
