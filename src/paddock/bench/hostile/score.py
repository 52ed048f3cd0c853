"""Run attacks in a tier, judge them from outside, and compare with what the tier promises.

An escape that the tier does not rule out is not a failure. Each trial runs in a process of its own: without a wall an
attack may end its caller, and that is a finding.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from paddock.bench.hostile.attack import GROUPS, Attack, Verdict
from paddock.bench.hostile.canaries import Canaries, plant_interpreter
from paddock.bench.hostile.catalogue import ATTACKS
from paddock.bench.hostile.host_state import (
    adopting_orphans,
    awake_s,
    control_groups,
    dead_children,
    descendants,
    end_all,
    reap,
    remove_empty,
    shared_memory,
)
from paddock.bench.hostile.trial import UNAVAILABLE
from paddock.errors import SandboxUnavailable
from paddock.sandbox.policy import CONTAINERS, Policy

WALLS = ("sandbox", "landlock", *CONTAINERS)
TIERS = ("none", "process", *WALLS)
# Promises that the sandbox's callers make, and the first of TIERS of which, and of all after it, they hold.
OURS = {
    "own-process": ("It can't end, hang or change the process that made it.", "process"),
    "frames-checked": ("It can't send what is not a reply.", "process"),
    "data-checked": ("It can't return what it has not declared.", "sandbox"),
    "deadlines-kept": ("It can't take longer than it may.", "sandbox"),
    "output-limited": ("It can't print without end.", "sandbox"),
    "not-imported": ("Its code is not imported by the process that made it.", "sandbox"),
}

# An environment must be killed within half a second of its deadline; the rest is for a busy machine.
_PAST_DEADLINE_S = 0.5 + 0.75
_CLOSING_S = 6.5  # five seconds of grace, and the same
_TRIAL_S = 30.0
_KEPT_BYTES = 1 << 20
_GROWN_MB = 250.0
_ROUNDS = 5


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
        """As plain data for JSON."""
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
    """All results of a tier, or those so far if it was ``stopped``."""

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
    """Called before each attack begins, and with its result."""

    def begins(self, tier: str, attack: Attack) -> None: ...

    def ended(self, result: Result) -> None: ...


def score(tier: str, attacks: Sequence[Attack] = ATTACKS, progress: Progress | None = None) -> Score:
    """Run these attacks in a tier. SandboxUnavailable if this machine does not have it.

    A KeyboardInterrupt ends the attack that runs, and the score has those before it: ``stopped``.
    """
    if tier == "auto":
        from paddock.sandbox.promises import strongest

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
    if tier not in WALLS:
        return False
    from paddock.sandbox import promises as table

    # Without paths, which are not known yet.
    fields = {name: value for name, value in attack.policy.items() if name not in ("read", "write")}
    held = {one.key: one.held for one in table.promises(tier, policy=Policy(tier=tier, **fields))}  # type: ignore[arg-type]
    return held[attack.promise]


def available(tier: str) -> bool:
    """Whether this machine has the tier."""
    if tier in ("none", "process"):
        return True
    from paddock.sandbox.promises import holds

    try:
        return holds(tier)
    except SandboxUnavailable:
        return False


def groups(scores: Sequence[Score]) -> list[list[str]]:
    """One row per group: how many were contained in each tier."""
    rows = []
    for group in GROUPS:
        counts = [one.of(group) for one in scores]
        if any(total for _, total in counts):
            rows.append([group, *(f"{contained} of {total}" for contained, total in counts)])
    return rows


def run_attack(attack: Attack, isolation: str | Policy) -> Verdict:
    """Run one attack in one tier, which is anything that ``make(isolation=…)`` takes, and judge it.

    SandboxUnavailable if this machine does not have the tier.
    """
    policy = _policy(attack, isolation)
    with adopting_orphans(), Canaries() as canaries:
        before, dead = set(descendants(os.getpid())), dead_children()
        plain = isolation if isinstance(isolation, str) else isolation.to_dict()
        order = {**_order(attack, policy, canaries), "plain": plain}
        try:
            python = plant_interpreter(canaries.folder / "home/.local") if attack.home_python else sys.executable
            trial = _TrialProcess(order, canaries, python=python)
            report = trial.wait()
            killed = "abandon" in attack.calls
            left, cleaned_s = _clean(before, trial.pid, canaries, killed=killed, within_s=attack.clean_s)
        except BaseException:  # Ctrl-C, mostly: nothing of it outlives that
            for _ in range(_ROUNDS):  # again: what is being ended may start others
                end_all({pid: name for pid, name in descendants(os.getpid()).items() if pid not in before})
            raise
        finally:
            reap(dead_children() - dead - {canaries.bystander.pid})
        hits = {**canaries.hits(), **_hits_in_report(attack, report, trial)}
    if left or (report and report["left"]):
        hits["left"] = ", ".join([*left, *(report or {}).get("left", [])])
    return _verdict(attack, report, hits, max(cleaned_s, (report or {}).get("tidy_s", 0.0)), tuple(left))


def _policy(attack: Attack, isolation: str | Policy) -> Any:
    """As the trial reads it: the name of a tier, or a policy as a dict."""
    changes = dict(attack.policy)
    if isinstance(isolation, Policy):
        return {**replace(isolation, **changes).to_dict(), "tier": isolation.tier}
    if isolation in ("none", "process") or not changes:
        return isolation
    return {**changes, "tier": isolation}


def _order(attack: Attack, policy: Any, canaries: Canaries) -> dict[str, Any]:
    module = canaries.write_module(attack.target, attack.beside) if attack.kind.startswith("module") else None
    return {
        "kind": attack.kind,
        "target": attack.target,
        "arguments": {name: fill_places(value, canaries.places) for name, value in attack.arguments.items()},
        "isolation": fill_places(policy, canaries.places),
        "calls": list(attack.calls),
        "needles": canaries.needles(),
        "neighbour": attack.neighbour and policy != "none",
        "module": module,
        "lanes": attack.lanes,
        "share": attack.share,
        "path": str(canaries.folder / "target") if module is not None else None,
        "door": canaries.places["free_port"] if "$free_port" in attack.arguments.values() else None,
        "leaked": canaries.places["key"],
    }


def fill_places(value: Any, places: dict[str, Any]) -> Any:
    """``value`` with each "$name" replaced by where that canary is; "$parent" and "$family" only the trial knows."""
    if isinstance(value, str) and value.startswith("$") and value not in ("$parent", "$family"):
        return places[value[1:]]
    if isinstance(value, (list, tuple)):
        return [fill_places(one, places) for one in value]
    if isinstance(value, dict):
        return {name: fill_places(one, places) for name, one in value.items()}
    return value


class _TrialProcess:
    """The process that makes and calls the environment."""

    def __init__(self, order: dict[str, Any], canaries: Canaries, *, python: str) -> None:
        ours, theirs = os.pipe()
        variables = {**os.environ, "HOME": canaries.places["home"], "TMPDIR": str(canaries.folder / "tmp")}
        variables["PADDOCK_HOME"] = str(canaries.folder / "paddock")  # its log is not the user's
        variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        with tempfile.TemporaryFile() as standard_input:
            standard_input.write(json.dumps(order).encode())
            standard_input.seek(0)
            self._process = subprocess.Popen(  # noqa: S603
                [python, "-m", "paddock.bench.hostile.trial", str(theirs), str(os.getpid())],
                stdin=standard_input,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(theirs,),
                env=variables,
                cwd=canaries.folder / "tmp",
                start_new_session=True,
            )
        os.close(theirs)
        self.pid = self._process.pid
        self.stuck = False
        self.printed = 0
        self.last_words = b""
        self._report = b""
        self._reported_at = float("inf")
        self.leaving_s = 0.0  # from its report to its end
        self._readers = [
            threading.Thread(target=self._read_report, args=(ours,), daemon=True),
            threading.Thread(target=self._read_output, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_report(self, ours: int) -> None:
        with os.fdopen(ours, "rb") as pipe:
            self._report = pipe.read()
        self._reported_at = time.monotonic()

    def _read_output(self) -> None:
        assert self._process.stderr is not None
        while piece := os.read(self._process.stderr.fileno(), 1 << 16):
            self.printed += len(piece)
            self.last_words = (self.last_words + piece)[-2000:]

    def wait(self) -> dict[str, Any] | None:
        """Wait for its report; None if it died before, or hung."""
        try:
            self._process.wait(_TRIAL_S)
        except subprocess.TimeoutExpired:
            self.stuck = True
            self._process.kill()
            self._process.wait()
        ended_at = time.monotonic()
        for reader in self._readers:
            reader.join(0.5)  # a process that was left behind may hold the other ends
        self.leaving_s = ended_at - self._reported_at
        if self._process.returncode == UNAVAILABLE and not self._report:
            raise SandboxUnavailable(self.last_words.decode(errors="replace").strip().splitlines()[-1])
        report: dict[str, Any] | None = None
        with suppress(ValueError):
            report = json.loads(self._report)
        return report

    @property
    def how(self) -> str:
        """How it ended, if not by reporting."""
        words = self.last_words.decode(errors="replace").strip().splitlines()
        return f"ended with {self._process.returncode}: {words[-1][:200] if words else 'no output'}"


def _clean(
    before: set[int], trial: int, canaries: Canaries, *, killed: bool, within_s: float
) -> tuple[list[str], float]:
    """What of it is left, and how long it took to go. What is left is ended and removed.

    A process that was ``killed`` can't tidy up: the next launch removes empty control groups and its scratch folder.
    """
    began = awake_s()
    mine = before | {canaries.bystander.pid, trial}
    while True:
        processes = {pid: name for pid, name in descendants(os.getpid()).items() if pid not in mine}
        temporary = [path.name for path in (canaries.folder / "tmp").iterdir()]
        groups = control_groups(trial)
        if killed:
            temporary = [name for name in temporary if not name.startswith(f"paddock-scratch-{trial}-")]
            groups = remove_empty(groups)
        left = [f"process {name}" for name in processes.values()] + [f"temporary {name}" for name in temporary]
        left += [*shared_memory(canaries.name), *(f"control group {group}" for group in groups)]
        passed = awake_s() - began
        if not left or passed > within_s:
            end_all(processes)
            remove_empty(groups)
            for path in shared_memory(canaries.name):
                Path(path.removeprefix("shared memory ")).unlink(missing_ok=True)
            return left, passed
        time.sleep(0.02)


def _hits_in_report(attack: Attack, report: dict[str, Any] | None, trial: _TrialProcess) -> dict[str, str]:
    """Hits that the caller reported."""
    hits: dict[str, str] = {}
    if trial.printed > _KEPT_BYTES:
        hits["output"] = f"{trial.printed >> 20} MB were printed"
    if report is None:
        return {**hits, "caller": "it was stuck" if trial.stuck else f"it {trial.how}"}
    if report["leaks"]:
        hits["secret"] = report["leaks"][0]
    if report["lies"]:
        hits["data"] = "; ".join(report["lies"][:3])
    if report["signals"]:
        hits["signal"] = f"{report['signals']} signals came"
    if report["taken"]:
        hits["share"] = report["taken"]
    if report["door"]:
        hits["listener"] = "its door was open to the host"
    if report["memory_mb"] > _GROWN_MB:
        hits["memory"] = f"the caller grew by {report['memory_mb']:.0f} MB"
    if report["tampered"]:
        hits["program"] = "; ".join(report["tampered"])
    if report["neighbour"] and report["neighbour"]["problem"]:
        hits["neighbour"] = report["neighbour"]["problem"]
    if attack.canary == "claim":
        loot = [call["loot"] for call in report["calls"] if call["attack"] == "succeeded"]
        if loot:
            hits["claim"] = loot[0]
    if trial.leaving_s > _CLOSING_S:
        hits["caller"] = f"it could not end for {trial.leaving_s:.1f} s"
    allowed = {**vars(Policy()), **attack.policy}
    for call in reversed(report["calls"]):
        longest_s = allowed["start_s" if call["call"] == "make" else "call_s"] + _PAST_DEADLINE_S
        if call["seconds"] > (_CLOSING_S if call["call"] == "close" else longest_s):
            hits["caller"] = f"{call['call']} held it up for {call['seconds']:.1f} s"
    return hits


def _verdict(
    attack: Attack, report: dict[str, Any] | None, hits: dict[str, str], cleaned_s: float, left: tuple[str, ...]
) -> Verdict:
    calls = tuple((report or {}).get("calls", ()))
    # In one word, how it went: the first error, else what the attack reports.
    failed = next((call for call in calls if call["error"]), None)
    reports = [call["attack"] for call in calls if call["attack"]]
    if failed is not None:
        cause, words = str(failed["cause"]), f"{failed['call']}: {failed['error']}: {failed['text']}"
    else:
        words = reports[-1] if reports else "nothing to report"
        if not calls:
            cause = "nothing"
        elif "succeeded" in reports or not reports:
            cause = "contained"
        else:
            cause = "denied" if words.startswith("denied") else "failed"
    return Verdict(
        code=attack.code,
        contained=not hits,
        cause=cause,
        cleaned_s=cleaned_s,
        leftovers=left,
        detail="; ".join(f"{name}: {what}" for name, what in hits.items()) or words,
        hits=hits,
        as_expected=cause in attack.expected,
        calls=calls,
    )
