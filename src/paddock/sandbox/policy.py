"""Policy: what code behind a wall may do, as data. What it does not name is denied. It enforces nothing itself."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from paddock.errors import InvalidPolicy

# Defaults that the side which reads the replies uses too, where it has no Policy.

REWARD_RANGE = (-1e9, 1e9)
INFO_KB = 64
CALL_S = 30.0  # wall time of one request: a reset, a step, a render
START_S = 60.0  # wall time until it has been made


Tier = Literal["auto", "sandbox", "landlock", "docker", "podman", "gvisor"]
CONTAINERS = ("gvisor", "docker", "podman")  # the tiers of which a container engine puts up the wall

_HOST = re.compile(
    r"(?P<name>\*|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]):(?P<port>[1-9][0-9]{0,4})"
)
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
    scratch_mb: int = 64  # /tmp inside: empty at the start, removed at the end
    hosts: tuple[str, ...] = ()  # "name:port", reached through a proxy that lets nothing else pass
    # The hosts' answers are recorded in this file. Once it exists, it answers in their place, without a network.
    cassette: str | None = None
    programs: tuple[str, ...] = ()  # absolute paths of what may be executed
    processes: int = 1  # counts the worker itself
    threads: int = 64
    memory_mb: int = 2048
    cpu_s: float | None = None  # of one core, over the whole life
    call_s: float = CALL_S  # wall time of one request: a reset, a step, a render
    # CPU time of one request, all threads and processes together. None is call_s: one core for as long as it may take.
    call_cpu_s: float = None  # type: ignore[assignment]  # __post_init__ makes it a number
    start_s: float = START_S  # wall time until it has been made
    descriptors: int = 256
    output_kb: int = 64  # how much of stdout and stderr is kept
    variables: Mapping[str, str] = field(default_factory=dict)  # environment variables: none of the host's
    devices: tuple[str, ...] = ()  # such as /dev/nvidia0; each weakens the wall
    # An interpreter of its own, which takes a quarter of a second, rather than a fork of a template's memory layout.
    fresh: bool = False
    # What its replies may hold. The side that reads them checks this; the launcher has no use for it.
    reward_range: tuple[float, float] = REWARD_RANGE
    info_kb: int = INFO_KB
    # Programs that run beside it, each behind a wall of its own: how many at once, and what each may do.
    workspaces: int = 0
    workspace: Policy | None = None

    def __post_init__(self) -> None:
        if self.tier not in get_args(Tier):
            raise InvalidPolicy(f"Policy(tier={self.tier!r}): expected one of {', '.join(get_args(Tier))}.")
        if not isinstance(self.fresh, bool):
            raise InvalidPolicy(f"Policy(fresh={self.fresh!r}): expected True or False.")
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
            elif isinstance(value, Mapping):
                value = dict(value)
            plain[one.name] = list(value) if isinstance(value, tuple) else value
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Policy:
        """Make the policy that ``to_dict`` described. InvalidPolicy names what is wrong."""
        if not isinstance(plain, Mapping):
            raise InvalidPolicy(f"Expected permissions as a table of names and values, got {type(plain).__name__}.")
        known = [one.name for one in fields(cls)]
        for name in plain:
            if name not in known:
                raise InvalidPolicy(f"There is no permission {name!r}. There are: {', '.join(known)}.")
        values = dict(plain)
        if isinstance(values.get("workspace"), Mapping):
            values["workspace"] = cls.from_dict(values["workspace"])
        return cls(**values)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise InvalidPolicy(f"Policy({name}={value!r}): expected a list of texts.")
    items = tuple(value)
    for one in items:
        if not isinstance(one, (str, os.PathLike)):
            raise InvalidPolicy(f"Policy({name}=…): {one!r} is not a text.")
    return tuple(os.fspath(one) for one in items)


def _path(name: str, text: str) -> str:
    if not text.startswith("/") or "\0" in text:
        raise InvalidPolicy(f"Policy({name}=…): {text!r} is not an absolute path.")
    plain = os.path.normpath(text)
    if name in ("read", "write") and plain in ("/", "//"):
        raise InvalidPolicy(f"Policy({name}=…): '/' is everything, which leaves no wall. Name the folders.")
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
            raise InvalidPolicy(f"Policy(variables=…): {name!r} is not a variable's name with a text as its value.")
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


def covers(folder: str, path: str) -> bool:
    """Whether the path is the folder or lies below it: what a policy grants of a folder, it grants of all below it.

    Both are absolute and in normal form. By name alone: no link is followed.
    """
    folder, path = "/" + folder.strip("/"), "/" + path.lstrip("/")
    return path == folder or path.startswith(folder.rstrip("/") + "/")


# ── Policies for people: `explain` puts one into words, `find_excess` and `compare_policies` compare two ──
#
# Names in a policy are a stranger's, so odd ones are quoted. In a comparison, what may be written may be read as well,
# and a path holds everything below it.

# nothing: it may only compute. limit: how much. grant: it reaches what is outside. weaker: it weakens the wall.
Weight = Literal["nothing", "limit", "grant", "weaker"]
Direction = Literal["wider", "narrower"]

NONE = "none"
TIERS = {
    "sandbox": "namespaces, Landlock, a list of allowed system calls, limits; not started where one is missing",
    "auto": "the strongest that this machine has, which may be Landlock alone",
    "landlock": "Landlock, a list of allowed system calls, limits; no namespaces: it sees the host's processes",
    "docker": "a container of Docker's without rights or network, a list of allowed system calls, limits",
    "podman": "a container of Podman's without rights or network, a list of allowed system calls, limits",
    "gvisor": "a container with gVisor's kernel between it and this machine's, no rights and no network",
}
_FROM_STRONGEST = ("gvisor", "sandbox", "docker", "podman", "auto", "landlock")  # "auto" is at least "landlock"
_PLAIN = re.compile(r"[\w./+@:*\[\]-]+", re.ASCII)
_AMOUNTS = {
    "scratch_mb": "scratch",
    "processes": "processes",
    "threads": "threads",
    "memory_mb": "memory",
    "cpu_s": "CPU time",
    "call_s": "time for a call",
    "call_cpu_s": "CPU time for a call",
    "start_s": "time to start",
    "descriptors": "open files",
    "output_kb": "kept output",
    "info_kb": "size of an info",
    "workspaces": "workspaces",
}


@dataclass(frozen=True)
class Line:
    """One topic of a policy. ``fields`` are the names of the Policy's fields that it explains."""

    topic: str
    text: str
    weight: Weight
    fields: tuple[str, ...]


