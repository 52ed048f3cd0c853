"""The store: installed packages, each in a folder named for its digest, and what was granted to them.

Everything is checked before a byte is written; a package appears in one piece or not at all, and the list of packages,
``packages.json``, is written last. On every use the folder is read again and compared with its digest.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

from paddock.errors import (
    Downgrade,
    Expired,
    InvalidManifest,
    InvalidPackage,
    NameNotFound,
    NotPermitted,
    Untrusted,
    VersionNotFound,
)
from paddock.package import Manifest, read_manifest
from paddock.package.dependencies import Wanted, find_wanted
from paddock.package.dependencies import install as install_dependencies
from paddock.package.pad import (
    CODE,
    MANIFEST,
    ListedFile,
    Pad,
    check_digest,
    decode_policy,
    describe,
    encode_policy,
    listed_files,
    read_package_manifest,
)
from paddock.sandbox.policy import DEFAULT, Change, Policy, compare_policies, find_excess
from paddock.spaces.json_data import JsonLimits, read_json
from paddock.trust.envelope import canonical_json
from paddock.trust.files import data_folder, lock_file, noticing_full_disk, read_bounded, sync_folder
from paddock.trust.keyring import Keyring, TrustedKey, Verdict, change_keyring, load_keyring
from paddock.trust.keys import PublicKey
from paddock.trust.log import Event, write_logged
from paddock.trust.settings import read_settings

_LIMITS = JsonLimits(text=1 << 26, nesting=16)
_PART_BYTES = 1 << 20


@dataclass(frozen=True)
class Installed:
    """An installed version of a package. ``how``: why its key was trusted. ``libraries``: its dependencies, if any.

    ``spaces``: what ``use_installed`` has read of them, by environment: ``observation`` and ``action``, as JSON texts.
    """

    name: str
    version: str
    serial: int
    digest: str
    signers: tuple[PublicKey, ...]
    how: str
    installed: str
    source: str
    libraries: str | None = None
    spaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def place(self) -> Path:
        """Its folder in the store."""
        return data_folder() / "store" / "sha256" / self.digest

    @property
    def folder(self) -> Path:
        """The folder with its ``paddock.toml``."""
        return self.place / CODE

    def check(self) -> None:
        """Compare every byte with the digest. InvalidPackage if anything was changed, added or removed."""
        broken = f"The installed package {self.name} {self.version} is broken, install it again"
        try:
            text = (self.place / MANIFEST).read_bytes()
        except OSError as error:
            raise InvalidPackage(f"{broken}: {error.strerror}.") from None
        if sha256(text).hexdigest() != self.digest:
            raise InvalidPackage(f"{broken}: its manifest was changed.")
        wanted = {one.path: one for one in listed_files(json.loads(text))}
        found = dict(_walk(self.folder))
        for path in sorted(wanted.keys() ^ found.keys()):
            raise InvalidPackage(f"{broken}: {path} was {'removed' if path in wanted else 'added'}.")
        for path, one in wanted.items():
            check_digest(one, _digest_of(found[path], one))


@dataclass(frozen=True)
class Grant:
    """What the user granted to a package: to all of its versions that ask for no more."""

    name: str
    permissions: Policy
    version: str
    date: str


@dataclass(frozen=True)
class Review:
    """What a person decides on before a package is installed. ``first``: no version of it has been granted anything.

    ``changes``: what it asks for that was not granted. ``verdict.how`` is "new" if its key must be confirmed too.
    """

    manifest: Mapping[str, Any]
    digest: str
    signers: tuple[PublicKey, ...]
    verdict: Verdict
    permissions: Policy
    first: bool
    changes: tuple[Change, ...]

    @property
    def needs_person(self) -> bool:
        """Whether somebody must agree."""
        return self.first or self.verdict.how == "new" or any(one.direction == "wider" for one in self.changes)


def install(
    path: str | os.PathLike[str],
    approve: Callable[[Review], bool],
    *,
    allow_downgrade: bool = False,
    source: str = "",
    expected: Mapping[str, Any] | None = None,
) -> Installed:
    """Install a package file, if its signers are trusted here and ``approve`` agrees. Nothing of it runs.

    ``expected``: the name, version, serial and digest that an index promised.
    """
    with Pad(path) as pad:
        for what, promised in (expected or {}).items():
            if (found := {**pad.manifest, "digest": pad.digest}[what]) != promised:
                raise InvalidPackage(f"{pad.name}: the index promises the {what} {promised}, the file has {found}.")
        review = _review(pad, allow_downgrade)
        pad.check_files()
        if review.needs_person and not approve(review):
            raise NotPermitted(f"{pad.name} was not installed: nobody agreed to what it asks for.")
        with noticing_full_disk(pad.name), lock_file(data_folder() / "packages.lock"):
            return _commit(pad, review, allow_downgrade, source or os.fspath(path))


def _review(pad: Pad, allow_downgrade: bool) -> Review:
    keyring, plain = load_keyring(), pad.manifest
    verdict = judge(pad, keyring)
    known = _read_packages()
    _check_serial(known, pad, allow_downgrade)
    permissions = decode_policy(plain["permissions"])
    grant = _grants(known).get(pad.name)
    changes = compare_policies(grant.permissions if grant else DEFAULT, permissions)
    return Review(plain, pad.digest, pad.signers, verdict, permissions, grant is None, tuple(changes))


def judge(pad: Pad, keyring: Keyring) -> Verdict:
    """Say why the package is trusted, or raise Untrusted, Revoked or Expired."""
    if not pad.signers:
        raise Untrusted(f"{pad.name} is not signed. If it is yours: paddock sign FILE --key KEY. Or run its folder.")
    verdict = keyring.judge(pad.name, pad.digest, pad.signers, read_settings())
    expires, today = pad.manifest["expires"], keyring.today()
    if expires is not None and today > expires:
        raise Expired(f"{pad.name} {pad.manifest['version']} could be installed until {expires}; today is {today}.")
    return verdict


def _check_serial(known: Mapping[str, Any], pad: Pad, allow_downgrade: bool) -> None:
    """Refuse what is older than anything that was installed, and a second package under the number of the first."""
    plain = pad.manifest
    entry = known["packages"].get(pad.name, {"serial": -1, "digests": {}})
    same_version = entry.get("versions", {}).get(plain["version"], {"digest": pad.digest})["digest"]
    for what, before in (("serial", entry["digests"].get(str(plain["serial"]), pad.digest)), ("version", same_version)):
        if before != pad.digest:
            raise Untrusted(
                f"{pad.name} with the {what} {plain[what]} had the digest {before}, and this one has {pad.digest}. A "
                f"release never changes: ask its owner which one is theirs."
            )
    if plain["serial"] < entry["serial"] and not allow_downgrade:
        raise Downgrade(
            f"{pad.name} {plain['version']} has the serial {plain['serial']}, and {entry['serial']} was installed "
            f"before. If you want the older one: --allow-downgrade"
        )


def _commit(pad: Pad, review: Review, allow_downgrade: bool, source: str) -> Installed:
    """Write, under the lock. Whatever fails leaves the list of packages as it was."""
    plain = pad.manifest
    top = data_folder() / "store" / "sha256"
    top.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = _read_packages()
    _sweep(known)
    _check_serial(known, pad, allow_downgrade)  # another install may have been faster
    work = Path(tempfile.mkdtemp(prefix=".new-", dir=top))  # 0700
    try:
        pad.extract(work)
        manifest = _check_folder(work / CODE, plain)
        installed = Installed(
            pad.name,
            plain["version"],
            plain["serial"],
            pad.digest,
            pad.signers,
            "first use" if review.verdict.how == "new" else review.verdict.how,
            datetime.now(timezone.utc).isoformat(timespec="seconds"),
            source,
            _install_libraries(find_wanted(manifest.folder), pad.digest),
        )
        if not _is_whole(installed):
            _remove(installed.place)
            _settle(work, installed.place)
    finally:
        _remove(work)
    if review.verdict.how == "new":
        with change_keyring() as keyring:
            if judge(pad, keyring).how == "new":  # another install may have met another key
                keyring.add(TrustedKey(review.verdict.key, (pad.name.partition("/")[0],), "first use"))
    _record(known, installed, review)
    return installed


def _is_whole(installed: Installed) -> bool:
    try:
        installed.check()
    except InvalidPackage:
        return False
    return True


def _check_folder(folder: Path, plain: Mapping[str, Any]) -> Manifest:
    """The folder's own files must say what the signed manifest says, so that a review of one is one of both."""
    try:
        manifest = read_manifest(folder)
        spaces = {one["id"]: one["spaces"] for one in plain["envs"]}
        found = {**describe(manifest, spaces), "files": plain["files"]}
    except (InvalidManifest, KeyError, TypeError) as error:
        raise InvalidPackage(f"The package's folder can't be used: {error}") from None
    if canonical_json(found) != canonical_json(dict(plain)):
        odd = next(key for key in sorted({*found, *plain}) if found.get(key) != plain.get(key))
        raise InvalidPackage(f"The package's {MANIFEST} and paddock.toml do not agree on {odd}. It is not installed.")
    return manifest


