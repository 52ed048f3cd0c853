"""Signed packages for tests: folders, keys, and files in an archive that say what a test wants."""

import io
import json
import zipfile
import zlib
from hashlib import sha256

from paddock.package.archive import Entry, write_archive
from paddock.package.pad import CODE, MANIFEST, PREDICATE, pack, sign
from paddock.trust.envelope import canonical_json, seal, statement
from paddock.trust.keyring import TrustedKey, change_keyring
from paddock.trust.keys import SigningKey

OWNER = SigningKey.generate()
STRANGER = SigningKey.generate()
TOML = """
[package]
name = "{name}"
version = "{version}"
{more}
[[env]]
id = "Maze-v0"
entry = "maze_env:Maze"
"""
FORGED_TOML = TOML.format(name="acme/maze", version="1.0.0", more="")  # says what `forge` says
CODE_TEXT = """
import paddock


class Maze(paddock.Env):
    observation_space = paddock.spaces.Discrete(5)
    action_space = paddock.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return int(action), 0.0, True, False, {}
"""


def write_folder(folder, *, name="acme/maze", version="1.0.0", more="", code=CODE_TEXT, files=()):
    """A folder to pack; ``files``: further ones, by path."""
    texts = {"paddock.toml": TOML.format(name=name, version=version, more=more), "maze_env.py": code, **dict(files)}
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def release(folder, *, key=OWNER, **more):
    """The file of a signed package, beside ``folder``."""
    version = more.get("version", "1.0.0")
    file = pack(write_folder(folder, **more), folder.parent / f"{folder.name}-{version}.pad")
    sign(file, key)
    return file


def trust(key=OWNER, namespace="acme", **times):
    with change_keyring() as keyring:
        keyring.add(TrustedKey(key.public, (namespace,), **times))


def forge(files, *, manifest=None, key=OWNER, listed=None, modes=(), **changes):
    """The bytes of a well-formed archive around these env files, signed, whatever its manifest says."""
    found = {
        "schema": "paddock.package/1",
        "name": "acme/maze",
        "version": "1.0.0",
        "serial": 1000000,
        "description": "",
        "envs": [{"id": "Maze-v0", "entry": "maze_env:Maze", "determinism": "per-platform", "spaces": None}],
        "permissions": {},
        "dependencies": [],
        "expires": None,
        "files": [list_file(path, data) for path, data in sorted(files.items())] if listed is None else listed,
        **changes,
    }
    text = canonical_json(found) if manifest is None else manifest
    said = {name: found[name] for name in ("name", "version", "serial")}
    envelope = seal(statement({MANIFEST: sha256(text).hexdigest()}, PREDICATE, said), [key])
    signature = f"signatures/{key.public.fingerprint}.dsse.json"
    code = {CODE + path: files[path] for path in sorted(files)}
    return archive({MANIFEST: text, signature: envelope, **code}, modes=modes)


def list_file(path, data, mode="0644"):
    return {"path": path, "size": len(data), "sha256": sha256(data).hexdigest(), "mode": mode}


def archive(files, *, modes=()):
    """The bytes of an archive with these entries in this order."""
    out = io.BytesIO()
    modes = dict(modes)
    entries = (
        (Entry(name, modes.get(name, 0o644), len(data), zlib.crc32(data)), [data]) for name, data in files.items()
    )
    write_archive(out, entries)
    return out.getvalue()


def read_manifest_of(file):
    with zipfile.ZipFile(file) as opened:
        return json.loads(opened.read(MANIFEST))


def write_wheel(place, name, metadata=""):
    """A wheel with one module, and its SHA-256."""
    wheel, info = place / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(f"{name}.py", "HERE = True\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return sha256(wheel.read_bytes()).hexdigest()
