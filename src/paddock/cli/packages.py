"""``paddock pack``, ``verify``, ``install``, ``uninstall`` and ``publish``: packages from a folder to a store.

``paddock keygen``, ``sign``, ``trust`` and ``revoke``: keys, and whose signatures count. A password is asked for at
a terminal, or read from the variable ``PADDOCK_KEY_PASSWORD``; never from an argument, which others on the machine see.

Nothing of a package runs here. Only ``pack`` makes the author's environment once, behind the wall, to write down its
spaces. What a package says of itself is shown with its control characters escaped.
"""

from __future__ import annotations

import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.output import FAILED, OK, CommandFailed, Output, agree, mistake
from paddock.cli.program import integer
from paddock.errors import Downgrade, InvalidPackage, InvalidSignature, NotPermitted, Unreachable, Untrusted
from paddock.trust.files import config_folder
from paddock.trust.names import NAMESPACE

if TYPE_CHECKING:
    from paddock.package import Manifest
    from paddock.package.store import Review
    from paddock.trust.keyring import Keyring, TrustedKey
    from paddock.trust.keys import PublicKey, SigningKey

_NAMED = re.compile(r"(?P<name>[\w-]+/[\w-]+)(?:@(?P<version>[\w.]+))?", re.ASCII)
_PASSWORD = "PADDOCK_KEY_PASSWORD"  # noqa: S105 - the name of a variable
_DIGEST = re.compile(r"(?:sha256:)?(?P<hex>[0-9a-f]{64})", re.ASCII)
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
            facts: dict[str, Any] = {"file": str(file), "name": pad.name, "version": manifest.version}
            facts |= {"digest": pad.digest, "files": len(pad.files)}
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

    try:
        with open_env(f"{manifest.folder}:{id}", isolation=manifest.permissions_of(id)) as env:
            return {"observation": to_json(env.observation_space), "action": to_json(env.action_space)}
    except CommandFailed as error:
        text = f"{error} To pack it without its spaces, and so without making it: --no-spaces"
        raise CommandFailed(text, exit_code=error.exit_code, code=error.code) from error


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
    target = f"{installed.name}@{installed.version}"
    facts: dict[str, Any] = {"name": installed.name, "version": installed.version, "digest": installed.digest}
    facts |= {"target": target, "signers": [one.fingerprint for one in installed.signers], "how": installed.how}
    output.report(facts, f"installed {target}. Try: paddock run {target}")
    return OK


def _registry(package: str) -> str:
    from paddock.trust.settings import read_settings

    if (source := read_settings().registry) is None:
        raise mistake(f"{package} is not a file here. To install it by name, say from where: --from DIR|URL")
    return source


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
            *(("installs", line.partition(" --hash")[0]) for line in plain["dependencies"] or ["nothing else"]),
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
    facts = {"name": named["name"], "versions": versions}
    output.report(facts, f"removed {named['name']} {', '.join(versions)}")
    return OK


def add_publish_arguments(parser: ArgumentParser) -> None:
    """The options of ``publish``."""
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="a signed package; with --namespace, a revocation list")
    add("--to", type=Path, required=True, metavar="DIR", help="the registry's folder, which any web server can serve")
    add("--namespace", metavar="OWNER", help="whose revocation list FILE is")
    add("--days", type=integer(1, 3650), default=30, metavar="N", help="how long the index is believed (default 30)")
    add_key(parser)


def run_publish(arguments: Namespace, output: Output) -> int:
    """Copy the file, and sign the index."""
    from paddock.package.registry import publish

    _require_file(arguments.file)
    options = {"namespace": arguments.namespace, "days": arguments.days}
    with _refusals():
        target = publish(arguments.file, arguments.to, load_key(arguments.key), **options)
    facts = {"file": str(target), "index": str(target.parent / "index.json"), "days": arguments.days}
    output.report(facts, f"published {target}; its index is believed for {arguments.days} days")
    return OK


def _require_file(file: Path) -> None:
    try:
        if file.is_dir():
            raise mistake(f"{str(file)[:200]!r} is a folder. Expected a package's file, as `paddock pack` writes one.")
        if not file.is_file():
            raise mistake(f"There is no file {str(file)[:200]!r}.")
    except (OSError, ValueError) as error:  # a name that no file system has
        raise mistake(f"{str(file)[:80]!r} is not a file: {error}") from None


# ── Keys ──


def default_key() -> Path:
    """Where ``keygen`` writes the user's key, and ``sign`` looks for it."""
    return config_folder() / "keys" / "default.key"


def add_key(parser: ArgumentParser) -> None:
    """``--key``, for commands that sign."""
    parser.add_argument("--key", type=Path, metavar="KEY", help="your key; default: the one that keygen wrote")


def load_key(path: Path | None) -> SigningKey:
    """Read the key that signs; one that is encrypted needs its password."""
    from paddock.trust.keys import SigningKey

    file = path or default_key()
    encrypted = file.is_file() and b"ENCRYPTED" in file.read_bytes()[:4096]
    return SigningKey.load(file, _ask_password(f"password of {file}") if encrypted else None)


