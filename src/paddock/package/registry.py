"""A registry: a folder that any web server or USB stick can carry. It is not trusted; what is in it is signed.

``OWNER/index.json`` lists the packages of one namespace, signed by its owner, and says until when that list may be
believed, so that an old copy is noticed. Revocation lists are beside it.
"""

from __future__ import annotations

import http.client
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from paddock.errors import (
    Downgrade,
    Expired,
    InvalidPackage,
    InvalidSignature,
    NameNotFound,
    PaddockError,
    Unreachable,
    Untrusted,
    VersionNotFound,
)
from paddock.package import DATE
from paddock.package.archive import CHUNK, MAX_BYTES
from paddock.package.pad import NAME, VERSION, Pad, file_name
from paddock.package.store import Installed, Review, install
from paddock.trust.envelope import open_envelope, read_claimed_keys, seal, statement
from paddock.trust.files import FULL, noticing_full_disk, open_regular, read_bounded, replace_file, writing
from paddock.trust.keyring import REVOCATIONS, change_keyring, load_keyring
from paddock.trust.keys import PublicKey, SigningKey
from paddock.trust.names import NAMESPACE
from paddock.trust.settings import read_settings

INDEX = "urn:paddock:index:v1"
DAYS = 30  # for which an index is believed
_FILE = "index.json"
_MAX_INDEX = 1 << 24
_MAX_LISTS = 32  # of revocations: one per key
_REVOCATIONS = re.compile(r"revocations-[0-9a-f]{16}\.json", re.ASCII)
_PACKAGE_FILE = re.compile(r"[a-z0-9][\w.+-]{0,150}\.pad", re.ASCII)
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Index:
    """A verified index. ``known``: whether its key is one of the namespace's on this machine."""

    namespace: str
    serial: int
    signer: PublicKey
    known: bool
    packages: tuple[dict[str, Any], ...]
    revocations: dict[str, str]  # SHA-256 by file


def publish(file: Path, folder: Path, key: SigningKey, *, namespace: str | None = None, days: int = DAYS) -> Path:
    """Put a package, or with ``namespace`` a revocation list, into a registry's folder, and sign its index again."""
    if namespace is None:
        with Pad(file) as pad:
            pad.check_files()
            if not pad.signers:
                raise InvalidSignature(f"{file} is not signed. First: paddock sign {file} --key KEY")
            namespace, name = pad.name.partition("/")[0], file_name(pad.name, pad.manifest["version"])
    else:
        data = file.read_bytes()
        issuer = open_envelope(data, read_claimed_keys(data), predicate_type=REVOCATIONS).signers[0]
        name = f"revocations-{issuer.fingerprint[:16]}.json"
    if not re.fullmatch(NAMESPACE, namespace):
        raise InvalidPackage(f"{namespace[:60]!r} is not a namespace, as 'acme'.")
    place = folder / namespace
    place.mkdir(parents=True, exist_ok=True)
    target = place / name
    if target.suffix == ".pad" and target.exists() and _digest(target) != _digest(file):
        raise InvalidPackage(f"{target} has other contents. A release never changes: give this one a new version.")
    with file.open("rb") as source, writing(target, 0o644) as out:
        shutil.copyfileobj(source, out)
    replace_file(place / _FILE, _write_index(place, namespace, key, days), 0o644)
    return target


def _digest(file: Path) -> str:
    with Pad(file) as pad:
        return pad.digest


def _write_index(place: Path, namespace: str, key: SigningKey, days: int) -> bytes:
    """List what is in the folder now. The serial is one more than that of the index that is there."""
    before = place / _FILE
    serial = 0
    if before.exists():
        data = read_bounded(before, _MAX_INDEX)
        opened = open_envelope(data, read_claimed_keys(data), predicate_type=INDEX)
        serial = _check_index(opened.predicate, namespace)["serial"]
    packages = []
    for file in sorted(place.glob("*.pad")):
        with Pad(file) as pad:
            listed = {name: pad.manifest[name] for name in ("name", "version", "serial")}
            packages.append({**listed, "digest": pad.digest, "file": file.name})
    lists = sorted(place.glob("revocations-*.json"))
    revocations = {file.name: sha256(file.read_bytes()).hexdigest() for file in lists}
    ends = datetime.now(timezone.utc).date() + timedelta(days=days)
    said = {
        "namespace": namespace,
        "serial": serial + 1,
        "expires": ends.isoformat(),
        "packages": packages,
        "revocations": revocations,
    }
    subjects = {one["file"]: one["digest"] for one in packages}
    return seal(statement(subjects, INDEX, said), [key])


def install_by_name(
    name: str,
    version: str | None,
    source: str,
    approve: Callable[[Review], bool],
    *,
    allow_downgrade: bool = False,
) -> Installed:
    """Install a package of a registry: the newest, or the newest whose version is or begins with ``version``."""
    index = read_index(source, name.partition("/")[0], allow_downgrade=allow_downgrade)
    found = [one for one in index.packages if one["name"] == name]
    if not found:
        names = sorted({one["name"] for one in index.packages})
        raise NameNotFound(f"The registry has no package {name!r}. There are: {', '.join(names) or 'none'}.")
    if version is not None:
        found = [one for one in found if f"{one['version']}.".startswith(f"{version}.")] or found[:0]
    if not found:
        raise VersionNotFound(f"The registry has no version {version} of {name}.")
    chosen = max(found, key=lambda one: one["serial"])
    with tempfile.TemporaryDirectory(prefix="paddock-") as folder:
        file = Path(folder) / "download.pad"
        with noticing_full_disk(file), file.open("xb") as out:
            _copy(source, f"{index.namespace}/{chosen['file']}", out, MAX_BYTES)
        installed = install(
            file,
            # A key that is new may come from this index only if it signed that too.
            lambda review: (review.verdict.how != "new" or review.verdict.key == index.signer) and approve(review),
            allow_downgrade=allow_downgrade,
            source=_printable_source(source),
            expected={what: chosen[what] for what in ("name", "version", "serial", "digest")},
        )
    if not index.known and load_keyring().judge_index(index.namespace, index.signer):
        _remember(source, index)  # only now: a stranger's index must not block the owner's
        load_keyring().judge(name, installed.digest, installed.signers, read_settings(), installed=True)
    return installed


