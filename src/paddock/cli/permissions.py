"""``paddock permissions``: what code behind the wall may do, in words. Reads manifests; runs and imports none of it.

With two targets the exit code is 1 if the second asks for more, so that a pipeline can stop for a person to look.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from paddock.cli.arguments import add_json
from paddock.cli.failures import FAILED, OK, mistake
from paddock.cli.output import Output

if TYPE_CHECKING:
    from paddock.package.manifest import Manifest
    from paddock.sandbox.policy import Policy

_TARGET = "a folder with a paddock.toml, or an id, or my_module:Maze-v0"


@dataclass(frozen=True)
class Asked:
    """What a target asks for. ``manifest`` is None for one that has none and so gets the default.

    ``own``: paddock's own, which gets what paddock declares for it.
    """

    text: str
    policy: Policy
    manifest: Manifest | None = None
    own: bool = False

    @property
    def portable(self) -> Policy:
        """The policy in a form that another version's can be compared with."""
        return self.policy if self.manifest is None else self.manifest.portable(self.policy)


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("target", metavar="TARGET", help=_TARGET)
    parser.add_argument(
        "other", metavar="OTHER", nargs="?", help="another version: show the difference; 1 if it is wider"
    )
    add_json(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Print one target's permissions, or how the second's differ from the first's."""
    asked = _asked(arguments.target)
    if arguments.other is not None:
        return _compare(asked, _asked(arguments.other), output)
    from paddock.sandbox.difference import exceeds
    from paddock.sandbox.policy import DEFAULT
    from paddock.sandbox.words import explain

    lines, beyond = explain(asked.policy), exceeds(asked.policy, DEFAULT)
    if output.json:
        output.document(
            {
                **_identity(asked),
                "permissions": [{"topic": line.topic, "text": line.text, "weight": line.weight} for line in lines],
                "beyond_default": beyond,
                "policy": asked.policy.to_dict(),
            }
        )
        return OK
    output.line(_title(asked))
    output.facts([(line.topic, line.text) for line in lines])
    output.line()
    output.line(_grant(asked, beyond))
    for one in beyond:
        output.line(f"  {one}")
    return OK


def _compare(old: Asked, new: Asked, output: Output) -> int:
    from paddock.sandbox.difference import differences

    changes = differences(old.portable, new.portable)
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


def _asked(text: str) -> Asked:
    from paddock.making.folder_name import split_folder

    if (named := split_folder(text)) is not None:
        from paddock.package.manifest import read_manifest

        folder, id = named
        manifest = read_manifest(folder)
        return Asked(text, manifest.permissions_of(id) if id else manifest.permissions_of_all(), manifest)
    from paddock.making import locate
    from paddock.sandbox.policy import DEFAULT

    target = locate(text)
    kind = target.kind
    if kind == "url":
        raise mistake(f"{text}: the server decides what runs there and how. Name a folder or an id.")
    if kind == "package":
        raise mistake(f"{text}: packages are read from folders in this release, as ./maze")
    return Asked(text, target.asked or DEFAULT, own=target.asked is not None)


def _identity(asked: Asked) -> dict[str, Any]:
    found = asked.manifest
    package = None if found is None else {"name": found.name, "version": found.version}
    ids = [] if found is None else [env.spec.id for env in found.envs]
    return {"target": asked.text, "package": package, "envs": ids}


def _title(asked: Asked) -> str:
    if asked.own:
        return f"{asked.text} is paddock's own. Behind the wall it gets what paddock declares for it:"
    if asked.manifest is None:
        return f"{asked.text} has no manifest. Behind the wall it gets the default:"
    ids = ", ".join(env.spec.id for env in asked.manifest.envs)
    return f"{asked.text} is {asked.manifest.name} {asked.manifest.version} with {ids}. It asks for:"


def _grant(asked: Asked, beyond: list[str]) -> str:
    if asked.own:
        return "Beyond what other code gets by default:"
    if asked.manifest is None:
        return "More must be asked for in a paddock.toml, or given with make(..., isolation=paddock.Policy(...))."
    if not beyond:
        return "All of it is within the default: nothing to grant."
    grant = f"make({asked.text!r}, isolation=paddock.permissions({asked.text!r}))"
    return f"Beyond the default, so it runs only if you grant it, with `paddock run {asked.text} --grant` or {grant}:"
