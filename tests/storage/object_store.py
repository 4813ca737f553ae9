"""A local S3 (moto's server in a process of its own), and a proxy before it that loses and delays."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

BUCKET = "leagues"
WAIT_SECONDS = 60.0  # for the server to start on a busy machine


class Fault(Enum):
    """What may happen to a request."""

    NONE = "none"
    ERROR = "500"  # refused, nothing done
    BUSY = "503"
    DONE_BUT_ERROR = "500, but done"
    LOST_REPLY = "done, but the connection breaks"
    LOST_REQUEST = "the connection breaks, nothing done"
    TIMEOUT = "done, but the reply comes too late"


def from_seed(seed: int, rate: float) -> Callable[[str, str], Fault]:
    """Faults for a share `rate` of all requests, each kind as often as the others."""
    rng, lock = np.random.default_rng(seed), threading.Lock()
    kinds = [fault for fault in Fault if fault is not Fault.NONE]

    def choose(method: str, path: str) -> Fault:
        with lock:
            return kinds[rng.integers(len(kinds))] if rng.random() < rate else Fault.NONE

    return choose


@contextlib.contextmanager
def local_s3() -> Iterator[int]:
    """The port of a fresh S3 on this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                assert _ask(port, "PUT", f"/{BUCKET}", {}, b"").status == 200
                break
            except OSError:
                assert server.poll() is None, "moto's server ended"
                assert time.monotonic() < deadline, "moto's server does not answer"
                time.sleep(0.1)
        yield port
    finally:
        server.kill()
        server.wait()


class Proxy(ThreadingHTTPServer):
    """Passes requests on to `port`, with what `fault(method, path)` does to them.

    One conditional PUT at a time is passed on: moto looks and writes in two steps, which S3 does in one.
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = port
        self.fault: Callable[[str, str], Fault] = lambda method, path: Fault.NONE
        self.requests: list[tuple[str, str, Fault]] = []
        self.conditional = threading.Lock()
        self.late_seconds = 1.0
        self.ignored_header = ""

    def handle_error(self, *_: object) -> None:
        """A client that went away is what these tests are about."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextlib.contextmanager
def faulty_proxy(port: int) -> Iterator[Proxy]:
    """A proxy before the S3 at `port`, faultless until its `fault` is set."""
    with Proxy(port) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


@pytest.fixture(name="s3_server", scope="session")
def shared_server() -> Iterator[Proxy]:
    """One S3 behind one proxy for all tests: starting it takes a second."""
    with local_s3() as port, faulty_proxy(port) as proxy:
        yield proxy


@pytest.fixture(name="proxy")
def clean_proxy(s3_server: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The S3 that this process's environment names, faultless at first."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    s3_server.requests.clear()
    yield s3_server
    s3_server.fault = lambda method, path: Fault.NONE
    s3_server.late_seconds = 1.0
    s3_server.ignored_header = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.server.fault(self.command, self.path)
        self.server.requests.append((self.command, self.path, fault))
        if fault in (Fault.ERROR, Fault.BUSY):
            self._reply(int(fault.value), {}, b"<Error><Code>InternalError</Code></Error>")
            return
        if fault is Fault.LOST_REQUEST:
            self.close_connection = True
            return
        one_by_one = self.server.conditional if "If-None-Match" in self.headers else contextlib.nullcontext()
        with one_by_one:
            headers = {k: v for k, v in self.headers.items() if k.lower() != self.server.ignored_header}
            reply = _ask(self.server.upstream, self.command, self.path, headers, body)
            data = reply.read()
        if fault is Fault.TIMEOUT:
            time.sleep(self.server.late_seconds)
        if fault in (Fault.LOST_REPLY, Fault.TIMEOUT):
            self.close_connection = True
        elif fault is Fault.DONE_BUT_ERROR:
            self._reply(500, {}, b"<Error><Code>InternalError</Code></Error>")
        else:
            self._reply(reply.status, dict(reply.getheaders()), data)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815  # http.server's names

    def _reply(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response_only(status)
        length = headers.pop("Content-Length", None) if self.command == "HEAD" else str(len(data))
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _ask(port: int, method: str, path: str, headers: dict[str, str], body: bytes) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body=body, headers=headers)
    return connection.getresponse()
