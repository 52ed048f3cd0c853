"""Signed packages: ``owner-name-version.pad``, which holds ``manifest.json``, signatures and the folder as ``env/``.

A package's digest is the SHA-256 of its ``manifest.json``, which has the digest of every file: that one text is what a
key signs. Nothing of a package is run or imported here.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from paddock.errors import InvalidManifest, InvalidPackage, InvalidPolicy, InvalidSignature, PaddockError
from paddock.package import DATE, FILE, LOCK, Fields, Manifest, read_manifest
from paddock.package.archive import CHUNK, MAX_ENTRIES, Archive, Entry, check_name, write_archive
from paddock.package.dependencies import find_wanted
from paddock.sandbox.policy import Policy, covers
from paddock.spaces.json_data import JsonLimits, NotJson
from paddock.trust.envelope import (
    MAX_SIGNATURES,
    canonical_json,
    open_envelope,
    read_canonical,
    read_claimed_keys,
    seal,
    statement,
)
from paddock.trust.files import write_new, writing
from paddock.trust.keys import PublicKey, SigningKey
from paddock.trust.names import NAMESPACE

SCHEMA = "paddock.package/1"
PREDICATE = "urn:paddock:package:v1"
MANIFEST = "manifest.json"
CODE = "env/"
_SIGNATURES = "signatures/"
_MAX_MANIFEST_BYTES = 1 << 22
_MAX_SIGNATURE_BYTES = 1 << 16
_LIMITS = JsonLimits(text=_MAX_MANIFEST_BYTES, nesting=40, pieces=400_000, digits=19)
NAME = re.compile(f"{NAMESPACE}/{NAMESPACE}", re.ASCII)
VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,3}(?:(?:a|b|rc|\.post|\.dev)\d{1,6})?", re.ASCII)
_NUMBERED = re.compile(r"(\d{1,5})(?:\.(\d{1,3}))?(?:\.(\d{1,3}))?", re.ASCII)
_SECRET = b"PRIVATE KEY-----"


def file_name(name: str, version: str) -> str:
    """Return ``acme-maze-1.2.0.pad``."""
    return f"{name.replace('/', '-')}-{version}.pad"


def describe(manifest: Manifest, spaces: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``manifest.json`` says of a folder, but for its files. ``spaces``: of each id, as JSON texts."""
    name = manifest.name
    if manifest.openenv is not None or not NAME.fullmatch(name):
        raise InvalidManifest(
            f"{manifest.folder / FILE}: [package]: name: {name[:80]!r} is not 'owner/name', as a package's: lower-case "
            f"letters, digits, '_' and '-', as 'acme/maze'."
        )
    if not VERSION.fullmatch(manifest.version):
        raise InvalidManifest(f"{manifest.folder / FILE}: [package]: version: {manifest.version!r} is not as '1.2.0'.")
    owner = name.partition("/")[0]
    for env in manifest.envs:
        space, slash, _ = env.spec.id.rpartition("/")
        if slash and space != owner:
            raise InvalidManifest(f"The id {env.spec.id!r} is of another namespace; this package's is {owner!r}.")
    if inside := [path for path in manifest.permissions.write if covers(str(manifest.folder), path)]:
        raise InvalidManifest(
            f"{manifest.folder / FILE}: write: {inside[0]} is in the package, which stays as it was signed."
        )
    wanted = find_wanted(manifest.folder)
    if wanted.lines and not wanted.locked:
        raise InvalidManifest(
            f"{manifest.folder}: {', '.join(wanted.files)} asks for {', '.join(wanted.names)} without hashes. "
            f"Lock them in {LOCK}, as `uv pip compile --generate-hashes` does."
        )
    described = {
        "schema": SCHEMA,
        "name": name,
        "version": manifest.version,
        "serial": _serial(manifest),
        "description": manifest.description,
        "envs": [
            {
                "id": env.spec.id,
                "entry": str(env.spec.entry_point),
                "determinism": "per-platform" if env.deterministic else "none",
                "spaces": spaces.get(env.spec.id),
            }
            for env in manifest.envs
        ],
        "permissions": encode_policy(manifest.portable(manifest.permissions_of_all())),
        "dependencies": list(wanted.lines),
        "expires": manifest.expires,
    }
    try:
        canonical_json(described)
    except ValueError as error:
        raise InvalidManifest(f"{manifest.folder / FILE}: {error}.") from None
    return described