def _ask_password(question: str, *, twice: bool = False) -> str:
    if (password := os.environ.get(_PASSWORD)) is not None:
        return password
    if not sys.stdin.isatty():
        raise mistake(f"The key's password is asked for at a terminal, and there is none. Set {_PASSWORD}.")
    from getpass import getpass

    password = getpass(f"{question}: ")
    if twice and getpass("again: ") != password:
        raise mistake("the two passwords differ. No key was made.")
    return password


def add_keygen_arguments(parser: ArgumentParser) -> None:
    """The options of ``keygen``."""
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: keys/default.key in your config folder")
    parser.add_argument("--encrypt", action="store_true", help=f"with a password: asked for, or from {_PASSWORD}")


def run_keygen(arguments: Namespace, output: Output) -> int:
    """Write a key that only you can read, and the public one beside it."""
    from paddock.trust.keys import SigningKey

    file = arguments.out or default_key()
    if file.is_dir():
        raise mistake(f"{file} is a folder. Name a file in it, as {file / 'my.key'}.")
    public = file.with_name(f"{file.stem}.pub")
    for one in (file, public):
        if os.path.lexists(one):
            raise mistake(f"{one} exists, and a key is never overwritten. Name another file with --out.")
    password = _ask_password("password", twice=True) if arguments.encrypt else None
    if password == "":
        raise mistake("an empty password protects nothing.")
    if arguments.out is None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = SigningKey.generate()
    key.save(file, password)
    key.public.save(public)
    facts = {"key": str(file), "public": str(public), "fingerprint": key.public.fingerprint}
    if output.json:
        output.document({**facts, "text": str(key.public)})
        return OK
    output.facts([*facts.items(), ("text", str(key.public))])
    output.line()
    output.line(f"Keep {file} secret, and a copy of it elsewhere. Give others {public}.")
    return OK


