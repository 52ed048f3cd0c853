"""Attack: one entry of the catalogue, and Verdict: how it ended. Data only; nothing here runs an attack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Group = Literal["files", "network", "processes", "kernel", "resources", "protocol", "imports", "tampering"]
GROUPS: tuple[Group, ...] = (
    "files",
    "network",
    "processes",
    "kernel",
    "resources",
    "protocol",
    "imports",
    "tampering",
)
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
# What the judge looks at. Every attack is judged by all of them; an entry names the one that it is after.
CANARIES = {
    "secret": "a planted secret, or a line of the shadow file, came back in a reply",
    "file": "a file appeared, or was changed, where it should not",
    "listener": "a listener of the judge's was reached, or one of the attack's own from outside",
    "terminal": "something was typed into the judge's terminal",
    "bystander": "a process that has nothing to do with it died",
    "signal": "the process that made it was signalled",
    "caller": "the process that made it died or was held up past the deadline",
    "data": "what came back is not what was declared, and nobody noticed",
    "memory": "the process that made it was made to take memory",
    "program": "the program around it was changed: its registry, modules, variables or results",
    "output": "more was printed than is kept",
    "claim": "the kernel's code was reached, or more was had than allowed, by its own words, which are honest",
    "left": "something stayed: a process, a control group, shared memory, a temporary file, a descriptor",
    "neighbour": "an environment beside it was slowed, killed or changed",
    "share": "what all processes of a user share was used up or held: timers, pipes, files in memory, a lock",
}
# How an attack may end. Those of an error are its ``cause``.
ENDINGS = {
    "denied": "an operation was denied, and it lives",
    "contained": "it did what it wanted where that harms nobody, and lives",
    "raised": "its own error came back",
    "refused": "the trusted side did not even start it",
    "timeout": "ended at its deadline",
    "memory": "ended at its limit of memory",
    "cpu": "ended at its limit of CPU time",
    "signal": "ended by a signal",
    "exit": "ended by itself",
    "closed": "closed its connection",
    "protocol": "ended for what it sent, which was no reply",
    "violation": "ended for what it sent, which was not what it had declared",
    "ended": "ended by the trusted side",
}


@dataclass(frozen=True, kw_only=True)
class Attack:
    """An environment or a wrapper, what it is after, and how it may end.

    ``target``: "env files:ReadFile" and "wrapper wrappers:Shell" name classes below ``attacks``, "module touch" an
    attempt of ``attacks.imports``, "spec os:system" an entry point. In ``told``, "$secret" is where that canary is.
    """

    code: str
    group: Group
    title: str
    target: str
    canary: str
    told: Mapping[str, Any] = field(default_factory=dict)
    expected: frozenset[str] = frozenset({"denied"})
    needs: str = ""  # the promise that it attacks: a key of sandbox.promises or of ``score.OURS``; else its group's
    policy: Mapping[str, Any] = field(default_factory=dict)  # what it is given, apart from the defaults
    calls: tuple[str, ...] = ("reset", "step", "step", "close")  # or "abandon" in place of close
    beside: tuple[str, ...] = ()  # files that lie beside a module
    neighbour: bool = False
    share: str = ""  # what the host looks at after each step: "timers", "pipes", "files", "lock"
    home_python: bool = False  # made by a Python whose prefix is ~/.local
    clean_s: float = 2.0  # how long what it left may take to go
    lanes: int | None = None  # made as so many lanes, which share memory with their caller
    # Without a wall it must hit its canary: in this tier, and only as root if so. None: see ``not_shown``.
    control: Literal["process", "none"] | None = "process"
    control_root: bool = False
    not_shown: str = ""

    @property
    def promise(self) -> str:
        """What a tier must promise for this attack to count against it."""
        return self.needs or _USUAL[self.group]


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
