"""``paddock deploy``: print manifests for Kubernetes, compose or systemd. Nothing is applied."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from paddock.cli.output import OK, Output, mistake
from paddock.cli.program import integer


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add("engine", choices=["k8s", "compose", "systemd"], help="what runs the servers")
    add("targets", nargs="*", metavar="TARGET", help="the environments to serve (default CartPole-v1)")
    add("--out", type=Path, metavar="DIR", help="write the files there; only new ones (default: print them)")
    add("--image", default="paddock-envs:latest", metavar="IMAGE", help="what containers run")
    add("--name", default="paddock", metavar="NAME", help="of everything that is made (default paddock)")
    add("--replicas", type=integer(1), default=3, metavar="N", help="servers (default 3)")
    add("--max-sessions", type=integer(1), default=64, metavar="N", help="per server (default 64)")
    add("--allow-host", default="envs.example.org", metavar="HOST", help="the name by which clients call it")


def run(arguments: Namespace, output: Output) -> int:
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
