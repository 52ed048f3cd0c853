"""``paddock permissions`` and ``log``: what code behind the wall may do, in words, and what was decided about it here.

Manifests are read, and none of the code is imported.

With two targets the exit code is 1 if the second asks for more, so that a pipeline can stop for review.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from paddock.cli.output import FAILED, OK, Output, mistake
from paddock.cli.program import integer

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
    add("target", metavar="TARGET", nargs="?", help=_TARGET)
    add("other", metavar="OTHER", nargs="?", help="another version: show the difference; 1 if it is wider")
    add("--granted", action="store_true", help="what you granted to installed packages: to all, or to TARGET")
    add("--withdraw", metavar="OWNER/NAME", help="take a package's grant back: then it has what any code gets")


def run(arguments: Namespace, output: Output) -> int:
    """Print one target's permissions, or how another's differ from them."""
    if arguments.withdraw is not None:
        return _withdraw(arguments.withdraw, output)
    if arguments.granted:
        return _list_grants(arguments.target, output)
    if arguments.target is None:
        raise mistake("permissions of what? Name a target, or list what you granted with --granted.")
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


def _list_grants(name: str | None, output: Output) -> int:
    """Say what installed packages may do beyond the default, since when, and for which version it was granted."""
    from paddock.package.store import grants
    from paddock.sandbox.policy import DEFAULT, find_excess

    found = [one for one in grants().values() if name is None or one.name == name.partition("@")[0]]
    if name is not None and not found:
        raise mistake(f"Nothing is granted to {name}. List all: paddock permissions --granted")
    rows = [(one, find_excess(one.permissions, DEFAULT)) for one in found]
    if output.json:
        output.document(
            [
                {**asdict(one), "permissions": one.permissions.to_dict(), "beyond_default": beyond}
                for one, beyond in rows
            ]
        )
    elif not rows:
        output.line("nothing is granted to any package")
    else:
        texts = [
            [one.name, one.version, one.date, "; ".join(beyond) or "no more than any code"] for one, beyond in rows
        ]
        output.table(["package", "reviewed", "at", "may"], texts, droppable=["at"])
        output.line("take one back: paddock permissions --withdraw OWNER/NAME")
    return OK


def _withdraw(name: str, output: Output) -> int:
    from paddock.package.store import withdraw

    grant = withdraw(name)
    said = f"{grant.name} has no grant any more: it gets what any code gets. To review it again, install it again."
    output.report({"withdrawn": grant.name, "version": grant.version}, said)
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


# ── paddock log: what was installed, granted, registered and overridden here. The chain is checked each time ──

_MOST_LINES = 30


def add_log_arguments(parser: ArgumentParser) -> None:
    """The options of ``log``."""
    add = parser.add_argument
    add("--verify", action="store_true", help="say only whether the log is whole, and its head")
    add(
        "--last",
        type=integer(1),
        default=_MOST_LINES,
        metavar="N",
        help=f"show the last N lines (default {_MOST_LINES})",
    )


def run_log(arguments: Namespace, output: Output) -> int:
    """Print the newest lines; 1 if the chain is broken, with the line where it breaks."""
    from paddock.errors import InvalidJournal
    from paddock.trust.log import log_path, read_log

    entries, flaw = [], None
    try:
        for entry in read_log():
            entries.append(entry)
    except InvalidJournal as error:
        flaw = error
    head = entries[-1].digest if entries else None
    if output.json:
        shown = [] if arguments.verify else [entry._asdict() for entry in entries]
        broken = None if flaw is None else str(flaw)
        output.document(
            {"log": str(log_path()), "lines": len(entries), "head": head, "broken": broken, "entries": shown}
        )
        return OK if flaw is None else FAILED
    if entries and not arguments.verify:
        rows = [
            [str(one.number), one.at, one.user, one.event, ", ".join(f"{k}={v}" for k, v in one.facts.items())]
            for one in entries[-arguments.last :]
        ]
        output.table(["line", "at", "by", "event", "what"], rows, droppable=["by"])
        output.line()
    if flaw is not None:
        output.error(str(flaw))
        return FAILED
    output.facts(
        [
            ("log", str(log_path())),
            ("lines", f"{len(entries)}, each follows the one before it"),
            ("head", head or "none"),
        ]
    )
    return OK
