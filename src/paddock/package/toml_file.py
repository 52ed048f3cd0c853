"""Read a TOML file that a stranger wrote. Small enough to parse is not enough: one long dotted key takes gigabytes."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

from paddock.errors import InvalidManifest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_BYTES = 1 << 20
MAX_KEY_PARTS = 64
MAX_DEPTH = 64
_INTEGERS = range(-(1 << 63), 1 << 63)  # TOML's; this parser reads hexadecimal ones of any length

# TOML's strings and comments. One that does not end takes the rest, so that no text is looked at twice; the parser
# stops there as well. A text of several lines may end in up to five quotes, two of them its own.
_STRING = re.compile(
    r'''"""(?:[^\\]|\\.)*?(?:"{3,5}|\Z)|'{3}.*?(?:'{3,5}|\Z)|"(?:[^"\\\n]|\\.)*(?:"|$)|'[^'\n]*(?:'|$)|\#[^\n]*''',
    re.MULTILINE | re.DOTALL,
)
# What a dotted key is made of. Values can be too, but between two dots of different values there is a comma.
_CHAIN = re.compile(r"[\w \t.-]+")


def read_toml(file: Path) -> dict[str, Any]:
    """The file's table; InvalidManifest says what is wrong with the file."""
    text = _text(file)
    # The standard parser keeps every beginning of a dotted key: 200,000 parts are 160 GB.
    if any(chain.group().count(".") >= MAX_KEY_PARTS for chain in _CHAIN.finditer(_STRING.sub("_", text))):
        raise InvalidManifest(f"{file}: a key has more than {MAX_KEY_PARTS} parts.")
    try:
        table: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise InvalidManifest(f"{file}: lists or tables are nested too deeply.") from None
    except ValueError as error:  # of which TOMLDecodeError is one; a number of 5,000 digits is another
        raise InvalidManifest(f"{file} is not TOML: {str(error)[:300]}") from None
    _check_bounds(file, table)
    return table


def _check_bounds(file: Path, table: dict[str, Any]) -> None:
    """Nothing nested so deeply that recursion over it fails, no integer so long that showing it does."""
    waiting: list[tuple[str, Any, int]] = [("", table, 0)]
    while waiting:
        key, value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise InvalidManifest(f"{file}: {key[:80]} is nested deeper than {MAX_DEPTH}.")
        if isinstance(value, dict):
            waiting += [(f"{key[:80]}.{name}" if key else name, item, depth + 1) for name, item in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{key[:80]}[{at}]", item, depth + 1) for at, item in enumerate(value)]
        elif type(value) is int and value not in _INTEGERS:
            raise InvalidManifest(f"{file}: {key}: an integer of more than 64 bits.")


def _text(file: Path) -> str:
    try:
        # Without waiting: the file of a stranger's folder may be a pipe that nobody writes to.
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise InvalidManifest(f"{file} can't be read: {error.strerror}.") from None
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidManifest(f"{file} is no file but a folder, a pipe or a device.")
        raw = stream.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise InvalidManifest(f"{file} is larger than {MAX_BYTES:,} bytes.")
    try:
        return raw.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidManifest(f"{file} is not UTF-8: byte {error.start}.") from None
