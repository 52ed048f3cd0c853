"""``paddock serve``: environments for others, over HTTP and websockets. Each session has a worker behind a wall."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from paddock.cli.arguments import integer
from paddock.cli.failures import OK, mistake
from paddock.cli.output import Output


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="ids, folders with a paddock.toml, module:Id-v0 …")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default 127.0.0.1: this machine only)")
    parser.add_argument("--port", type=integer(0), default=8000, metavar="N", help="default 8000; 0 takes a free one")
    parser.add_argument("--uds", type=Path, metavar="PATH", help="listen on a unix socket instead")
    parser.add_argument("--isolation", metavar="KIND", help="the wall: sandbox (default), landlock or auto")
    parser.add_argument("--max-sessions", type=integer(1), default=256, metavar="N", help="default 256")
    parser.add_argument("--deadline", type=_seconds, default=30.0, metavar="S", help="for one request (default 30)")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="lines 'role token'; without a role: operator")
    parser.add_argument("--allow-origin", action="append", default=[], metavar="URL", help="a web page that may ask")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE")
    parser.add_argument("--tls-key", type=Path, metavar="FILE")
    parser.add_argument("--journal", type=Path, metavar="DIR", help="keep deterministic sessions over restarts")
    parser.add_argument("--production", action="store_true", help="close reset, step and state on every path")
    parser.add_argument("--wire", choices=["0.10", "0.3"], default="0.10", help="which OpenEnv's bytes (default 0.10)")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no positive number of seconds")
    return value


def run(arguments: Namespace, output: Output) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    from paddock.server.principals import Tokens
    from paddock.server.run import run as serve
    from paddock.server.served import served_from
    from paddock.server.settings import Settings

    settings = Settings(
        host=arguments.host,
        port=arguments.port,
        uds=arguments.uds,
        max_sessions=arguments.max_sessions,
        sessions_each=arguments.max_sessions,
        deadline_s=arguments.deadline,
        tls_cert=arguments.tls_cert,
        tls_key=arguments.tls_key,
        origins=frozenset(origin.lower().rstrip("/") for origin in arguments.allow_origin),
        journal=arguments.journal,
        mode="production" if arguments.production else "simulation",
        wire=arguments.wire,
    )
    settings.check()
    served = served_from(arguments.targets, arguments.isolation, deadline_s=arguments.deadline)
    token = None
    if arguments.token_file is not None:
        try:
            tokens = Tokens.from_file(arguments.token_file)
        except OSError as error:
            raise mistake(f"--token-file {arguments.token_file}: {error.strerror}") from error
    else:
        tokens, token = Tokens.fresh()
    serve(served, settings, tokens, when_ready=lambda addresses: _ready(output, settings, addresses, token, served))
    return OK


def _ready(output: Output, settings: Any, addresses: list[Any], token: str | None, served: list[Any]) -> None:
    scheme = "https" if settings.tls_cert is not None else "http"
    for address in addresses:
        place = f"{scheme}://{address[0]}:{address[1]}" if isinstance(address, tuple) else f"{scheme}+unix://{address}"
        output.line(f"serving {', '.join(one.name for one in served)} on {place}")
    if token is not None:
        output.line(f"token {token}")
    sys.stdout.flush()