def _serial(manifest: Manifest) -> int:
    """Return the number that grows with every release: the manifest's own, or 1.2.3 as 1002003."""
    if manifest.serial is not None:
        return manifest.serial
    parts = _NUMBERED.fullmatch(manifest.version)
    if parts is None:
        raise InvalidManifest(
            f"{manifest.folder / FILE}: [package]: version {manifest.version!r} is not three numbers, so say which "
            f"release it is: serial = N, higher than that of every release before."
        )
    major, minor, patch = (int(part or 0) for part in parts.groups())
    return major * 1_000_000 + minor * 1_000 + patch


def encode_policy(policy: Policy) -> dict[str, Any]:
    """Write permissions as data without floats."""
    plain: dict[str, Any] = _without_floats(policy.to_dict())
    return plain


def decode_policy(plain: Any) -> Policy:
    """Read what ``encode_policy`` wrote; InvalidPolicy for anything else."""
    return Policy.from_dict(_with_floats(plain))


def _without_floats(value: Any) -> Any:
    if isinstance(value, float):
        return {"$float": repr(value)}
    if isinstance(value, Mapping):
        return {key: _without_floats(item) for key, item in value.items()}
    return [_without_floats(item) for item in value] if isinstance(value, list | tuple) else value


def _with_floats(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"$float"}:
            try:
                return float(value["$float"])
            except (TypeError, ValueError):
                raise InvalidPolicy(f"{str(value)[:80]} is not a number.") from None
        return {key: _with_floats(item) for key, item in value.items()}
    return [_with_floats(item) for item in value] if isinstance(value, list) else value


# ── Packing and signing ──


def pack(folder: str | os.PathLike[str], out: Path | None = None, spaces: Mapping[str, Any] | None = None) -> Path:
    """Write the package of a folder, the same bytes every time, and return its path. It is not signed yet.

    Hidden files, ``__pycache__`` and other packages stay out. A link or a signing key in the folder is an error, and so
    is a file in the place of ``out`` that is anything but an unsigned package.
    """
    manifest = read_manifest(folder)
    contents = describe(manifest, spaces or {})
    files = list(_find_files(manifest.folder))
    if len(files) > MAX_ENTRIES - MAX_SIGNATURES - 1:
        raise InvalidPackage(f"{manifest.folder} has {len(files):,} files; a package has less than {MAX_ENTRIES:,}.")
    entries = [_measure(manifest.folder, name) for name in files]
    contents["files"] = [listed for _, listed in entries]
    text = canonical_json(contents)
    target = out or Path(file_name(contents["name"], contents["version"]))
    if os.path.lexists(target) and (why := _find_reason_to_keep(target)):
        raise InvalidPackage(f"{target} {why}, and is not overwritten. Name another file with -o, or remove it.")
    sources = ((entry, _read_chunks(manifest.folder / entry.name.removeprefix(CODE))) for entry, _ in entries)
    with writing(target, 0o644) as stream:
        write_archive(stream, [(_entry_of(MANIFEST, text), [text]), *sources])
    return target


def _find_reason_to_keep(target: Path) -> str:
    try:
        with Pad(target) as pad:
            return "is signed" if pad.signers else ""
    except PaddockError:
        return "is not a whole package"


