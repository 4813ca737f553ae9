"""Server of the live report, from the first drawing to Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from analysis.server.playing import MakeRoom
from analysis.server.watch import EVERY_SECONDS, Watch
from storage.errors import Mistake

LOOPBACK = "127.0.0.1"


def serve(
    run: str | Path,
    port: int,
    *,
    ready: Callable[[str], None],
    every_seconds: float = EVERY_SECONDS,
    room: MakeRoom | None = None,
) -> None:
    """Serve the page of `run` on this machine's loopback until Ctrl-C or SIGTERM.

    Port 0 means any free port. `ready` is called with the address once the server answers. `room` makes
    what plays the matches of pages. Raise Mistake if the port is taken or the extra `serve` is missing;
    NotARun; CorruptLedger.
    """
    uvicorn = _installed("write the page to a file: league report RUN")
    from analysis.server.app import make_app

    with _listening(port) as listening:
        watch = Watch(run, every_seconds=every_seconds, plays=room is not None)
        watch.begin()
        try:
            address = f"http://{LOOPBACK}:{listening.getsockname()[1]}/"
            make = functools.partial(make_app, watch, room=room)
            asyncio.run(_serve(uvicorn, make, listening, lambda: ready(address)))
        finally:
            watch.close()


def serve_play(room: MakeRoom, port: int, *, ready: Callable[[str], None]) -> None:
    """Serve the page on which matches are played, alone, on this machine's loopback until Ctrl-C or SIGTERM.

    `port` and `ready` as for `serve`. Raise Mistake as it does.
    """
    uvicorn = _installed("play in the terminal, without --browser")
    from analysis.server.app import make_play_app

    with _listening(port) as listening:
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


def _listening(port: int) -> socket.socket:
    """Return a socket that only this machine can reach. Raise Mistake if the port is not available."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        listening.close()
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = "another program listens there" if taken else str(error)
        raise Mistake(f"--port {port}: {why}; expected a free port, such as --port 0 for any") from None
    return listening
