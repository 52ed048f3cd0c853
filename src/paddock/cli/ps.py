"""``paddock ps`` and ``paddock kill``: the sessions of a server, asked over HTTP. Ending one is for operators."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, Namespace
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote

from paddock.cli.output import FAILED, OK, CommandFailed, Output, mistake

_LIMIT_S = 10.0
_MOST_BYTES = 1 << 24
_CODES = {401: "UNAUTHENTICATED", 403: "FORBIDDEN"}  # where the answer has none


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add_server(parser, "an operator's or observer's")


def add_server(parser: ArgumentParser, whose: str) -> None:
    """Add the options that name a server."""
    url = "http://127.0.0.1:8000"
    parser.add_argument("--url", default=url, metavar="URL", help=f"the server (default {url})")
    parser.add_argument("--token", metavar="TOKEN", help=f"{whose} token (default: PADDOCK_TOKEN)")
    parser.add_argument("--ca", metavar="FILE", help="certificates to trust, PEM (default: the system's)")


def run(arguments: Namespace, output: Output) -> int:
    """Print one row for each session."""
    server = ServerAt(arguments)
    health = server.ask("GET", "/health")
    status = health.get("status", "unknown")
    queue = {name: health[name] for name in ("workers_starting", "sessions_waiting") if name in health}
    answer = server.ask("GET", "/sessions")
    sessions, missing = answer.get("sessions", []), answer.get("missing", [])
    if arguments.json:
        more = {"missing": missing} if missing else {}
        output.document({"status": status, **queue, "sessions": sessions, **more})
        return OK
    for name in missing:
        output.line(f"{name} did not say which sessions it has")
    counts = {"sessions": len(sessions), **queue}
    words = ", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in counts.items())
    output.line(f"{server.address} is {status}; {words}")
    if sessions:
        # A process id is text, to be copied as it is, not a number with separators.
        rows = [{**row, "pid": str(row.get("pid"))} for row in sessions]
        output.table(_COLUMNS, [[row.get(name) for name in _FIELDS] for row in rows])
    return OK


_FIELDS = ["session", "environment", "principal", "pid", "age_s", "idle_s", "waits_s", "replies", "connected"]
_COLUMNS = ["session", "environment", "whose", "pid", "age s", "idle s", "waits s", "replies", "connected"]


def add_kill_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock kill``."""
    parser.add_argument("session", metavar="SESSION", help="as 'paddock ps' shows it")
    add_server(parser, "an operator's")


def run_kill(arguments: Namespace, output: Output) -> int:
    """End the session and its worker. Its client learns of it."""
    server = ServerAt(arguments)
    try:
        ended = server.ask("DELETE", f"/sessions/{quote(arguments.session, safe='')}")
    except CommandFailed as error:
        words = {
            "FORBIDDEN": f"Ending a session on {server.address} needs an operator's token.",
            "SESSION_GONE": f"{server.address} has no session {arguments.session[:40]!r}. Those it has: paddock ps",
        }
        text = words.get(error.code, str(error))
        raise CommandFailed(text, exit_code=FAILED, code=error.code) from error
    output.report(ended, f"ended {ended.get('session')}, {ended.get('environment')} of {ended.get('principal')}")
    return OK


def context_of(ca: Any) -> Any:
    """Return what trusts the certificates in the file of --ca and no others; None without one."""
    if ca is None:
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # SSLError is one
        raise mistake(f"--ca {ca}: can't read certificates from it: {error.strerror or error}") from error


class ServerAt:
    """The server that the options name. Each request has a connection of its own."""

    def __init__(self, arguments: Namespace, *, insecure: bool = False) -> None:
        """``insecure`` allows plain http to another machine, if there is no token to give away."""
        from paddock.hosting.remote_address import parse_address

        self.address = parse_address(arguments.url, token=arguments.token, insecure=insecure)
        if insecure and self.address.authorization is not None:
            parse_address(arguments.url, token=arguments.token)
        if arguments.ca is not None and not self.address.secure:
            raise mistake("--ca is for TLS. Use it with an https:// URL, or drop it.")
        self._context = context_of(arguments.ca)

    def ask(self, method: str, path: str) -> Any:
        """Return the JSON object of the answer; CommandFailed for anything else."""
        return self._check(*self.send(method, path))

    def send(self, method: str, path: str, document: Any = None, *, limit_s: float = _LIMIT_S) -> tuple[int, Any]:
        """Return the answer's status and JSON, None if it has none; CommandFailed if none comes."""
        from paddock.hosting.websocket.endpoint import dial

        endpoint = self.address.endpoint(path)
        connection = HTTPConnection(endpoint.host, endpoint.port, timeout=limit_s)
        headers = {"Host": endpoint.host_header, "Accept": "application/json"}
        if self.address.authorization is not None:
            headers["Authorization"] = self.address.authorization
        try:
            connection.sock = dial(endpoint, time.monotonic() + limit_s, self._context)
            connection.sock.settimeout(limit_s)
            body = None if document is None else json.dumps(document)
            if body is not None:
                headers["Content-Type"] = "application/json"
            connection.request(method, endpoint.path, body, headers)
            response = connection.getresponse()
            answer = response.read(_MOST_BYTES)
        except (OSError, HTTPException) as error:
            untrusted = type(error).__name__ == "SSLCertVerificationError" and self._context is None
            hint = ". For a certificate of your own: --ca FILE" if untrusted else ""
            text = f"{self.address} does not answer: {error}{hint}"
            raise CommandFailed(text, exit_code=FAILED, code="UNREACHABLE") from error
        finally:
            connection.close()
        try:
            return response.status, json.loads(answer)
        except (ValueError, RecursionError):
            return response.status, None

    def _check(self, status: int, value: Any) -> Any:
        if status == 200 and isinstance(value, dict):
            return value
        answer = value if isinstance(value, dict) else {}
        why, code = str(answer.get("detail", "")), answer.get("code")
        text = f"{self.address} answered {status}. {why}".rstrip()
        if status == 401:
            unknown = "does not know this token" if self.address.authorization else "wants a token"
            text = f"{self.address} {unknown}: --token, or the variable PADDOCK_TOKEN."
        code = code if isinstance(code, str) else _CODES.get(status, "REFUSED")
        raise CommandFailed(text, exit_code=FAILED, code=code)
