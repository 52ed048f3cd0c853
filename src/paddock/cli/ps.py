"""``paddock ps``: the sessions of a server, and whether it is well. It asks over HTTP and imports no server."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, Namespace
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any

from paddock.cli.arguments import add_json
from paddock.cli.failures import FAILED, OK, CommandFailed, mistake
from paddock.cli.output import Output

if TYPE_CHECKING:
    import ssl

_LIMIT_S = 10.0
_MOST_BYTES = 1 << 24
_CODES = {401: "UNAUTHENTICATED", 403: "FORBIDDEN"}  # where the answer has none


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add_server(parser, "an operator's or observer's")


def add_server(parser: ArgumentParser, whose: str) -> None:
    """Which server to ask, and how."""
    url = "http://127.0.0.1:8000"
    parser.add_argument("--url", default=url, metavar="URL", help=f"the server (default {url})")
    parser.add_argument("--token", metavar="TOKEN", help=f"{whose} (default: PADDOCK_TOKEN)")
    parser.add_argument("--ca", metavar="FILE", help="certificates to believe, PEM (default: the system's)")
    add_json(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Print one row for each session."""
    server = ServerAt(arguments)
    health = server.ask("GET", "/health")
    status = health.get("status", "unknown")
    queue = {name: health[name] for name in ("workers_starting", "sessions_waiting") if name in health}
    sessions = server.ask("GET", "/sessions").get("sessions", [])
    if arguments.json:
        output.document({"status": status, **queue, "sessions": sessions})
        return OK
    counts = {"sessions": len(sessions), **queue}
    words = ", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in counts.items())
    output.line(f"{server.address} is {status}; {words}")
    if sessions:
        output.table(_COLUMNS, [[_cell(row, name) for name in _FIELDS] for row in sessions])
    return OK


_FIELDS = ["session", "environment", "principal", "pid", "age_s", "idle_s", "waits_s", "replies", "connected"]
_COLUMNS = ["session", "environment", "whose", "pid", "age s", "idle s", "waits s", "replies", "connected"]


def _cell(row: dict[str, Any], name: str) -> object:
    """A process' id is a name, to be copied as it is: no number with separators."""
    return str(row.get(name)) if name == "pid" else row.get(name)


class ServerAt:
    """The server that the options name. It is asked over HTTP, each time on a connection of its own."""

    def __init__(self, arguments: Namespace) -> None:
        from paddock.hosting.remote_address import parse_address

        self.address = parse_address(arguments.url, token=arguments.token)
        if arguments.ca is not None and not self.address.secure:
            raise mistake("--ca is for TLS. Use it with an https:// URL, or drop it.")
        self._context = None if arguments.ca is None else _tls_context(arguments.ca)

    def ask(self, method: str, path: str) -> Any:
        """The JSON object that answers; CommandFailed for anything else."""
        from paddock.hosting.websocket.dialing import dial

        endpoint = self.address.endpoint(path)
        connection = HTTPConnection(endpoint.host, endpoint.port, timeout=_LIMIT_S)
        headers = {"Host": endpoint.host_header, "Accept": "application/json"}
        if self.address.authorization is not None:
            headers["Authorization"] = self.address.authorization
        try:
            connection.sock = dial(endpoint, time.monotonic() + _LIMIT_S, self._context)
            connection.sock.settimeout(_LIMIT_S)
            connection.request(method, endpoint.path, headers=headers)
            response = connection.getresponse()
            status, body = response.status, response.read(_MOST_BYTES)
        except (OSError, HTTPException) as error:
            untrusted = type(error).__name__ == "SSLCertVerificationError" and self._context is None
            hint = ". For a certificate of your own: --ca FILE" if untrusted else ""
            text = f"{self.address} does not answer: {error}{hint}"
            raise CommandFailed(text, exit_code=FAILED, code="UNREACHABLE") from error
        finally:
            connection.close()
        return self._read(status, body)

    def _read(self, status: int, body: bytes) -> Any:
        try:
            value = json.loads(body)
        except ValueError:
            value = None
        if status == 200 and isinstance(value, dict):
            return value
        answer = value if isinstance(value, dict) else {}
        why, code = str(answer.get("detail", "")), answer.get("code")
        text = f"{self.address} answered {status}. {why}".rstrip()
        if status == 401:
            text = f"{self.address} wants a token: --token, or the variable PADDOCK_TOKEN."
        code = code if isinstance(code, str) else _CODES.get(status, "REFUSED")
        raise CommandFailed(text, exit_code=FAILED, code=code)


def _tls_context(file: str) -> ssl.SSLContext:
    import ssl

    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:  # SSLError is one
        raise mistake(f"--ca {file}: no certificates can be read from it: {error.strerror or error}") from error
