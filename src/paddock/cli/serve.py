"""``paddock serve``: serve environments over HTTP and websockets. Each session has a worker behind a wall."""

from __future__ import annotations

import os
import re
import sys
import threading
from argparse import ArgumentParser, Namespace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from paddock.cli.environment import find_modules_here
from paddock.cli.output import OK, Output, agree, error_message, mistake, printable
from paddock.cli.program import integer, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from paddock.server.auth import Tokens
    from paddock.server.served_env import ServedEnv
    from paddock.server.settings import Quota, Settings

_PORT = 8000
_AMOUNT = partial(seconds, below=float("inf"), expected="a number above 0")


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help="ids, folders with a paddock.toml or openenv.yaml, module:Id-v0 …"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML with these options by name; flags win")
    add_options(parser)


def add_options(parser: ArgumentParser) -> None:
    """All but the targets, which ``paddock openenv serve`` shares."""
    add = parser.add_argument
    add_listening_options(parser, None, "default 8000, or what openenv.yaml says; 0 takes a free one")
    add("--isolation", metavar="KIND", help="the wall: sandbox (default), landlock, docker, podman, gvisor or auto")
    add("--grant", action="store_true", help="grant folders the permissions that they ask for")
    add("--install", action="store_true", help="install what folders ask for, wheels only, after asking")
    add("--yes", action="store_true", help="install without asking")
    add("--processes", type=integer(1), metavar="N", help="that serve, on one port (default: one per core on Linux)")
    add("--max-sessions", type=integer(1), default=256, metavar="N", help="default 256")
    add(
        "--sessions-each",
        type=integer(1),
        metavar="N",
        help="sessions per token (default: all for operators, half of the rest for other roles)",
    )
    add(
        "--sessions-reserved", type=integer(0), metavar="N", help="sessions reserved for operators (default: an eighth)"
    )
    add("--max-memory", type=_AMOUNT, metavar="MB", help="memory of all workers together (default: no limit)")
    add("--rate-each", type=_AMOUNT, default=30_000.0, metavar="N", help="requests per second and token (30000)")
    add("--cpu-each", type=_AMOUNT, metavar="S", help="CPU seconds per hour and token (default: no limit)")
    add("--memory-each", type=_AMOUNT, metavar="MB", help="memory of a token's workers together (default: no limit)")
    add("--deadline", type=_AMOUNT, default=30.0, metavar="S", help="for one request (default 30)")
    add("--token-file", type=Path, metavar="FILE", help="lines 'role token'; without a role: operator")
    add("--journal", type=Path, metavar="DIR", help="keep deterministic sessions across restarts")
    add("--audit", type=Path, metavar="FILE", help="append the audit log to this file too, as JSON lines")
    add("--production", action="store_true", help="refuse reset, step and state on every path")
    add("--wire", choices=["0.10", "0.3"], default="0.10", help="the version of OpenEnv's wire format (default 0.10)")


# ── Shared with paddock gateway ──


def add_listening_options(parser: ArgumentParser, port: int | None, port_help: str) -> None:
    """Where to listen, and for whom."""
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="where to listen (default 127.0.0.1: this machine only)")
    add("-p", "--port", type=integer(0, 65535), default=port, metavar="N", help=port_help)
    add("--uds", type=Path, metavar="PATH", help="listen on a unix socket instead")
    add("--allow-origin", action="append", default=[], metavar="URL", help="a web page that may connect")
    add("--allow-host", action="append", default=[], metavar="NAME", help="a name by which clients or a proxy call it")
    add("--tls-cert", type=Path, metavar="FILE", help="PEM; needed to listen beyond this machine")
    add("--tls-key", type=Path, metavar="FILE", help="the certificate's key, PEM")


def listening(arguments: Namespace, **more: Any) -> Settings:
    """Return the settings of these options, and ``more`` of them, checked."""
    from paddock.server.settings import Settings

    if arguments.uds is not None and arguments.tls_cert is not None:
        raise mistake("--uds can be reached only from this machine, so it has no TLS. Drop --tls-cert and --tls-key.")
    for name in ("tls_cert", "tls_key"):
        file = getattr(arguments, name)
        if file is not None and not file.is_file():
            raise mistake(f"--{name.replace('_', '-')} {file}: there is no such file")
    settings = Settings(
        host=arguments.host,
        uds=arguments.uds,
        tls_cert=arguments.tls_cert,
        tls_key=arguments.tls_key,
        origins=frozenset(origin.lower().rstrip("/") for origin in arguments.allow_origin),
        hosts=frozenset(arguments.allow_host),
        **more,
    )
    settings.check()
    return settings