def _install_libraries(wanted: Wanted, digest: str) -> str | None:
    if not wanted.lines:
        return None
    place = data_folder() / "store" / "libraries" / f"{digest}-{sys.implementation.cache_tag}"
    return str(install_dependencies(wanted, place))


def _settle(work: Path, place: Path) -> None:
    """Make the folder read-only and give it its name."""
    for folder, _, _ in os.walk(work, topdown=False):
        if folder != str(work):
            Path(folder).chmod(0o555)
        sync_folder(Path(folder))
    work.rename(place)
    place.chmod(0o555)
    sync_folder(place.parent)


def _record(known: dict[str, Any], installed: Installed, review: Review) -> None:
    entry = known["packages"].setdefault(installed.name, {"serial": -1, "digests": {}, "versions": {}})
    entry["serial"] = max(entry["serial"], installed.serial)
    entry["digests"][str(installed.serial)] = installed.digest
    kept = ("serial", "digest", "how", "installed", "source", "libraries")
    entry["versions"][installed.version] = {
        **{name: getattr(installed, name) for name in kept},
        "signers": [str(one) for one in installed.signers],
    }
    facts = {
        "package": f"{installed.name}@{installed.version}",
        "digest": installed.digest,
        "signers": [one.fingerprint for one in installed.signers],
        "how": installed.how,
        "source": installed.source,
        "override": "downgrade" if installed.serial < entry["serial"] else "",
    }
    lines: list[tuple[Event, dict[str, Any]]] = [("install", facts)]
    if review.needs_person:  # else nobody was asked: what was granted stays, and what was withdrawn meanwhile too
        plain = encode_policy(review.permissions)
        lines.append(("grant", {"package": installed.name, "version": installed.version, "permissions": plain}))
        granted = {"permissions": plain, "version": installed.version, "date": installed.installed}
        known["grants"][installed.name] = granted
    _write_packages(known, *lines)


