"""``paddock pack``, ``verify``, ``install``, ``uninstall`` and ``publish``: packages from a folder to a store.

Nothing of a package runs here. Only ``pack`` makes the author's environment once, behind the wall, to write down its
spaces. What a package says of itself is shown with its control characters escaped.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.output import FAILED, OK, CommandFailed, Output, agree, mistake
from paddock.cli.program import integer
from paddock.cli.trust import add_key, load_key
from paddock.errors import Downgrade, InvalidPackage, InvalidSignature, NotPermitted, Unreachable, Untrusted

if TYPE_CHECKING:
    from paddock.package import Manifest
    from paddock.package.store import Installed, Review

_NAMED = re.compile(r"(?P<name>[\w-]+/[\w-]+)(?:@(?P<version>[\w.]+))?", re.ASCII)
# A refusal is the answer to a question that was put rightly, so it does not have the exit code of wrong usage.
_REFUSALS = (InvalidPackage, InvalidSignature, Untrusted, Downgrade, NotPermitted, Unreachable)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except _REFUSALS as error:
        raise CommandFailed(str(error), exit_code=FAILED, code=error.code) from error


def add_pack_arguments(parser: ArgumentParser) -> None:
    """The options of ``pack``."""
    parser.add_argument("folder", metavar="DIR", help="a folder with a paddock.toml whose name is 'owner/name'")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="default: owner-name-version.pad")
    parser.add_argument("--no-spaces", action="store_true", help="leave the spaces out: the environment is not made")


def run_pack(arguments: Namespace, output: Output) -> int:
    """Write the package, and print its digest."""
    from paddock.package import read_manifest
    from paddock.package.pad import Pad, pack

    manifest = read_manifest(arguments.folder)
    with _refusals():
        spaces = {} if arguments.no_spaces else {env.spec.id: _spaces(manifest, env.spec.id) for env in manifest.envs}
        file = pack(arguments.folder, arguments.out, spaces)
        with Pad(file) as pad:
            facts: dict[str, Any] = {
                "file": str(file),
                "name": pad.name,
                "version": manifest.version,
                "digest": pad.digest,
            }
            facts["files"] = len(pad.files)
    if output.json:
        output.document(facts)
        return OK
    output.facts(list(facts.items()))
    output.line()
    output.line(f"not signed yet: paddock sign {file} --key KEY")
    return OK


def _spaces(manifest: Manifest, id: str) -> dict[str, str]:
    from paddock.cli.environment import open_env
    from paddock.spaces.json_form import to_json

    with open_env(f"{manifest.folder}:{id}", isolation=manifest.permissions_of(id)) as env:
        return {"observation": to_json(env.observation_space), "action": to_json(env.action_space)}


def add_verify_arguments(parser: ArgumentParser) -> None:
    """The options of ``verify``."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a package, as acme-maze-1.2.0.pad")


def run_verify(arguments: Namespace, output: Output) -> int:
    """Check all of it; 1 if it is not intact, or not trusted here."""
    from paddock.package.pad import Pad
    from paddock.package.store import judge
    from paddock.trust.keyring import load_keyring

    _require_file(arguments.file)
    with _refusals(), Pad(arguments.file) as pad:
        pad.check_files()
        try:
            verdict = judge(pad, load_keyring())
            how, trusted = verdict.how, verdict.how != "new"
            reason = "" if trusted else "the key is not known here; `paddock install` would show it and ask"
            code = "" if trusted else Untrusted.code
        except Untrusted as error:
            how, trusted, reason, code = "", False, str(error), error.code
        facts: dict[str, Any] = {
            "file": str(arguments.file),
            "name": pad.name,
            "version": pad.manifest["version"],
            "digest": pad.digest,
            "files": len(pad.files),
            "intact": True,
            "signers": [one.fingerprint for one in pad.signers],
            "trusted": trusted,
        }
    if output.json:
        output.document({**facts, "how": how or None, "reason": reason or None, "code": code or None})
    else:
        shown = {**facts, "intact": "every file is as it was signed", "trusted": how if trusted else f"no: {reason}"}
        shown["signers"] = ", ".join(facts["signers"]) or "none"
        output.facts(list(shown.items()))
    return OK if trusted else FAILED


def add_install_arguments(parser: ArgumentParser) -> None:
    """The options of ``install``."""
    add = parser.add_argument
    add("package", metavar="FILE|OWNER/NAME[@VERSION]", help="a package's file, or its name in a registry")
    add("--from", dest="source", metavar="DIR|URL", help="the registry; default: the one in trust.toml")
    add("--allow-downgrade", action="store_true", help="take an older version or index than before")
    add("--yes", action="store_true", help="agree to what it asks for, and to a key on first use, without being asked")


