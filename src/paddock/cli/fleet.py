"""``paddock gateway`` and ``paddock deploy``: a gateway before several servers, and manifests for them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.cli.output import OK, Output, mistake
from paddock.cli.program import integer
from paddock.cli.ps import context_of
from paddock.cli.serve import add_listening_options, listening, serve_and_announce
from paddock.errors import PlanError

if TYPE_CHECKING:
    from paddock.hosting.remote_address import RemoteAddress


def add_gateway_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock gateway``."""
    add = parser.add_argument
    add("--server", action="append", required=True, metavar="URL", help="a server; may be given several times")
    add("--drain", action="append", default=[], metavar="URL", help="one of them that gets no new sessions")
    add("--ca", type=Path, metavar="FILE", help="certificates of the servers to trust, PEM (default: the system's)")
    add("--insecure", action="store_true", help="plain http to servers on other machines: anyone between reads tokens")
    add_listening_options(parser, 8100, "default 8100; 0 takes a free one")


def run_gateway(arguments: Namespace, output: Output) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    from paddock.fleet.proxy import run as serve

    servers = [_address(url, arguments.insecure) for url in arguments.server]
    drained = [_address(url, arguments.insecure) for url in arguments.drain]
    names = [str(one) for one in servers]
    if len(set(names)) < len(names):
        raise mistake("a --server is given twice")
    if strange := [str(one) for one in drained if str(one) not in names]:
        raise mistake(f"--drain {strange[0]} is not one of the servers: {', '.join(names)}")
    settings = listening(arguments, port=arguments.port)
    context = context_of(arguments.ca)
    return serve_and_announce(
        lambda ready: serve(servers, settings, drained=drained, context=context, when_ready=ready),
        settings,
        output,
        {"servers": names},
        lambda url: f"gateway on {url} to {', '.join(names)}",
    )


def _address(url: str, insecure: bool) -> RemoteAddress:
    from paddock.hosting.remote_address import parse_address

    try:
        address = parse_address(url, insecure=insecure, environ={})
    except PlanError as error:
        words = str(error).replace("remote=paddock.RemoteOptions(insecure=True)", "--insecure")
        raise mistake(f"--server: {words}") from None
    if address.authorization is not None:
        raise mistake("the URL of a --server has a token. Drop it: clients send their own, and servers check them.")
    if address.path:  # what is above it would be a way around it
        raise mistake(f"the URL of a --server ends with its port, and {address} goes on. Drop the path: {address.path}")
    return address


def add_deploy_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock deploy``."""
    add = parser.add_argument
    add("engine", choices=["k8s", "compose", "systemd"], help="what runs the servers")
    add("targets", nargs="*", default=[], metavar="TARGET", help="the environments to serve (default CartPole-v1)")
    add("--out", type=Path, metavar="DIR", help="write the files there; only new ones (default: print them)")
    add("--image", default="paddock-envs:latest", metavar="IMAGE", help="what containers run")
    add("--name", default="paddock", metavar="NAME", help="of everything that is made (default paddock)")
    add("--replicas", type=integer(1), default=3, metavar="N", help="servers (default 3)")
    add("--max-sessions", type=integer(1), default=64, metavar="N", help="per server (default 64)")
    add("--allow-host", default="envs.example.org", metavar="HOST", help="the name by which clients call it")


def run_deploy(arguments: Namespace, output: Output) -> int:
    """Print the files, or write them."""
    from paddock.fleet.deploy import Deployment, manifests

    chosen = Deployment(
        image=arguments.image,
        targets=tuple(arguments.targets) or ("CartPole-v1",),
        name=arguments.name,
        replicas=arguments.replicas,
        max_sessions=arguments.max_sessions,
        host=arguments.allow_host,
    )
    files = manifests(arguments.engine, chosen)
    if arguments.out is not None:
        _write(arguments.out, files)
    if output.json:
        output.document({"files": files if arguments.out is None else [str(arguments.out / name) for name in files]})
        return OK
    for name, text in files.items():
        if arguments.out is not None:
            output.line(str(arguments.out / name))
            continue
        if len(files) > 1:
            output.line(f"# {name}")
        for line in text.splitlines():
            output.line(line)
    return OK


def _write(folder: Path, files: dict[str, str]) -> None:
    if there := [name for name in files if (folder / name).exists()]:
        raise mistake(f"{folder / there[0]} exists. Remove it, or choose another --out.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