def serve_and_announce(
    serve: Callable[[Callable[[Sequence[Any]], None]], None],
    settings: Settings,
    output: Output,
    facts: dict[str, Any],
    announce: Callable[[str], str],
) -> int:
    """Serve until the end. ``serve`` is given what prints ``facts`` and the URLs as soon as requests are answered."""

    def ready(addresses: Sequence[Any]) -> None:
        urls = [url_of(address, secure=settings.tls_cert is not None) for address in addresses]
        if output.json:
            output.document({**facts, "urls": urls})
        else:
            for url in urls:
                output.line(announce(url))
            if facts.get("token"):
                output.line(f"token {facts['token']}")
        output.stdout.flush()

    try:
        serve(ready)
    except OSError as error:
        place = str(settings.uds) if settings.uds is not None else f"{settings.host}:{settings.port}"
        raise mistake(f"can't serve on {place}: {error.strerror or error}", "OS_ERROR") from error
    return OK


def url_of(address: Any, *, secure: bool = False) -> str:
    """Return the URL of a server that listens at ``address``, for clients."""
    if not isinstance(address, tuple):
        return f"http+unix://{quote(address, safe='')}"
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"{'https' if secure else 'http'}://{host}:{address[1]}"


# ── serve's own ──


def run(arguments: Namespace, output: Output) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    from paddock.making.target import split_folder
    from paddock.server.listener import run as serve

    if not arguments.targets:
        raise mistake("nothing to serve. Name a TARGET, such as CartPole-v1, or targets = […] in --config.")
    if arguments.grant and not any(split_folder(target) for target in arguments.targets):
        raise mistake("--grant applies to folders with a paddock.toml; none of the targets is one.")
    if arguments.install:
        _install(arguments, output)
    settings = _settings(arguments)
    if arguments.audit is not None:
        from paddock.server.telemetry import export_audit

        export_audit(arguments.audit)
    tokens, fresh = _tokens(arguments.token_file, settings.tenants)
    served = _load_environments(arguments)
    names = [one.name for one in served]
    return serve_and_announce(
        lambda ready: serve(served, settings, tokens, when_ready=ready),
        settings,
        output,
        {"environments": names, "token": fresh},
        lambda url: f"serving {', '.join(names)} on {url}",
    )


def read_config(file: Path) -> dict[str, Any]:
    """Read the options of a TOML file, as defaults for the command line. Paths are relative to the file's folder."""
    from paddock.package import read_toml

    parser = ArgumentParser(add_help=False)
    add_arguments(parser)
    options = {one.dest: one for one in parser._actions if one.dest != "config"}
    found: dict[str, Any] = {}
    document = read_toml(file)
    tenants = document.pop("tenants", {})
    if tenants:
        found["tenants"] = _read_tenants(file, tenants)
    for name, value in document.items():
        option = options.get(name.replace("-", "_"))
        if option is None:
            close = get_close_matches(name.replace("-", "_"), options, n=1)
            hint = f" Did you mean {close[0].replace('_', '-')!r}?" if close else ""
            raise mistake(f"--config {file}: there is no option {name[:80]!r}.{hint} See: paddock serve --help")
        many, switch = isinstance(option.default, list) or option.nargs == "*", option.nargs == 0
        kind: Any = list if many else bool if switch else (str, int, float)
        wrong = not isinstance(value, kind) or (isinstance(value, bool) and not switch)
        if wrong or (many and not all(isinstance(one, str) for one in value)):
            expected = "a list of strings" if many else "true or false" if switch else "a string or a number"
            raise mistake(f"--config {file}: {name} = {str(value)[:80]!r}: expected {expected}")
        if option.choices is not None and value not in option.choices:
            expected = ", ".join(f'"{one}"' for one in option.choices)
            raise mistake(f"--config {file}: {name} = {value!r}: expected one of {expected}")
        if option.type is Path:
            value = str(file.parent / value)
        elif name == "targets":
            value = [str(file.parent / one) if one.startswith(".") else one for one in value]
        found[option.dest] = value if many or switch else str(value)  # a text is checked as a flag's would be
    return found