def explain(policy: Policy) -> list[Line]:
    """Every field of the policy, in words; those of its workspaces come last.

    >>> [line.text for line in explain(Policy(hosts=("api.example.com:443",))) if line.topic == "network"]
    ['may reach api.example.com:443, nothing else']
    """
    lines = [*_explain_access(policy), *_explain_limits(policy)]
    fields = ("workspaces", "workspace")
    if not policy.workspaces or policy.workspace is None:
        return [*lines, Line("workspaces", "none: it can't start programs beside it", "nothing", fields)]
    text = f"may start {policy.workspaces:,} beside it, each behind its own wall, as follows"
    lines.append(Line("workspaces", text, "grant", fields))
    inner = explain(policy.workspace)
    return lines + [Line(f"workspace: {line.topic}", line.text, line.weight, ("workspace",)) for line in inner]


def _explain_access(policy: Policy) -> Iterator[Line]:
    weight: Weight = "weaker" if policy.tier in ("auto", "landlock") else "limit"
    text = f"{policy.tier}: {TIERS[policy.tier]}" + ("; an interpreter of its own" if policy.fresh else "")
    yield Line("wall", text, weight, ("tier", "fresh"))

    text = f"{format_amount('scratch_mb', policy.scratch_mb)} of scratch, which is gone at the end"
    if policy.write:
        text = f"may read and change {join_names(policy.write)} on this machine; {text}"
    elif policy.read:
        text = f"may write nothing but {text}"
    else:
        text = f"none of yours; {text}"
    if policy.read:
        text = f"may read {join_names(policy.read)}; {text}"
    yield Line("files", text, "grant" if policy.read or policy.write else "nothing", ("read", "write", "scratch_mb"))

    file = None if policy.cassette is None else quote(policy.cassette)
    if policy.hosts:
        every = [f"every host on port {host[2:]}" for host in policy.hosts if host.startswith("*:")]
        names = ", ".join([*every, *(quote(host) for host in policy.hosts if not host.startswith("*:"))])
        text = f"may reach {names}, nothing else"
        if file is not None:
            text += f"; their answers are recorded in {file}, which replaces the hosts once it exists"
    else:
        text = "none" if file is None else f"none; answers come from {file}"
    yield Line("network", text, "grant" if policy.hosts else "nothing", ("hosts", "cassette"))

    run = f"may run {join_names(policy.programs)}" if policy.programs else "may run no other program"
    count = "one process" if policy.processes == 1 else f"{policy.processes:,} processes"
    weight = "grant" if policy.programs or policy.processes > 1 else "nothing"
    text = f"{run}; {count} with at most {policy.threads:,} threads"
    yield Line("programs", text, weight, ("programs", "processes", "threads"))


def _explain_limits(policy: Policy) -> Iterator[Line]:
    yield Line("memory", f"at most {format_amount('memory_mb', policy.memory_mb)}", "limit", ("memory_mb",))

    names = ("start_s", "call_s", "call_cpu_s", "cpu_s")
    start, call, cpu, total = (format_amount(name, getattr(policy, name)) for name in names)
    core = "no limit" if policy.cpu_s is None else f"at most {total}"
    text = f"{start} to start; {call} per call, with {cpu} of CPU time, then it is ended; CPU time in total: {core}"
    yield Line("time", text, "limit", names)

    pairs = ", ".join(f"{name}={quote(value)}" for name, value in sorted(policy.variables.items()))
    text = f"sees {pairs}, and none of your own" if pairs else "none of your environment variables"
    yield Line("variables", text, "grant" if pairs else "nothing", ("variables",))

    text = f"may use {join_names(policy.devices)}: their drivers become part of the wall" if policy.devices else "none"
    yield Line("devices", text, "weaker" if policy.devices else "nothing", ("devices",))

    output = format_amount("output_kb", policy.output_kb)
    text = f"at most {policy.descriptors:,} open files; {output} of its output is kept"
    yield Line("handles", text, "limit", ("descriptors", "output_kb"))

    low, high = map(format_number, policy.reward_range)
    text = f"rewards from {low} to {high}, infos of at most {format_amount('info_kb', policy.info_kb)}"
    yield Line("results", text, "limit", ("reward_range", "info_kb"))