def _find_files(folder: Path) -> Iterator[str]:
    """Yield the paths of what belongs into the package, in order."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if not one.startswith(".") and one != "__pycache__"]
        below = Path(place).relative_to(folder)
        for name in [*names, *(one for one in folders if (Path(place) / one).is_symlink())]:
            path = (below / name).as_posix()
            if name.startswith(".") or name.endswith((".pad", ".pyc", ".pyo")):
                continue
            if (folder / path).is_symlink() or not (folder / path).is_file():
                raise InvalidPackage(f"{folder / path} is a link, or not a regular file. Copy what it leads to.")
            check_name(CODE + path)
            found.append(path)
    return iter(sorted(found))


def _measure(folder: Path, name: str) -> tuple[Entry, dict[str, Any]]:
    digest, crc, size, first = sha256(), 0, 0, b""
    for chunk in _read_chunks(folder / name):
        digest.update(chunk)
        crc, size, first = zlib.crc32(chunk, crc), size + len(chunk), first or chunk
    if _SECRET in first[:4096]:
        raise InvalidPackage(f"{folder / name} holds a private key, and a package is public. Move it elsewhere.")
    mode = 0o755 if (folder / name).stat().st_mode & 0o100 else 0o644
    listed = {"path": name, "size": size, "sha256": digest.hexdigest(), "mode": f"0{mode:o}"}
    return Entry(CODE + name, mode, size, crc), listed


def _read_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def _entry_of(name: str, data: bytes) -> Entry:
    return Entry(name, 0o644, len(data), zlib.crc32(data))


def sign(path: str | os.PathLike[str], key: SigningKey) -> str:
    """Add a key's signature to a package, and return the digest that it signed. What others signed stays."""
    with Pad(path) as pad:
        pad.check_files()
        named = {name: pad.manifest[name] for name in ("name", "version", "serial")}
        envelope = seal(statement({MANIFEST: pad.digest}, PREDICATE, named), [key])
        own = f"{_SIGNATURES}{key.public.fingerprint}.dsse.json"
        texts = {name: pad.archive.read(name) for name in pad.archive.entries if name.startswith(_SIGNATURES)}
        texts[own] = envelope
        if len(texts) > MAX_SIGNATURES:
            raise InvalidPackage(f"{os.fspath(path)} has {MAX_SIGNATURES} signatures already.")
        first = [(_entry_of(MANIFEST, pad.text), [pad.text])]
        first += [(_entry_of(name, text), [text]) for name, text in sorted(texts.items())]
        code = (entry for name, entry in pad.archive.entries.items() if name.startswith(CODE))
        with writing(path, 0o644) as stream:
            write_archive(stream, [*first, *((entry, pad.archive.chunks(entry.name)) for entry in code)])
        return pad.digest


# ── Reading ──


@dataclass(frozen=True)
class ListedFile:
    """A file as ``manifest.json`` lists it."""

    path: str
    size: int
    sha256: str
    mode: int


