"""Score: how a tier held against the catalogue, compared with what it promises. An unpromised escape is no failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from paddock.bench.hostile.attack import GROUPS, Attack, Verdict
from paddock.bench.hostile.catalogue import ATTACKS
from paddock.bench.hostile.run import run_attack
from paddock.errors import SandboxUnavailable
from paddock.sandbox.policy import Policy

TIERS = ("none", "process", "landlock", "sandbox")
# Promises that are not the sandbox's but of those who use it, and from which tier on they hold.
OURS = {
    "own-process": ("It can't end, hang or change the process that made it.", "process"),
    "frames-checked": ("It can't send what is no reply.", "process"),
    "data-checked": ("It can't return what it has not declared.", "landlock"),
    "deadlines-kept": ("It can't take longer than it is given.", "landlock"),
    "output-limited": ("It can't print without end.", "landlock"),
    "not-imported": ("Its code is not imported by the process that made it.", "landlock"),
}


@dataclass(frozen=True)
class Result:
    """One attack in one tier."""

    attack: Attack
    verdict: Verdict
    promised: bool

    @property
    def broken(self) -> bool:
        """A promise of the tier's was not kept."""
        return self.promised and not self.verdict.passed

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        attack, verdict = self.attack, self.verdict
        return {
            "code": attack.code,
            "group": attack.group,
            "title": attack.title,
            "promise": attack.promise,
            "promised": self.promised,
            "contained": verdict.contained,
            "cause": verdict.cause,
            "expected": sorted(attack.expected),
            "hits": dict(verdict.hits),
            "detail": verdict.detail,
            "cleaned_s": round(verdict.cleaned_s, 3),
            "broken": self.broken,
        }


@dataclass(frozen=True)
class Score:
    """All results of a tier; those that there were when it was ``stopped``."""

    tier: str
    results: tuple[Result, ...]
    stopped: bool = False

    def of(self, group: str) -> tuple[int, int]:
        """How many attacks of this group were contained, and how many there were."""
        mine = [one.verdict.contained for one in self.results if one.attack.group == group]
        return sum(mine), len(mine)

    @property
    def broken(self) -> list[Result]:
        """What the tier promises and did not keep."""
        return [one for one in self.results if one.broken]


class Progress(Protocol):
    """Is told of each attack before it begins, and of how it went."""

    def begins(self, tier: str, attack: Attack) -> None: ...

    def ended(self, result: Result) -> None: ...


def score(tier: str, attacks: Sequence[Attack] = ATTACKS, progress: Progress | None = None) -> Score:
    """Run these attacks in a tier. SandboxUnavailable if this machine does not have it.

    A KeyboardInterrupt ends the attack that runs, and the score is of those before it: ``stopped``.
    """
    if tier == "auto":
        from paddock.sandbox.self_test import strongest

        tier = strongest()
    results: list[Result] = []
    try:
        for attack in attacks:
            if progress is not None:
                progress.begins(tier, attack)
            results.append(Result(attack, run_attack(attack, tier), promises(tier, attack)))
            if progress is not None:
                progress.ended(results[-1])
    except KeyboardInterrupt:
        return Score(tier, tuple(results), stopped=True)
    return Score(tier, tuple(results))


def promises(tier: str, attack: Attack) -> bool:
    """Whether ``tier`` promises, on this machine and with the attack's policy, to contain it."""
    if attack.promise in OURS:
        return TIERS.index(tier) >= TIERS.index(OURS[attack.promise][1])
    if tier not in ("landlock", "sandbox"):
        return False
    from paddock.sandbox import promises as table

    given = {
        name: value for name, value in attack.policy.items() if name not in ("read", "write")
    }  # places unknown yet
    held = {one.key: one.held for one in table.promises(tier, policy=Policy(tier=tier, **given))}  # type: ignore[arg-type]
    return held[attack.promise]


def available(tier: str) -> bool:
    """Whether this machine has the tier."""
    if tier in ("none", "process"):
        return True
    from paddock.sandbox.self_test import holds

    try:
        return holds(tier)
    except SandboxUnavailable:
        return False


def groups(scores: Sequence[Score]) -> list[list[str]]:
    """A row a group: how many were contained in each tier."""
    rows = []
    for group in GROUPS:
        counts = [one.of(group) for one in scores]
        if any(total for _, total in counts):
            rows.append([group, *(f"{contained} of {total}" for contained, total in counts)])
    return rows