def quote(text: str) -> str:
    """The name as it is, or in quotes with escapes if it could be taken for other words."""
    return text if _PLAIN.fullmatch(text) else ascii(text)


def join_names(names: Iterable[str]) -> str:
    """Quote the names where needed, with commas between them."""
    return ", ".join(map(quote, names))


def format_amount(field: str, value: float | None) -> str:
    """A limit with its unit, which the end of the field's name says."""
    if value is None:
        return "no limit"
    return format_number(value) + {"mb": " MB", "kb": " kB", "s": " s"}.get(field.rpartition("_")[2], "")


def format_number(value: float) -> str:
    """As many digits as tell it from other numbers."""
    return f"{value:,}".removesuffix(".0")


@dataclass(frozen=True)
class Change:
    """One thing that a new policy allows more of, or less."""

    topic: str
    old: str
    new: str
    direction: Direction


def find_excess(request: Policy, grant: Policy) -> list[str]:
    """What ``request`` asks for that ``grant`` does not allow, in words; empty if it is all allowed.

    >>> find_excess(Policy(hosts=("a.example:443",), memory_mb=512), Policy())
    ['hosts to reach: a.example:443 (allowed: none)']
    """
    return [f"{topic}: {wanted} (allowed: {allowed})" for topic, wanted, allowed in _beyond(request, grant)]


def compare_policies(old: Policy, new: Policy) -> list[Change]:
    """How the new policy differs from the old one, what became wider first. Two that mean the same do not differ."""
    wider = [Change(topic, allowed, wanted, "wider") for topic, wanted, allowed in _beyond(new, old)]
    return wider + [Change(*beyond, "narrower") for beyond in _beyond(old, new)]


def _beyond(request: Policy, grant: Policy) -> Iterator[tuple[str, str, str]]:
    """What ``request`` asks for beyond ``grant``: a topic, how much of it, and how much is granted."""
    if _FROM_STRONGEST.index(request.tier) > _FROM_STRONGEST.index(grant.tier):
        yield "wall", request.tier, grant.tier
    if grant.fresh and not request.fresh:
        yield "interpreter", "forked from a template", "one of its own"
    yield from _items("files to read", request.read, (*grant.read, *grant.write), covers)
    yield from _items("files to change", request.write, grant.write, covers)
    yield from _items("hosts to reach", request.hosts, grant.hosts, _reaches)
    if request.cassette is not None and request.cassette != grant.cassette:
        file = NONE if grant.cassette is None else quote(grant.cassette)
        yield "file for recorded answers", quote(request.cassette), file
    yield from _items("programs to run", request.programs, grant.programs, covers)
    yield from _items("devices", request.devices, grant.devices, covers)
    pairs, allowed_pairs = ([f"{name}={value}" for name, value in one.variables.items()] for one in (request, grant))
    yield from _items("variables", pairs, allowed_pairs, str.__eq__)
    for amount, topic in _AMOUNTS.items():
        wanted, allowed = getattr(request, amount), getattr(grant, amount)
        # None means unlimited, the widest there is.
        if allowed is not None and (wanted is None or wanted > allowed):
            yield topic, format_amount(amount, wanted), format_amount(amount, allowed)
    (low, high), (lowest, highest) = request.reward_range, grant.reward_range
    if low < lowest:
        yield "lowest reward", format_number(low), format_number(lowest)
    if high > highest:
        yield "highest reward", format_number(high), format_number(highest)
    if not request.workspaces or request.workspace is None:
        return
    if grant.workspaces and grant.workspace is not None:
        for topic, *amounts in _beyond(request.workspace, grant.workspace):
            yield f"workspace: {topic}", amounts[0], amounts[1]
        return
    # The amounts above name how many workspaces are asked for. What each may do is not said anywhere else.
    for line in explain(request.workspace):
        if line.weight in ("grant", "weaker"):
            yield f"workspace: {line.topic}", line.text, NONE


def _items(
    topic: str, request: Iterable[str], grant: Iterable[str], holds: Callable[[str, str], bool]
) -> Iterator[tuple[str, str, str]]:
    """Each item that nothing granted holds, with what is granted within it."""
    for one in dict.fromkeys(request):
        if not any(holds(other, one) for other in grant):
            within = join_names(dict.fromkeys(other for other in grant if holds(one, other)))
            yield topic, quote(one), f"of it {within}" if within else NONE


def _reaches(grant: str, host: str) -> bool:
    """Whether the host is granted; ``*:443`` is every host on this port."""
    name, _, port = grant.rpartition(":")
    return grant == host or (name == "*" and host.rpartition(":")[2] == port)