def run_install(arguments: Namespace, output: Output) -> int:
    """Install, once somebody has agreed."""
    from paddock.package.registry import install_by_name
    from paddock.package.store import install

    def approve(review: Review) -> bool:
        if not output.json:
            show_review(review, output)
        if arguments.yes:
            return True
        output.flush()
        return agree(output, "Install it?", "A person must agree to what it asks for")

    options: dict[str, Any] = {"allow_downgrade": arguments.allow_downgrade}
    named = _NAMED.fullmatch(arguments.package)
    with _refusals():
        if named is None or (arguments.source is None and Path(arguments.package).is_file()):
            _require_file(Path(arguments.package))
            installed = install(arguments.package, approve, **options)
        else:
            source = arguments.source or _registry(arguments.package)
            installed = install_by_name(named["name"], named["version"], source, approve, **options)
    return _report(installed, output)


def _registry(package: str) -> str:
    from paddock.trust.settings import read_settings

    if (source := read_settings().registry) is None:
        raise mistake(f"{package} is not a file here. To install it by name, say from where: --from DIR|URL")
    return source


def _report(installed: Installed, output: Output) -> int:
    target = f"{installed.name}@{installed.version}"
    if output.json:
        facts = {"name": installed.name, "version": installed.version, "digest": installed.digest, "target": target}
        output.document({**facts, "signers": [one.fingerprint for one in installed.signers], "how": installed.how})
    else:
        output.line(f"installed {target}. Try: paddock run {target}")
    return OK


def show_review(review: Review, output: Output) -> None:
    """Print what a person decides on, in plain words."""
    from paddock.sandbox.policy import DEFAULT, explain, find_excess

    plain = review.manifest
    key = review.verdict.key.fingerprint
    trusted = f"trusted: {review.verdict.how}"
    if review.verdict.how == "new":
        owner = plain["name"].partition("/")[0]
        trusted = f"NOT KNOWN HERE. Compare it with what its owner shows: it will be the key of {owner}"
    output.facts(
        [
            ("package", f"{plain['name']} {plain['version']}"),
            ("says of itself", plain["description"] or "nothing"),
            ("environments", ", ".join(str(one.get("id")) for one in plain["envs"])),
            ("digest", review.digest),
            ("key", f"{key}, {trusted}"),
            ("installs", ", ".join(line.partition(" --hash")[0] for line in plain["dependencies"]) or "nothing else"),
        ]
    )
    output.line()
    output.line("Behind the wall it may:")
    output.facts([(line.topic, line.text) for line in explain(review.permissions)])
    output.line()
    if review.first:
        beyond = find_excess(review.permissions, DEFAULT)
        output.line("More than any code gets:" if beyond else "That is no more than any code gets behind the wall.")
        for one in beyond:
            output.line(f"  {one}")
    elif review.changes:
        output.line("What you granted to the version before, and what this one asks for:")
        rows = [[change.direction, change.topic, change.old, change.new] for change in review.changes]
        output.table(["", "permission", "granted", "asked for"], rows)


def add_uninstall_arguments(parser: ArgumentParser) -> None:
    """The options of ``uninstall``."""
    parser.add_argument("package", metavar="OWNER/NAME[@VERSION]", help="an installed package")


def run_uninstall(arguments: Namespace, output: Output) -> int:
    """Remove it; the serials that it had stay known."""
    from paddock.package.store import uninstall

    named = _NAMED.fullmatch(arguments.package)
    if named is None:
        raise mistake(f"{arguments.package[:80]!r} is not the name of a package, as acme/maze or acme/maze@1.2.0.")
    versions = uninstall(named["name"], named["version"])
    if output.json:
        output.document({"name": named["name"], "versions": versions})
    else:
        output.line(f"removed {named['name']} {', '.join(versions)}")
    return OK


def add_publish_arguments(parser: ArgumentParser) -> None:
    """The options of ``publish``."""
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="a signed package; with --namespace, a revocation list")
    add("--to", type=Path, required=True, metavar="DIR", help="the registry's folder, which any web server can serve")
    add("--namespace", metavar="OWNER", help="whose revocation list FILE is")
    add("--days", type=integer(1), default=30, metavar="N", help="how long the index is believed (default 30)")
    add_key(parser)


def run_publish(arguments: Namespace, output: Output) -> int:
    """Copy the file, and sign the index."""
    from paddock.package.registry import publish

    _require_file(arguments.file)
    options = {"namespace": arguments.namespace, "days": arguments.days}
    with _refusals():
        target = publish(arguments.file, arguments.to, load_key(arguments.key), **options)
    if output.json:
        output.document({"file": str(target), "index": str(target.parent / "index.json"), "days": arguments.days})
    else:
        output.line(f"published {target}; its index is believed for {arguments.days} days")
    return OK


def _require_file(file: Path) -> None:
    try:
        if not file.is_file():
            raise mistake(f"There is no file {str(file)[:200]!r}.")
    except (OSError, ValueError) as error:  # a name that no file system has
        raise mistake(f"{str(file)[:80]!r} is not a file: {error}") from None
