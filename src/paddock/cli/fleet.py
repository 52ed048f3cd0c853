"""``paddock gateway`` and ``paddock deploy``: a gateway before several servers, and manifests for them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.output import OK, Output, mistake
from paddock.cli.program import integer
from paddock.cli.serve import url_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.hosting.remote_address import RemoteAddress


def add_gateway_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock gateway``."""
    add = parser.add_argument
    add("--server", action="append", required=True, metavar="URL", help="a server; may be given several times")
    add("--drain", action="append", default=[], metavar="URL", help="one of them that gets no new sessions")
    add("--ca", type=Path, metavar="FILE", help="certificates of the servers to trust, PEM (default: the system's)")
    add("--insecure", action="store_true", help="plain http to servers on other machines: anyone between reads tokens")
    add("--host", default="127.0.0.1", help="where to listen (default 127.0.0.1: this machine only)")
    add("-p", "--port", type=integer(0, 65535), default=8100, metavar="N", help="default 8100; 0 takes a free one")
    add("--uds", type=Path, metavar="PATH", help="listen on a unix socket instead")
    add("--allow-origin", action="append", default=[], metavar="URL", help="a web page that may connect")
    add("--allow-host", action="append", default=[], metavar="NAME", help="a name by which clients call this gateway")
    add("--tls-cert", type=Path, metavar="FILE", help="PEM; needed to listen beyond this machine")
    add("--tls-key", type=Path, metavar="FILE", help="the certificate's key, PEM")


def run_gateway(arguments: Namespace, output: Output) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    from paddock.fleet.proxy import run as serve
    from paddock.server.settings import Settings

    servers = [_address(url, arguments.insecure) for url in arguments.server]
    drained = [_address(url, arguments.insecure) for url in arguments.drain]
    names = [str(one) for one in servers]
    if len(set(names)) < len(names):
        raise mistake("a --server is given twice")
    if strange := [str(one) for one in drained if str(one) not in names]:
        raise mistake(f"--drain {strange[0]} is not one of the servers: {', '.join(names)}")
    settings = Settings(
        host=arguments.host,
        port=arguments.port,
        uds=arguments.uds,
        tls_cert=arguments.tls_cert,
        tls_key=arguments.tls_key,
        origins=frozenset(origin.lower().rstrip("/") for origin in arguments.allow_origin),
        hosts=frozenset(arguments.allow_host),
    )
    settings.check()

    def ready(addresses: Sequence[Any]) -> None:
        urls = [url_of(address, secure=settings.tls_cert is not None) for address in addresses]
        if output.json:
            output.document({"servers": names, "urls": urls})
        else:
            for url in urls:
                output.line(f"gateway on {url} to {', '.join(names)}")
        output.stdout.flush()

    try:
        serve(servers, settings, drained=drained, context=_context(arguments.ca), when_ready=ready)
    except OSError as error:
        place = str(settings.uds) if settings.uds is not None else f"{settings.host}:{settings.port}"
        raise mistake(f"can't serve on {place}: {error.strerror or error}", "OS_ERROR") from error
    return OK


def _address(url: str, insecure: bool) -> RemoteAddress:
    from paddock.hosting.remote_address import parse_address

    address = parse_address(url, insecure=insecure, environ={})
    if address.authorization is not None:
        raise mistake("the URL of a --server has a token. Drop it: clients send their own, and servers check them.")
    return address


def _context(ca: Path | None) -> Any:
    if ca is None:
        return None
    import ssl

    from paddock.hosting.websocket.endpoint import default_context

    context = default_context()
    try:
        context.load_verify_locations(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise mistake(f"--ca {ca}: can't read certificates from it: {getattr(error, 'strerror', error)}") from error
    return context


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