def uninstall(name: str, version: str | None = None) -> list[str]:
    """Remove a package, or one version of it. Its serials stay known; its grant goes with the last version."""
    with lock_file(data_folder() / "packages.lock"):
        known = _read_packages()
        found = [one for one in installed_packages() if one.name == name and version in (None, one.version)]
        if not found:
            raise _not_installed(name, version)
        versions = known["packages"][name]["versions"]
        for one in found:
            del versions[one.version]
        if not versions:
            known["grants"].pop(name, None)
        _write_packages(known, ("uninstall", {"package": name, "versions": [one.version for one in found]}))
        for one in found:  # after the list: a crash leaves a folder that nothing names
            _remove(one.place)
            if one.libraries is not None:
                _remove(Path(one.libraries))
    return [one.version for one in found]


def installed_packages() -> list[Installed]:
    """Return what is installed, by name, the newest last."""
    return _list_installed(_read_packages())


def _list_installed(known: Mapping[str, Any]) -> list[Installed]:
    found = [
        Installed(name, version, **{**one, "signers": tuple(map(PublicKey.parse, one["signers"]))})
        for name, entry in known["packages"].items()
        for version, one in entry["versions"].items()
    ]
    return sorted(found, key=lambda one: (one.name, one.serial))


def find_installed(name: str, version: str) -> Installed:
    """Return the newest installed version that is, or begins with, ``version``: 1.2 finds 1.2.9. Checks nothing."""
    found = [one for one in installed_packages() if one.name == name and f"{one.version}.".startswith(f"{version}.")]
    exact = [one for one in found if one.version == version]
    if not found:
        raise _not_installed(name, version)
    return (exact or found)[-1]


