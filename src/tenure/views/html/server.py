"""The page on loopback: whoever has its token gets the page, and detail when it asks.

A browser lets any site send requests to this machine. So every request must name this server as its host, the page
needs the token in its address, and the answers need it in a header, which no other site can send.
"""

from __future__ import annotations

import hmac
import http.server
import json
import secrets
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tenure.errors import TenureError
from tenure.views.html import page
from tenure.views.html.detail import Detail

if TYPE_CHECKING:
    from tenure.traces import Trace

HEADER = "X-Tenure-Token"
_SAFE = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_PATIENCE = 10  # seconds for a request to come


class Server(http.server.ThreadingHTTPServer):
    """Serves one trace; `url` is what to open."""

    daemon_threads = True

    def __init__(self, trace: Trace, told: dict[str, Any], port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self.page = page.render({**told, "server": {"token": self.token}}).encode()
        self.detail = Detail(trace, [site["number"] for site in told["trace"]["sites"]])
        self.busy = threading.Lock()  # the scan is not for two at a time
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.server_port}/?token={self.token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names by which a browser may know this server: any other was made to lead here."""
        return (f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}")


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "tenure", ""
    timeout = _PATIENCE

    def do_GET(self) -> None:
        """Answer with the page, or with details for it."""
        if self.headers.get("Host") not in self.server.hosts:
            return self._say(HTTPStatus.FORBIDDEN, "this server accepts only its own host name")
        try:
            address = urlsplit(self.path)
            asked = {name: values[-1] for name, values in parse_qs(address.query, max_num_fields=8).items()}
        except ValueError:
            return self._say(HTTPStatus.BAD_REQUEST, "this is not a valid address")
        answers: dict[str, Callable[[dict[str, str]], Any]] = {
            "/api/timeline": self.server.detail.timeline,
            "/api/alive": self.server.detail.alive,
            "/api/lives": self.server.detail.lives,
        }
        is_page = address.path == "/"
        if not is_page and address.path not in answers:
            return self._say(HTTPStatus.NOT_FOUND, "there is no such page")
        token = asked.get("token", "") if is_page else self.headers.get(HEADER, "")
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            return self._say(
                HTTPStatus.FORBIDDEN, "the token is missing or wrong: open the address that tenure printed"
            )
        if is_page:
            return self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
        try:
            with self.server.busy:
                told = answers[address.path](asked)
        except ValueError as error:
            return self._say(HTTPStatus.BAD_REQUEST, str(error))
        except TenureError as error:
            return self._say(HTTPStatus.CONFLICT, str(error))
        return self._send(HTTPStatus.OK, "application/json", json.dumps(told, separators=(",", ":")).encode())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Say what is wrong in a line: nothing that was sent is sent back."""
        status = HTTPStatus(code)
        self._say(HTTPStatus.METHOD_NOT_ALLOWED if status == HTTPStatus.NOT_IMPLEMENTED else status, status.phrase)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the class above
        """Print nothing."""

    def _say(self, status: HTTPStatus, text: str) -> None:
        self.close_connection = True
        self._send(status, "text/plain; charset=utf-8", f"{text}\n".encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in {**_SAFE, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