class Pad:
    """An open package: archive, manifest and signatures are sound, and each signature is by the key that it names.

    Whether those keys are trusted is for a Keyring to say; whether the files are right, for ``check_files``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.archive = Archive(path)
        try:
            self.text = self._small(MANIFEST, _MAX_MANIFEST_BYTES)
            self.manifest = read_package_manifest(self.text)
            self.files = listed_files(self.manifest)
            self.digest = sha256(self.text).hexdigest()
            self._check_entries()
            signatures = [name for name in self.archive.entries if name.startswith(_SIGNATURES)]
            self.signers = tuple(map(self._read_signer, signatures))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Pad:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self.archive.close()

    @property
    def name(self) -> str:
        name: str = self.manifest["name"]
        return name

    def check_files(self) -> None:
        """Read every file. InvalidPackage names one that is not what the manifest lists."""
        for one in self.files:
            digest = sha256()
            for chunk in self.archive.chunks(CODE + one.path):
                digest.update(chunk)
            check_digest(one, digest.hexdigest())

    def extract(self, folder: Path) -> None:
        """Write the package into an empty folder of ours. Checks what it writes: the file may have changed."""
        write_new(folder / MANIFEST, self.text, 0o444)
        for one in self.files:
            target = folder / CODE / one.path
            target.parent.mkdir(parents=True, exist_ok=True)
            digest = sha256()
            with target.open("xb") as stream:
                for chunk in self.archive.chunks(CODE + one.path):
                    digest.update(chunk)
                    stream.write(chunk)
                stream.flush()
                os.fsync(stream.fileno())
            check_digest(one, digest.hexdigest())
            target.chmod(one.mode & 0o555)

    def _small(self, name: str, limit: int) -> bytes:
        entry = self.archive.entries.get(name)
        if entry is None or entry.size > limit:
            raise InvalidPackage(f"The package has no {name}, or one of more than {limit:,} bytes.")
        return self.archive.read(name)

    def _check_entries(self) -> None:
        """The archive has the manifest, then signatures, then exactly the files that are listed, each in order."""
        names = list(self.archive.entries)
        signatures = [name for name in names if name.startswith(_SIGNATURES)]
        expected = [MANIFEST, *sorted(signatures), *(CODE + one.path for one in self.files)]
        if names != expected or len(signatures) > MAX_SIGNATURES:
            odd = min({*names} ^ {*expected}, default="their order")
            raise InvalidPackage(f"The package's files are not those that its manifest lists: {odd}.")
        for one in self.files:
            entry = self.archive.entries[CODE + one.path]
            if (entry.size, entry.mode) != (one.size, one.mode):
                raise InvalidPackage(f"{one.path} has another size or mode than the manifest lists.")

    def _read_signer(self, name: str) -> PublicKey:
        envelope = self._small(name, _MAX_SIGNATURE_BYTES)
        claimed = read_claimed_keys(envelope)
        try:
            read_canonical(envelope)
        except NotJson as error:
            raise InvalidSignature(f"{name[:100]}: {error}") from None
        if len(claimed) != 1 or name != f"{_SIGNATURES}{claimed[0].fingerprint}.dsse.json":
            raise InvalidSignature(f"{name[:100]} is not an envelope with the one signature of the key in its name.")
        try:
            opened = open_envelope(envelope, claimed, predicate_type=PREDICATE)
        except PaddockError as error:
            raise InvalidSignature(f"The signature of {claimed[0].fingerprint} does not fit: {error}") from None
        said = {name: self.manifest[name] for name in ("name", "version", "serial")}
        if opened.digest_of(MANIFEST) != self.digest or opened.predicate != said:
            raise InvalidSignature(f"The signature of {claimed[0].fingerprint} is of another package.")
        return claimed[0]


def check_digest(one: ListedFile, digest: str) -> None:
    """Raise InvalidPackage unless the file has its digest."""
    if digest != one.sha256:
        raise InvalidPackage(f"{one.path} was changed: its SHA-256 is {digest}, and {one.sha256} is in the manifest.")


def read_package_manifest(text: bytes) -> dict[str, Any]:
    """Read ``manifest.json``. What it says of the folder is compared with the folder when that is there."""
    try:
        plain = read_canonical(text, _LIMITS)
        if type(plain) is not dict:
            raise InvalidPackage(f"{MANIFEST} is not an object.")
        fields = Fields(MANIFEST, plain)
        for key in ("schema", "name", "version", "description"):
            fields.take(key, str, required=True)
        fields.take("serial", int, required=True)
        envs = fields.tables("envs")
        fields.tables("files")
        decode_policy(fields.take("permissions", dict, required=True))
        dependencies = fields.take("dependencies", list, required=True)
        expires = fields.values["expires"] if fields.values.get("expires", "") is None else fields.take("expires", str)
        fields.known.append("expires")
        fields.finish()
    except NotJson as error:
        raise InvalidPackage(f"{MANIFEST}: {error}") from None
    except (InvalidManifest, InvalidPolicy) as error:
        raise InvalidPackage(str(error)) from None
    if plain["schema"] != SCHEMA:
        raise InvalidPackage(f"{MANIFEST} has the schema {plain['schema'][:40]!r}; this version reads {SCHEMA!r}.")
    if not NAME.fullmatch(plain["name"]) or not VERSION.fullmatch(plain["version"]) or plain["serial"] < 0:
        raise InvalidPackage(f"{MANIFEST}: name, version or serial is not that of a package.")
    if not all(type(one) is str for one in dependencies) or not (expires is None or DATE.fullmatch(expires)):
        raise InvalidPackage(f"{MANIFEST}: dependencies are texts, and expires is a date or null.")
    if not all(_is_env(one.values) for one in envs):
        raise InvalidPackage(f"{MANIFEST}: an environment has id, entry, determinism and spaces: texts, or no spaces.")
    return plain


def listed_files(manifest: Mapping[str, Any]) -> tuple[ListedFile, ...]:
    """Return the files that a ``manifest.json`` lists, in order."""
    files: list[ListedFile] = []
    for one in manifest["files"][: MAX_ENTRIES + 1]:
        match one:
            case {"path": str() as path, "size": int() as size, "sha256": str() as digest, "mode": str() as mode}:
                if len(one) == 4 and size >= 0 and type(size) is int and mode in ("0644", "0755"):
                    files.append(ListedFile(path, size, digest, int(mode, 8)))
                    continue
        raise InvalidPackage(f"{MANIFEST}: {str(one)[:100]} is not a file's path, size, sha256 and mode.")
    if [one.path for one in files] != sorted({one.path for one in files}):
        raise InvalidPackage(f"{MANIFEST}: the files are not in order, or one is there twice.")
    return tuple(files)


def _is_env(one: Any) -> bool:
    match one:
        case {"id": str(), "entry": str(), "determinism": str(), "spaces": spaces} if len(one) == 4:
            match spaces:
                case None | {"observation": str(), "action": str()}:
                    return spaces is None or len(spaces) == 2
    return False
