"""Server of the live report, from the first drawing to Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from pathlib import Path

from analysis.server.watch import EVERY_SECONDS, Watch
from storage.errors import Mistake

LOOPBACK = "127.0.0.1"


def serve(
    run: str | Path,
    port: int,
    *,
    ready: Callable[[str], None],
    every_seconds: float = EVERY_SECONDS,
) -> None:
    """Serve the page of `run` on this machine's loopback until Ctrl-C or SIGTERM.

    Port 0 means any free port. `ready` is called with the address once the server answers. Raise Mistake if
    the port is taken or the extra `serve` is missing; NotARun; CorruptLedger.
    """
    try:
        import starlette
        import uvicorn
    except ImportError as missing:
        raise Mistake(
            f"serve: {missing.name} is not installed; pip install '.[serve]', "
            "or write the page to a file: league report RUN"
        ) from None
    del starlette
    with _listening(port) as listening:
        watch = Watch(run, every_seconds=every_seconds)
        watch.begin()
        try:
            address = f"http://{LOOPBACK}:{listening.getsockname()[1]}/"
            asyncio.run(_serve(uvicorn, watch, listening, lambda: ready(address)))
        finally:
            watch.close()


async def _serve(uvicorn: object, watch: Watch, listening: socket.socket, ready: Callable[[], None]) -> None:
    from analysis.server.app import make_app

    stopped = asyncio.Event()

    class Server(uvicorn.Server):  # type: ignore[name-defined]
        """Server that ends its streams on Ctrl-C before it waits for them, without an error."""

        def handle_exit(self, sig: int, frame: object) -> None:
            self.force_exit = stopped.is_set()
            self.should_exit = True
            stopped.set()

    config = uvicorn.Config(  # type: ignore[attr-defined]
        make_app(watch, stopped), log_level="error", lifespan="off", timeout_graceful_shutdown=2
    )
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
