"""A server for one machine: it listens on 127.0.0.1 and gives out nothing but what was made for it.

Every answer is looked up by its exact name among things held in memory, so that no path leads to the disk. The Host
header must name this machine, so that no page from elsewhere can reach it under a name of its own. The address holds a
token, since everybody on this machine can connect.
"""

import errno
import hmac
import json
import secrets
import socket
import socketserver
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from baton.errors import BadInput
from baton.store import Store
from baton.study import Study
from baton.watch.live import Live

HOST = "127.0.0.1"
MOST = 32  # connections at a time
ASKING, LONGEST = 10.0, 120.0  # seconds, in all: until a request is there, and until it is answered
KINDS = {
    "csv": "text/csv; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "md": "text/plain; charset=utf-8",
    "pdf": "application/pdf",
    "png": "image/png",
    "svg": "image/svg+xml",
    "tex": "text/plain; charset=utf-8",
}
NAMES = {"/": "index.html", "/fresh": "fresh.json"}  # the others are called what they are
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Server(ThreadingHTTPServer):
    """Gives out what a Live holds."""

    daemon_threads = True

    def __init__(self, live: Live, port: int) -> None:
        self.live, self.token = live, secrets.token_urlsafe(16)
        self._room = threading.BoundedSemaphore(MOST)
        super().__init__((HOST, port), Handler)

    def server_bind(self) -> None:
        """Without asking for the machine's name, which may take long where there is no network."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    @property
    def address(self) -> str:
        """Where to look; its token is what other users of this machine do not know."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> set[str]:
        """What a Host header may say."""
        names = (HOST, "localhost")
        return {f"{name}:{self.server_port}" for name in names} | (set(names) if self.server_port == 80 else set())

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, which ends in time; refused where too many are at it."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """As it is, and room for another one at its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is nothing to report."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _hang_up_after(seconds: float, request: Any) -> threading.Timer:
    """Return a clock that ends a connection, unless it is stopped before."""

    def hang_up() -> None:
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    clock = threading.Timer(seconds, hang_up)
    clock.daemon = True
    clock.start()
    return clock


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    server_version, sys_version = "baton", ""
    timeout = 10

    def setup(self) -> None:
        """A byte now and then keeps nobody waiting for ever."""
        super().setup()
        self._clock = _hang_up_after(ASKING, self.request)

    def parse_request(self) -> bool:
        """Return whether it is one; all of it is there now."""
        sound = super().parse_request()
        self._clock.cancel()
        self._clock = _hang_up_after(LONGEST, self.request)
        return sound

    def finish(self) -> None:
        """It is answered."""
        self._clock.cancel()
        super().finish()

    def do_GET(self) -> None:
        """The page, one of its files, or what is new."""
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            self._refuse(HTTPStatus.FORBIDDEN, f"this page is at {self.server.address} only")
            return
        token, slash, rest = self.path.split("?")[0].removeprefix("/").partition("/")
        if not slash or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse(HTTPStatus.FORBIDDEN, "the address that 'baton watch' printed, with its token, is right")
            return
        path = f"/{unquote(rest)}"
        if path == "/state":
            self._send(json.dumps(self.server.live.state()).encode(), KINDS["json"])
            return
        name = NAMES.get(path, path[1:] if path.startswith("/") else "")
        make = self.server.live.look().files.get(name)
        if make is None:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such file here")
            return
        self._send(make(), KINDS[name.rpartition(".")[2]])

    do_HEAD = do_GET  # noqa: N815

    def _other(self) -> None:
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "GET and HEAD are right", {"Allow": "GET, HEAD"})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _other  # noqa: N815

    def _refuse(self, status: HTTPStatus, why: str, more: dict[str, str] | None = None) -> None:
        self._send(f"{why}\n".encode(), "text/plain; charset=utf-8", status, more)

    def _send(
        self, data: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK, more: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **(more or {}), "Content-Type": kind, "Content-Length": len(data)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """The page asks every two seconds: nothing to print."""


def server(studies: Sequence[Study], store: Store, port: int) -> Server:
    """A server for these studies, ready to serve; port 0 takes any that is free."""
    live = Live(studies, store)
    try:
        return Server(live, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BadInput(f"port: {port} is taken; another one, or 0 for any that is free, is right") from None
        if isinstance(error, PermissionError):
            raise BadInput(f"port: {port} is not allowed here; one from 1024 to 65535 is right") from None
        raise