def use_installed(name: str, version: str) -> Installed:
    """Return an installed package, checked again: its bytes, what it may do, and ``how`` its key is trusted.

    A key that was removed since stands as it stood when the package was installed.
    """
    found = find_installed(name, version)
    verdict = load_keyring().judge(name, found.digest, found.signers, read_settings(), installed=True)
    found.check()
    plain = read_package_manifest((found.place / MANIFEST).read_bytes())
    asked = decode_policy(plain["permissions"])
    grant = grants().get(name)
    beyond = find_excess(asked, grant.permissions if grant else DEFAULT)
    if beyond:
        raise NotPermitted(
            f"{name} {found.version} asks for more than it was granted: {'; '.join(beyond)}. Review it: "
            f"install it again."
        )
    spaces = {one["id"]: one["spaces"] for one in plain["envs"] if one["spaces"] is not None}
    libraries = found.libraries if str(found.libraries).endswith(f"-{sys.implementation.cache_tag}") else None
    return replace(found, how=verdict.how or found.how, spaces=spaces, libraries=libraries)


def grants() -> dict[str, Grant]:
    """Return what was granted, by the name of the package."""
    return _grants(_read_packages())


def withdraw(name: str) -> Grant:
    """Take a package's grant back: it runs within the default permissions, or not at all."""
    with lock_file(data_folder() / "packages.lock"):
        known = _read_packages()
        grant = _grants(known).get(name)
        if grant is None:
            raise NameNotFound(f"Nothing is granted to {name!r}. List grants: paddock permissions --granted")
        del known["grants"][name]
        _write_packages(known, ("withdraw", {"package": name, "version": grant.version}))
    return grant


def _grants(known: Mapping[str, Any]) -> dict[str, Grant]:
    return {
        name: Grant(name, decode_policy(one["permissions"]), one["version"], one["date"])
        for name, one in known["grants"].items()
    }


def _not_installed(name: str, version: str | None) -> NameNotFound | VersionNotFound:
    versions = [one.version for one in installed_packages() if one.name == name]
    if versions:
        return VersionNotFound(f"{name} {version} is not installed. There are: {', '.join(versions)}.")
    return NameNotFound(f"There is no installed package {name!r}. Install it: paddock install {name} --from DIR|URL")


def _file() -> Path:
    return data_folder() / "packages.json"


def _read_packages() -> dict[str, Any]:
    try:
        found: dict[str, Any] = read_json(read_bounded(_file(), 1 << 26), _LIMITS)
        if found.keys() != {"packages", "grants"}:
            raise ValueError("it does not have packages and grants")
        _list_installed(found)
        _grants(found)
        for entry in found["packages"].values():
            max(entry["serial"], *map(int, entry["digests"].keys()), 0)
        return found
    except FileNotFoundError:
        return {"packages": {}, "grants": {}}
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise InvalidPackage(f"{_file()} is damaged: {error}. Put back a copy of it.") from None


def _write_packages(known: Mapping[str, Any], *events: tuple[Event, dict[str, Any]]) -> None:
    write_logged(*events, path=_file(), data=json.dumps(known, indent=1, sort_keys=True).encode())


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield each file below the folder, by its path; a link counts as a file."""
    top = os.fspath(folder)
    for place, folders, names in os.walk(top):
        below = "" if place == top else place[len(top) + 1 :].replace(os.sep, "/") + "/"
        for name in [*names, *(one for one in folders if Path(place, one).is_symlink())]:
            yield below + name, Path(place, name)


def _digest_of(path: Path, one: ListedFile) -> str:
    """Return the digest of a regular file, or a text that is none."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with os.fdopen(os.open(path, flags), "rb") as stream:
            digest, left = sha256(), one.size + 1  # not more, however large it is
            while left > 0 and (chunk := stream.read(min(_PART_BYTES, left))):
                digest.update(chunk)
                left -= len(chunk)
            return digest.hexdigest()
    except OSError as error:
        return f"unreadable, {error.strerror}"


def _sweep(known: Mapping[str, Any]) -> None:
    """Remove what no list names: a process that was killed has left it. The caller has the lock, so none is at work."""
    listed = {one["digest"] for entry in known["packages"].values() for one in entry["versions"].values()}
    for one in (data_folder() / "store").glob("*/*"):
        if one.name[:64] not in listed:
            _remove(one)


def _remove(place: Path) -> None:
    """Remove a folder of the store, which is read-only."""
    if place.is_symlink() or not place.is_dir():
        return
    for folder, _, _ in os.walk(place):
        Path(folder).chmod(0o700)
    shutil.rmtree(place, ignore_errors=True)
