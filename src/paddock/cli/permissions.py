"""``paddock permissions``: what code behind the wall may do, in words. Reads manifests, and imports none of the code.

With two targets the exit code is 1 if the second asks for more, so that a pipeline can stop for review.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from paddock.cli.output import FAILED, OK, Output, mistake

if TYPE_CHECKING:
    from paddock.package import Manifest
    from paddock.sandbox.policy import Policy

_TARGET = "a folder with a paddock.toml, or an id, or my_module:Maze-v0"


@dataclass(frozen=True)
class Request:
    """What a target asks for. Without a ``manifest`` it gets the default.

    ``own``: an environment of paddock's own, which gets what paddock declares for it.
    """

    text: str
    policy: Policy
    manifest: Manifest | None = None
    own: bool = False

    @property
    def portable(self) -> Policy:
        """The policy in a form that can be compared with another version's."""
        return self.policy if self.manifest is None else self.manifest.portable(self.policy)


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add("target", metavar="TARGET", help=_TARGET)
    add("other", metavar="OTHER", nargs="?", help="another version: show the difference; 1 if it is wider")


def run(arguments: Namespace, output: Output) -> int:
    """Print one target's permissions, or how another's differ from them."""
    request = _read(arguments.target)
    if arguments.other is not None:
        return _compare(request, _read(arguments.other), output)
    from paddock.sandbox.policy import DEFAULT, explain, find_excess

    lines, beyond = explain(request.policy), find_excess(request.policy, DEFAULT)
    if output.json:
        output.document(
            {
                **_identity(request),
                "permissions": [{"topic": line.topic, "text": line.text, "weight": line.weight} for line in lines],
                "beyond_default": beyond,
                "policy": request.policy.to_dict(),
            }
        )
        return OK
    output.line(_title(request))
    output.facts([(line.topic, line.text) for line in lines])
    output.line()
    output.line(_grant(request, beyond))
    for one in beyond:
        output.line(f"  {one}")
    return OK


def _compare(old: Request, new: Request, output: Output) -> int:
    from paddock.sandbox.policy import compare_policies

    changes = compare_policies(old.portable, new.portable)
    wider = any(change.direction == "wider" for change in changes)
    if output.json:
        document = {"old": _identity(old), "new": _identity(new), "wider": wider}
        output.document({**document, "changes": [asdict(change) for change in changes]})
    elif not changes:
        output.line(f"{new.text} asks for the same as {old.text}.")
    else:
        rows = [[change.direction, change.topic, change.old, change.new] for change in changes]
        output.table(["", "permission", old.text, new.text], rows)
    return FAILED if wider else OK


def _read(text: str) -> Request:
    from paddock.making.target import split_folder

    if (named := split_folder(text)) is not None:
        from paddock.package import read_manifest

        folder, id = named
        manifest = read_manifest(folder)
        return Request(text, manifest.permissions_of(id) if id else manifest.permissions_of_all(), manifest)
    from paddock.making import locate
    from paddock.sandbox.policy import DEFAULT

    target = locate(text)
    if target.kind == "url":
        raise mistake(f"{text}: the server decides what runs there and how. Name a folder or an id.")
    if target.package is not None:
        from paddock.package import read_manifest

        return Request(text, target.asked or DEFAULT, read_manifest(target.package.folder))
    return Request(text, target.asked or DEFAULT, own=target.asked is not None)


def _identity(request: Request) -> dict[str, Any]:
    found = request.manifest
    package = None if found is None else {"name": found.name, "version": found.version}
    ids = [] if found is None else [env.spec.id for env in found.envs]
    return {"target": request.text, "package": package, "envs": ids}


def _title(request: Request) -> str:
    if request.own:
        return f"{request.text} is paddock's own. Behind the wall it gets what paddock declares for it:"
    if request.manifest is None:
        return f"{request.text} has no manifest. Behind the wall it gets the default:"
    ids = ", ".join(env.spec.id for env in request.manifest.envs)
    return f"{request.text} is {request.manifest.name} {request.manifest.version} with {ids}. It asks for:"


def _grant(request: Request, beyond: list[str]) -> str:
    if request.own:
        return "Beyond what other code gets by default:"
    if request.manifest is None:
        return "More must be asked for in a paddock.toml, or given with make(..., isolation=paddock.Policy(...))."
    if not beyond:
        return "All of it is within the default: nothing to grant."
    grant = f"make({request.text!r}, isolation=paddock.permissions({request.text!r}))"
    return f"Beyond the default, so it runs only if you grant it, with `paddock run {request.text} --grant` or {grant}:"
