"""``paddock ps``: the sessions of a server, and whether it is well. It asks over HTTP and imports no server."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, Namespace
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any

from paddock.cli.arguments import add_json
from paddock.cli.failures import FAILED, OK, CommandFailed
from paddock.cli.output import Output

if TYPE_CHECKING:
    from paddock.hosting.remote_address import RemoteAddress

_LIMIT_S = 10.0
_MOST_BYTES = 1 << 24


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    url = "http://127.0.0.1:8000"
    parser.add_argument("--url", default=url, metavar="URL", help=f"the server (default {url})")
    parser.add_argument("--token", metavar="TOKEN", help="an operator's or observer's (default: PADDOCK_TOKEN)")
    add_json(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Print one row for each session."""
    from paddock.hosting.remote_address import parse_address

    address = parse_address(arguments.url, token=arguments.token)
    health = _get(address, "/health").get("status", "unknown")
    sessions = _get(address, "/sessions").get("sessions", [])
    if arguments.json:
        output.document({"status": health, "sessions": sessions})
        return OK
    output.line(f"{address} is {health}; sessions: {len(sessions)}")
    if sessions:
        output.table(_COLUMNS, [[_cell(row, name) for name in _FIELDS] for row in sessions])
    return OK


_FIELDS = ["session", "environment", "principal", "pid", "age_s", "idle_s", "waits_s", "replies", "connected"]
_COLUMNS = ["session", "environment", "whose", "pid", "age s", "idle s", "waits s", "replies", "connected"]


def _cell(row: dict[str, Any], name: str) -> object:
    """A process' id is a name, to be copied as it is: no number with separators."""
    return str(row.get(name)) if name == "pid" else row.get(name)


def _get(address: RemoteAddress, path: str) -> Any:
    """The JSON at a path of the server."""
    from paddock.hosting.websocket.dialing import dial

    endpoint = address.endpoint(path)
    connection = HTTPConnection(endpoint.host, endpoint.port, timeout=_LIMIT_S)
    headers = {"Host": endpoint.host_header, "Accept": "application/json"}
    if address.authorization is not None:
        headers["Authorization"] = address.authorization
    try:
        connection.sock = dial(endpoint, time.monotonic() + _LIMIT_S)
        connection.sock.settimeout(_LIMIT_S)
        connection.request("GET", endpoint.path, headers=headers)
        response = connection.getresponse()
        status, body = response.status, response.read(_MOST_BYTES)
    except (OSError, HTTPException) as error:
        raise CommandFailed(f"{address} does not answer: {error}", exit_code=FAILED, code="UNREACHABLE") from error
    finally:
        connection.close()
    return _read(address, status, body)


def _read(address: RemoteAddress, status: int, body: bytes) -> Any:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if status == 401:
        text = f"{address} wants a token: --token, or the variable PADDOCK_TOKEN."
        raise CommandFailed(text, exit_code=FAILED, code="UNAUTHENTICATED")
    if status != 200 or not isinstance(value, dict):
        why = value.get("detail", "") if isinstance(value, dict) else ""
        raise CommandFailed(f"{address} answered {status}. {why}".rstrip(), exit_code=FAILED, code="REFUSED")
    return value