def add_sign_arguments(parser: ArgumentParser) -> None:
    """The options of ``sign``."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a package that `paddock pack` wrote")
    add_key(parser)


def run_sign(arguments: Namespace, output: Output) -> int:
    """Write the signature into the package."""
    from paddock.package.pad import sign

    _require_file(arguments.file)
    key = load_key(arguments.key)
    with _refusals():
        digest = sign(arguments.file, key)
    facts = {"file": str(arguments.file), "digest": digest, "signer": key.public.fingerprint}
    output.report(facts, f"signed {arguments.file}, digest {digest}, with {key.public.fingerprint}")
    return OK


def add_trust_arguments(parser: ArgumentParser) -> None:
    """The options of ``trust``."""
    add = parser.add_argument
    add("action", choices=["add", "list", "show", "remove"])
    add("what", nargs="?", metavar="KEY", help="add: a .pub file, its text, or a revocation list; else a fingerprint")
    add("--namespace", action="append", default=[], metavar="OWNER", help="what the key may sign: OWNER/…")
    add("--not-before", metavar="DATE", help="from when the key counts, as 2027-01-31")
    add("--not-after", metavar="DATE", help="until when")


def run_trust(arguments: Namespace, output: Output) -> int:
    """Change or show the keyring."""
    from paddock.trust.keyring import load_keyring

    if arguments.action == "list":
        return _list(load_keyring(), output)
    if arguments.what is None:
        raise mistake(f"trust {arguments.action} what? Name a key: its file, its text or its fingerprint.")
    if arguments.action == "add":
        return _add(arguments, output)
    trusted = _find(load_keyring(), arguments.what)
    if arguments.action == "show":
        return _show(trusted, load_keyring(), output)
    from paddock.trust.keyring import change_keyring

    with change_keyring() as keyring:
        keyring.keys.pop(trusted.key.fingerprint, None)
    name = trusted.key.fingerprint
    lines = f"{name} signs nothing new here; what is installed stays", "to refuse that too: paddock revoke"
    output.report({"removed": name}, *lines)
    return OK


def _add(arguments: Namespace, output: Output) -> int:
    from paddock.trust.keyring import TrustedKey, change_keyring

    file = Path(arguments.what)
    if not arguments.namespace:
        if not file.is_file():
            raise mistake("trust add KEYFILE needs --namespace OWNER: which packages the key may sign.")
        data = file.read_bytes()
        if data[:1] != b"{":
            raise mistake(f"{file} is not a revocation list. For a key, add --namespace OWNER.")
        with _refusals(), change_keyring() as keyring:
            serial = keyring.learn(data)
        output.report({"serial": serial}, f"learned {file}, serial {serial}")
        return OK
    for one in arguments.namespace:
        if not re.fullmatch(NAMESPACE, one):
            raise mistake(f"--namespace {one[:60]!r} is not a namespace: lower-case letters, digits, '_' and '-'.")
    key = _read_public(arguments.what)
    trusted = TrustedKey(
        key, tuple(arguments.namespace), not_before=arguments.not_before, not_after=arguments.not_after
    )
    try:
        with change_keyring() as keyring:
            others = [one.key.fingerprint for space in arguments.namespace for one in keyring.bound_to(space)]
            keyring.add(trusted)
    except ValueError as error:  # a date
        raise mistake(str(error)) from None
    others = sorted({*others} - {key.fingerprint})
    lines = [f"{key.fingerprint} may sign {', '.join(f'{one}/…' for one in arguments.namespace)}"]
    if others:
        lines.append(f"so may {', '.join(others)}. If that one is retired: paddock trust remove FINGERPRINT")
    output.report({"fingerprint": key.fingerprint, "namespaces": arguments.namespace, "others": others}, *lines)
    return OK


def _read_public(text: str) -> PublicKey:
    from paddock.trust.keys import PublicKey

    if text.startswith("ed25519:"):
        return PublicKey.parse(text)
    file = Path(text)
    if file.is_file() and b"PRIVATE KEY" in file.read_bytes()[:4096]:  # the user's own: only its public half is kept
        return load_key(file).public
    return PublicKey.load(file)


def _find(keyring: Keyring, text: str) -> TrustedKey:
    """Return the trusted key with this fingerprint, or the beginning of it, or this file or text."""
    if re.fullmatch(r"[0-9a-f]{8,64}", text, re.ASCII) and not Path(text).exists():
        wanted = text
    else:
        wanted = _read_public(text).fingerprint
    found = [one for name, one in keyring.keys.items() if name.startswith(wanted)]
    if len(found) != 1:
        count = len(found) or "no"
        raise mistake(f"{count} trusted keys have a fingerprint that begins with {wanted}. See: paddock trust list")
    return found[0]


def _list(keyring: Keyring, output: Output) -> int:
    if output.json:
        output.document(keyring.to_dict())
        return OK
    rows = [[name, ", ".join(one.namespaces), one.how, one.not_after] for name, one in sorted(keyring.keys.items())]
    if rows:
        output.table(["key", "namespaces", "how", "until"], rows)
    else:
        output.line("no key is trusted yet")
    for issuer, one in keyring.revoked.items():
        counts = f"{len(one['keys'])} keys and {len(one['digests'])} packages"
        output.line(f"{issuer} revoked {counts} of {', '.join(one['namespaces'])} (list {one['serial']})")
    return OK


def _show(trusted: TrustedKey, keyring: Keyring, output: Output) -> int:
    key = trusted.key
    lists = [one for one in keyring.revoked.values() if key.fingerprint in one["keys"]]
    facts: dict[str, Any] = {
        "fingerprint": key.fingerprint,
        "text": str(key),
        "namespaces": list(trusted.namespaces),
        "how": trusted.how,
        "not_before": trusted.not_before,
        "not_after": trusted.not_after,
        "revoked": lists[0]["keys"][key.fingerprint]["reason"] if lists else None,
    }
    if output.json:
        output.document(facts)
    else:
        texts = ((name, ", ".join(one) if isinstance(one, list) else one or "no") for name, one in facts.items())
        output.facts(list(texts))
    return OK


def add_revoke_arguments(parser: ArgumentParser) -> None:
    """The options of ``revoke``."""
    add = parser.add_argument
    add("what", metavar="KEY|DIGEST", help="a .pub file, a key's text, a package's file, or 64 hexadecimal digits")
    add_key(parser)
    add("--out", type=Path, required=True, metavar="FILE", help="the list; one that is there grows")
    add("--reason", default="", metavar="TEXT", help="for those who meet it")


def run_revoke(arguments: Namespace, output: Output) -> int:
    """Write the list, one serial higher."""
    from paddock.trust.files import replace_file
    from paddock.trust.keyring import revoke

    keys, digests = _read_revoked(arguments.what)
    reason = arguments.reason[:200]
    before = arguments.out.read_bytes() if arguments.out.exists() else None
    key = load_key(arguments.key)
    with _refusals():
        data = revoke(key, before, keys=dict.fromkeys(keys, reason), digests=dict.fromkeys(digests, reason))
    replace_file(arguments.out, data, 0o644)
    facts = {"file": str(arguments.out), "keys": keys, "digests": digests, "by": key.public.fingerprint}
    lines = (
        f"{arguments.out} revokes {(keys or digests)[0]}",
        f"publish it; for this machine: paddock trust add {arguments.out}",
    )
    output.report(facts, *lines)
    return OK


def _read_revoked(text: str) -> tuple[list[str], list[str]]:
    """Return the fingerprints and the digests that a text names. Bare digits may be either, so they are both."""
    if digits := _DIGEST.fullmatch(text):
        return ([] if text.startswith("sha256:") else [digits["hex"]]), [digits["hex"]]
    if text.endswith(".pad"):
        from paddock.package.pad import Pad

        with Pad(text) as pad:
            return [], [pad.digest]
    return [_read_public(text).fingerprint], []