def read_index(source: str, namespace: str, *, allow_downgrade: bool = False) -> Index:
    """Read and verify a namespace's index, and remember its serial and what it says was revoked."""
    data = _fetch(source, f"{namespace}/{_FILE}", _MAX_INDEX)
    claimed = read_claimed_keys(data)
    opened = open_envelope(data, claimed, predicate_type=INDEX)
    said = _check_index(opened.predicate, namespace)
    keyring = load_keyring()
    known = keyring.judge_index(namespace, opened.signers[0])
    if not allow_downgrade:
        keyring.check_index(namespace, said["serial"])
    if keyring.today() > said["expires"]:
        raise Expired(
            f"The index of {namespace!r} could be believed until {said['expires']}; today is {keyring.today()}. Either "
            f"its owner has not renewed it (paddock publish), or this is an old copy."
        )
    index = Index(
        namespace, said["serial"], opened.signers[0], known, tuple(said["packages"]), dict(said["revocations"])
    )
    if known:
        _remember(source, index)
    return index


def _remember(source: str, index: Index) -> None:
    lists = [_fetch(source, f"{index.namespace}/{name}", _MAX_INDEX) for name in index.revocations]
    for data, (name, digest) in zip(lists, index.revocations.items(), strict=True):
        if sha256(data).hexdigest() != digest:
            raise InvalidSignature(f"{name} of the registry is not the list that its index promises.")
    with change_keyring() as keyring:
        for data in lists:
            with suppress(Untrusted, Downgrade):  # a stranger, or the thief of a key, revokes nothing with a list
                keyring.learn(data)
        keyring.indexes[index.namespace] = max(index.serial, keyring.indexes.get(index.namespace, 0))


def _check_index(said: dict[str, Any], namespace: str) -> dict[str, Any]:
    match said:
        case {
            "namespace": str() as own,
            "serial": int(),
            "expires": str() as expires,
            "packages": list() as packages,
            "revocations": dict() as revocations,
        } if (
            len(said) == 5
            and own == namespace
            and DATE.fullmatch(expires)
            and all(_is_listed(one, namespace) for one in packages)
            and len(revocations) <= _MAX_LISTS
            and all(_REVOCATIONS.fullmatch(name) for name in revocations)
        ):
            return said
    raise InvalidSignature(f"The registry's {namespace}/{_FILE} is not an index of {namespace!r}.")


def _is_listed(one: Any, namespace: str) -> bool:
    match one:
        case {"name": str() as name, "version": str() as version, "serial": int(), "digest": str(), "file": str()}:
            texts = NAME.fullmatch(name), VERSION.fullmatch(version), _PACKAGE_FILE.fullmatch(one["file"])
            return len(one) == 5 and None not in texts and name.startswith(f"{namespace}/")
    return False


# ── Reading from a folder or a web server. Names come from a signed index or our own patterns ──


def _fetch(source: str, name: str, limit: int) -> bytes:
    out = BytesIO()
    _copy(source, name, out, limit)
    return out.getvalue()


def _copy(source: str, name: str, out: BinaryIO, limit: int) -> None:
    left = limit
    with _open(source, name) as stream:
        while chunk := stream.read(CHUNK):
            left -= len(chunk)
            if left < 0:
                raise InvalidPackage(f"{name} of the registry is larger than {limit:,} bytes.")
            out.write(chunk)


@contextmanager
def _open(source: str, name: str) -> Iterator[Any]:
    if not source.startswith(("http://", "https://")):
        if "://" in source:
            raise Unreachable(f"{_printable_source(source)!r} is not a folder, nor an http or https URL.")
        try:
            stream = open_regular(Path(source) / name)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not a regular file"
            raise Unreachable(f"The registry {source} has no readable {name}: {why}.") from None
        with stream:
            yield stream
        return
    parts = urlsplit(source)
    if "@" in parts.netloc or not parts.hostname:
        raise Unreachable("A registry's URL is http://host/path or https://host/path, without a user or a password.")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    with closing(kind(parts.netloc, timeout=_TIMEOUT_S)) as connection:
        try:
            connection.request("GET", f"{parts.path.rstrip('/')}/{name}", headers={"Accept-Encoding": "identity"})
            answer = connection.getresponse()
            if answer.status != 200:  # a redirect too: it could lead anywhere
                raise Unreachable(f"{parts.netloc} answered {answer.status} for {name}; expected 200.")
            yield answer
        except (http.client.HTTPException, OSError) as error:
            if isinstance(error, PaddockError) or getattr(error, "errno", None) in FULL:
                raise
            raise Unreachable(f"{name} can't be read from {parts.netloc}: {error}.") from error


def _printable_source(source: str) -> str:
    """The source without what could be a password or a token."""
    return re.sub(r"//[^/@]*@", "//", source).partition("?")[0]
