"""Policy: what code behind a wall may do, as data. What it does not name is denied; it enforces nothing itself."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from paddock.errors import InvalidPolicy
from paddock.sandbox.bounds import CALL_S, INFO_KB, REWARD_RANGE, START_S

Tier = Literal["auto", "sandbox", "landlock"]

_HOST = re.compile(r"(?P<name>\*|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]):(?P<port>[1-9]\d{0,4})")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_COUNTS = ("scratch_mb", "processes", "threads", "memory_mb", "descriptors", "output_kb", "info_kb")
_SECONDS = ("cpu_s", "call_s", "call_cpu_s", "start_s")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Permissions and limits. The default: compute, and a scratch folder; no files, network, programs or secrets.

    >>> Policy(hosts=("api.example.com:443",), memory_mb=512).hosts
    ('api.example.com:443',)
    """

    tier: Tier = "sandbox"
    # Files and folders, by absolute path, the same inside. Those to write are shared with the host and have no quota.
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    scratch_mb: int = 64  # /tmp inside: empty at the start, gone at the end
    hosts: tuple[str, ...] = ()  # "name:port", reached through a proxy that lets nothing else pass
    # What the hosts said is recorded to this file; once it exists it answers in their place, without a network.
    cassette: str | None = None
    programs: tuple[str, ...] = ()  # absolute paths of what may be executed
    processes: int = 1  # the worker itself among them
    threads: int = 64
    memory_mb: int = 2048
    cpu_s: float | None = None  # of one core, over the whole life
    call_s: float = CALL_S  # wall time of one request: a reset, a step, a render
    # CPU time of one request, all threads and processes together. None is call_s: one core for as long as it may take.
    call_cpu_s: float = None  # type: ignore[assignment]  # a number once it is made
    start_s: float = START_S  # wall time until it is made
    descriptors: int = 256
    output_kb: int = 64  # of stdout and stderr that are kept; more is thrown away
    variables: Mapping[str, str] = field(default_factory=dict)  # environment variables: none of the host's
    devices: tuple[str, ...] = ()  # as /dev/nvidia0; each weakens the wall
    # What it may say. The launcher has no use for these; whoever reads the replies has.
    reward_range: tuple[float, float] = REWARD_RANGE
    info_kb: int = INFO_KB
    # Processes of its own it never starts: it may ask for this many siblings, each within these permissions.
    workspaces: int = 0
    workspace: Policy | None = None

    def __post_init__(self) -> None:
        if self.tier not in get_args(Tier):
            raise InvalidPolicy(f"Policy(tier={self.tier!r}): expected one of {', '.join(get_args(Tier))}.")
        for name in ("read", "write", "programs", "devices"):
            object.__setattr__(self, name, tuple(_path(name, one) for one in _texts(name, getattr(self, name))))
        if self.cassette is not None:
            object.__setattr__(self, "cassette", _path("cassette", _texts("cassette", [self.cassette])[0]))
        object.__setattr__(self, "hosts", tuple(_host(one) for one in _texts("hosts", self.hosts)))
        object.__setattr__(self, "variables", _variables(self.variables))
        for name in _COUNTS:
            _check(name, getattr(self, name), whole=True, least=1)
        _check("workspaces", self.workspaces, whole=True, least=0)
        if self.call_cpu_s is None:
            object.__setattr__(self, "call_cpu_s", self.call_s)
        for name in _SECONDS:
            if not (name == "cpu_s" and self.cpu_s is None):
                _check(name, getattr(self, name), whole=False, least=0.001)
        object.__setattr__(self, "reward_range", _range(self.reward_range))
        if self.workspace is not None and not isinstance(self.workspace, Policy):
            raise InvalidPolicy(f"Policy(workspace={self.workspace!r}): expected a Policy.")
        if self.workspaces and self.workspace is None:
            raise InvalidPolicy("Policy(workspaces=…) says how many; pass workspace=Policy(…) to say what each may do.")

    def to_dict(self) -> dict[str, Any]:
        """What differs from the default, as plain data: JSON and TOML can hold it."""
        plain: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value == (self.call_s if one.name == "call_cpu_s" else getattr(DEFAULT, one.name)):
                continue
            if isinstance(value, Policy):
                value = value.to_dict()
            plain[one.name] = (
                list(value) if isinstance(value, tuple) else dict(value) if one.name == "variables" else value
            )
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Policy:
        """The policy that ``to_dict`` described; InvalidPolicy names what is wrong."""
        if not isinstance(plain, Mapping):
            raise InvalidPolicy(f"Permissions are a table of names and values; got {type(plain).__name__}.")
        known = [one.name for one in fields(cls)]
        for name in plain:
            if name not in known:
                raise InvalidPolicy(f"There is no permission {name!r}. There are: {', '.join(known)}.")
        given = dict(plain)
        if isinstance(given.get("workspace"), Mapping):
            given["workspace"] = cls.from_dict(given["workspace"])
        return cls(**given)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise InvalidPolicy(f"Policy({name}={value!r}): expected a list of texts.")
    items = tuple(value)
    for one in items:
        if not isinstance(one, (str, os.PathLike)):
            raise InvalidPolicy(f"Policy({name}=…): {one!r} is no text.")
    return tuple(os.fspath(one) for one in items)


def _path(name: str, text: str) -> str:
    if not text.startswith("/") or "\0" in text:
        raise InvalidPolicy(f"Policy({name}=…): {text!r} is no absolute path.")
    plain = os.path.normpath(text)
    if name in ("read", "write") and plain in ("/", "//"):
        raise InvalidPolicy(f"Policy({name}=…): '/' would be everything, and no wall. Name the folders.")
    if name == "devices" and not plain.startswith("/dev/"):
        raise InvalidPolicy(f"Policy(devices=…): {text!r} is not below /dev.")
    return plain


def _host(text: str) -> str:
    match = _HOST.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise InvalidPolicy(f"Policy(hosts=…): {text!r} is not 'name:port'.")
    return text.lower()


def _variables(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidPolicy(f"Policy(variables={value!r}): expected names with values.")
    for name, text in value.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name) or not isinstance(text, str) or "\0" in text:
            raise InvalidPolicy(f"Policy(variables=…): {name!r} is no name of a variable with a text.")
    return dict(value)


def _check(name: str, value: Any, *, whole: bool, least: float) -> None:
    kind = isinstance(value, int) if whole else isinstance(value, (int, float))
    if not kind or isinstance(value, bool) or not math.isfinite(value) or value < least:
        raise InvalidPolicy(
            f"Policy({name}={value!r}): expected {'a whole number' if whole else 'seconds'}, at least {least}."
        )


def _range(value: Any) -> tuple[float, float]:
    try:
        low, high = (float(one) for one in value)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not low <= high:
        raise InvalidPolicy(f"Policy(reward_range={value!r}): expected two numbers, the lower one first.")
    return low, high


DEFAULT = Policy()
