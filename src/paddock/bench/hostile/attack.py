"""Attack: one entry of the catalogue, and Verdict: how it ended. Data only; nothing here runs an attack.

Entries stand below ``attacks``, beside the code that they name: ``@attack`` enters a class or a function, ``enter``
anything else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Group = Literal["files", "network", "processes", "kernel", "resources", "protocol", "imports", "tampering"]
GROUPS: tuple[Group, ...] = get_args(Group)
Kind = Literal["env", "wrapper", "module", "module wrapper", "spec"]
_LETTERS: dict[str, Group] = dict(zip("FNPKRLIT", GROUPS, strict=True))  # how a code begins
# The promise that most attacks of a group are after.
_USUAL = {
    "files": "files-hidden",
    "network": "no-network",
    "processes": "no-processes",
    "kernel": "kernel-narrow",
    "resources": "deadlines-kept",
    "protocol": "data-checked",
    "imports": "files-kept",
    "tampering": "files-kept",
}
# What the judge checks. Every attack is judged by all of them; an entry names the one that it is after.
CANARIES = {
    "secret": "a planted secret, or a line of the shadow file, came back in a reply",
    "file": "a file appeared, or was changed, where it should not",
    "listener": "a listener of the judge's was reached, or one of the attack's own from outside",
    "terminal": "something was typed into the judge's terminal",
    "bystander": "an unrelated process died",
    "signal": "the process that made it was signalled",
    "caller": "the process that made it died or was held up past the deadline",
    "data": "what came back does not match what was declared, and this was not detected",
    "memory": "it made its parent process allocate memory",
    "program": "the program around it was changed: its registry, modules, variables or results",
    "output": "more was printed than is kept",
    "claim": "it reports, truthfully, that it reached the kernel's code or got more than allowed",
    "left": "something stayed: a process, a control group, shared memory, a temporary file, a descriptor",
    "neighbour": "an environment beside it was slowed, killed or changed",
    "share": "what all processes of a user share was used up or held: timers, pipes, files in memory, a lock",
}
# How an attack may end. Those of an error are its ``cause``.
ENDINGS = {
    "denied": "an operation was denied, and it lives",
    "contained": "it succeeded where that does no harm, and lives",
    "raised": "its own error came back",
    "refused": "the trusted side did not even start it",
    "timeout": "ended at its deadline",
    "memory": "ended at its limit of memory",
    "cpu": "ended at its limit of CPU time",
    "signal": "ended by a signal",
    "exit": "ended by itself",
    "closed": "closed its connection",
    "protocol": "ended for what it sent, which was not a reply",
    "violation": "ended for what it sent, which was not what it had declared",
    "ended": "ended by the trusted side",
}


# Sets of endings that several attacks may have.
DENIED = frozenset({"denied"})
LIVES = frozenset({"denied", "contained"})  # it may do as it likes where it is alone
LATE = frozenset({"timeout"})
FALSE = frozenset({"violation"})
BROKEN = frozenset({"protocol"})
GREEDY = frozenset({"denied", "memory"})
CONTAINED = frozenset({"contained"})
ANY_END = frozenset({"timeout", "exit", "signal", "closed", "protocol", "raised", "denied", "contained", "ended"})

ONCE = ("reset", "step", "close")
SHORT = {"call_s": 1.0}
SMALL = {"scratch_mb": 16, "memory_mb": 512}
SLEEP_S = 4  # well past any deadline here, and no longer than needed
IN_ITS_PROCESS: dict[str, Any] = {"control": "none", "needs": "own-process"}
STAY_S = 60  # how long a process stays that should be ended; the judge ends it at last


@dataclass(frozen=True, kw_only=True)
class Attack:
    """An environment or a wrapper, what it is after, and how it may end.

    ``target``: the entry point of an "env", a "wrapper" or a "spec"; of a "module" and a "module wrapper" what it does
    when it is imported. In ``arguments``, "$secret" is where that canary is, "$parent" the process that makes it and
    "$family" those that this process has started: the neighbour, and the template that forks both.
    """

    code: str
    group: Group
    title: str
    kind: Kind
    target: str
    canary: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    expected: frozenset[str] = DENIED
    needs: str = ""  # the promise that it attacks: a key of sandbox.promises or of ``score.OURS``; else its group's
    policy: Mapping[str, Any] = field(default_factory=dict)  # fields of its Policy that differ from the defaults
    calls: tuple[str, ...] = ("reset", "step", "step", "close")  # or "abandon" in place of close
    beside: tuple[str, ...] = ()  # files that lie beside a module
    neighbour: bool = False
    share: str = ""  # what the host checks after each step: "timers", "pipes", "files", "lock"
    home_python: bool = False  # made by a Python whose prefix is ~/.local
    clean_s: float = 2.0  # how long what it left may take to go
    lanes: int | None = None  # made as so many lanes, which share memory with their caller
    # Without a wall it must hit its canary: in this tier, and only as root if so. None: see ``no_control``.
    control: Literal["process", "none"] | None = "process"
    control_root: bool = False
    no_control: str = ""

    @property
    def promise(self) -> str:
        """What a tier must promise for this attack to count against it."""
        return self.needs or _USUAL[self.group]


ENTRIES: list[Attack] = []  # those of the modules that were imported; ``catalogue`` imports them all


def enter(
    code: str,
    title: str,
    canary: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    expected: Collection[str] = DENIED,
    **more: Any,
) -> None:
    """Add an attack to the catalogue; ``more`` are fields of Attack."""
    more |= {"arguments": arguments or {}, "expected": frozenset(expected)}
    if "no_control" in more:
        more["control"] = None
    ENTRIES.append(Attack(code=code, group=_LETTERS[code[0]], title=title, canary=canary, **more))


@dataclass(frozen=True)
class Verdict:
    """How an attack ended. ``hits``: canaries and what befell them; ``leftovers`` are counted among them."""

    code: str
    contained: bool
    cause: str
    cleaned_s: float
    leftovers: tuple[str, ...]
    detail: str
    hits: Mapping[str, str]
    as_expected: bool
    calls: tuple[Mapping[str, Any], ...] = ()

    @property
    def passed(self) -> bool:
        """Contained, and with the right cause."""
        return self.contained and self.as_expected
