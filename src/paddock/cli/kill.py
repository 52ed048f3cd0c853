"""``paddock kill``: end one session of a server, and its worker. For operators alone; its client is told so."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from urllib.parse import quote

from paddock.cli.failures import FAILED, OK, CommandFailed
from paddock.cli.output import Output
from paddock.cli.ps import ServerAt, add_server


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("session", metavar="SESSION", help="as 'paddock ps' shows it")
    add_server(parser, "an operator's")


def run(arguments: Namespace, output: Output) -> int:
    """End it."""
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
    if output.json:
        output.document(ended)
    else:
        output.line(f"ended {ended.get('session')}, {ended.get('environment')} of {ended.get('principal')}")
    return OK