def _read_tenants(file: Path, tenants: Any) -> dict[str, dict[str, float]]:
    """Read the quotas of tenants: tables of numbers."""
    number = (int, float)
    kinds: dict[str, Any] = {"sessions": int, "rate": number, "cpu": number, "memory": number}
    for tenant, quota in tenants.items() if isinstance(tenants, dict) else [("", None)]:
        place = f"--config {file}: [tenants.{tenant[:40]}]"
        if not isinstance(quota, dict) or not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", tenant):
            text = "expected tables [tenants.NAME] whose names have at most 32 of a-z, 0-9, '_' and '-'"
            raise mistake(f"{place}: {text}")
        for name, value in quota.items():
            if name not in kinds or isinstance(value, bool) or not isinstance(value, kinds[name]):
                raise mistake(f"{place}: {name[:40]} = {str(value)[:40]!r}: expected numbers for {', '.join(kinds)}")
    return dict(tenants)


def _load_environments(arguments: Namespace) -> list[ServedEnv]:
    from paddock.making.target import split_folder
    from paddock.server.served_env import prepare_envs

    if any(":" in target and split_folder(target) is None for target in arguments.targets):
        find_modules_here()
    try:
        grant, deadline_s = arguments.grant, arguments.deadline
        return prepare_envs(arguments.targets, arguments.isolation, deadline_s=deadline_s, grant=grant)
    except ModuleNotFoundError as error:  # nothing of the targets is imported here, only looked for
        raise mistake(f"can't serve: {error_message(error)}", "MODULE_NOT_FOUND") from error


def _port(arguments: Namespace) -> int:
    """Return the port that the only folder's openenv.yaml names, or the usual one."""
    from paddock.making.target import split_folder
    from paddock.package import read_manifest

    folder = split_folder(arguments.targets[0]) if len(arguments.targets) == 1 else None
    openenv = read_manifest(folder[0]).openenv if folder is not None else None
    return _PORT if openenv is None or openenv.port is None else openenv.port


def _install(arguments: Namespace, output: Output) -> None:
    """Say what the folders ask for, and install it if the user agrees."""
    from paddock.making import locate
    from paddock.package.dependencies import find_wanted, install

    folders = [one.folder for one in map(locate, arguments.targets) if one.folder is not None]
    if not folders:
        raise mistake("--install applies to folders with a manifest; none of the targets is one.")
    for wanted in map(find_wanted, folders):
        if not wanted.lines or wanted.place.is_dir():
            continue
        for sentence in wanted.sentences():
            output.stderr.write(f"{printable(sentence)}\n")
        output.stderr.flush()
        if not arguments.yes and not agree(output, "Install them?", "--install asks before it installs"):
            raise mistake("nothing was installed.")
        install(wanted)


def _settings(arguments: Namespace) -> Settings:
    from paddock.server.settings import Quota

    return listening(
        arguments,
        port=_port(arguments) if arguments.port is None else arguments.port,
        processes=arguments.processes or _default_processes(),
        max_sessions=arguments.max_sessions,
        sessions_each=arguments.sessions_each,
        sessions_reserved=arguments.sessions_reserved,
        rate_per_s=arguments.rate_each,
        max_memory=arguments.max_memory,
        cpu_each=arguments.cpu_each,
        memory_each=arguments.memory_each,
        tenants={name: Quota(**quota) for name, quota in getattr(arguments, "tenants", {}).items()},
        deadline_s=arguments.deadline,
        journal=arguments.journal,
        mode="production" if arguments.production else "simulation",
        wire=arguments.wire,
    )


def _default_processes() -> int:
    """One per core, where several are possible: on Linux, in a program that has no threads."""
    from paddock.server.settings import MOST_PROCESSES

    if sys.platform != "linux" or threading.active_count() > 1:
        return 1
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


def _tokens(file: Path | None, tenants: Mapping[str, Quota]) -> tuple[Tokens, str | None]:
    """Return the tokens of the file, or a new token, which is printed once."""
    from paddock.server.auth import Tokens

    if file is None:
        return Tokens.fresh()
    try:
        return Tokens.from_file(file, tenants), None
    except OSError as error:
        raise mistake(f"--token-file {file}: {error.strerror}") from error
