"""Run an attack in a tier and judge it from outside. The tier is only what ``make(isolation=…)`` takes.

The trial runs in a process of its own: without a wall an attack may end whoever called it, and that is a finding.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from paddock.bench.hostile.attack import Attack, Verdict
from paddock.bench.hostile.canaries import Canaries
from paddock.bench.hostile.host_state import (
    adopting_orphans,
    control_groups,
    dead_children,
    descendants,
    end_all,
    reap,
    remove_empty,
    shared_memory,
)
from paddock.bench.hostile.trial import UNAVAILABLE
from paddock.errors import PaddockError, SandboxUnavailable
from paddock.sandbox.policy import Policy

# Past its deadline an environment is to be killed within half a second; the rest is for a machine that is busy.
_PAST_DEADLINE_S = 0.5 + 0.75
_CLOSING_S = 6.5  # five seconds of grace, and the same
_TRIAL_S = 30.0
_KEPT_BYTES = 1 << 20
_GROWN_MB = 250.0
_ROUNDS = 5


def run_attack(attack: Attack, isolation: str | Policy) -> Verdict:
    """One attack in one tier. SandboxUnavailable if this machine does not have it."""
    policy = _policy(attack, isolation)
    with adopting_orphans(), Canaries() as canaries:
        before, dead = set(descendants(os.getpid())), dead_children()
        plain = isolation if isinstance(isolation, str) else isolation.to_dict()
        order = {**_order(attack, policy, canaries), "plain": plain}
        try:
            seen = _Trial(order, canaries, python=canaries.home_python() if attack.home_python else sys.executable)
            report = seen.wait()
            killed = "abandon" in attack.calls
            left, cleaned_s = _clean(before, seen.pid, canaries, killed=killed, within_s=attack.clean_s)
        except BaseException:  # Ctrl-C, mostly: nothing of it outlives that
            _end_below(before)
            raise
        finally:
            reap(dead_children() - dead - {canaries.bystander.pid})
        hits = {**canaries.hits(), **_reported(attack, policy, report, seen)}
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
    kind, _, what = attack.target.partition(" ")
    module = canaries.write_module(what, attack.beside) if kind in ("module", "modular-wrapper") else None
    return {
        "target": attack.target,
        "told": {name: placed(value, canaries.places) for name, value in attack.told.items()},
        "isolation": placed(policy, canaries.places),
        "calls": list(attack.calls),
        "needles": canaries.needles(),
        "neighbour": attack.neighbour and policy != "none",
        "module": module,
        "lanes": attack.lanes,
        "share": attack.share,
        "path": str(canaries.folder / "target") if module is not None else None,
        "door": canaries.places["free_port"] if "$free_port" in attack.told.values() else None,
        "leaked": canaries.places["key"],
    }


def placed(value: Any, places: dict[str, Any]) -> Any:
    """``value`` with each "$name" replaced by where that canary is; "$parent" only the trial knows."""
    if isinstance(value, str) and value.startswith("$") and value != "$parent":
        return places[value[1:]]
    if isinstance(value, (list, tuple)):
        return [placed(one, places) for one in value]
    if isinstance(value, dict):
        return {name: placed(one, places) for name, one in value.items()}
    return value


class _Trial:
    """The process that makes and calls the environment."""

    def __init__(self, order: dict[str, Any], canaries: Canaries, *, python: str) -> None:
        ours, theirs = os.pipe()
        variables = {**os.environ, "HOME": canaries.places["home"], "TMPDIR": str(canaries.folder / "tmp")}
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
        self._reported_at = self.ended_at = float("inf")
        self._readers = [
            threading.Thread(target=one, args=arguments, daemon=True) for one, *arguments in self._pipes(ours)
        ]
        for reader in self._readers:
            reader.start()

    def _pipes(self, ours: int) -> list[Any]:
        return [(self._read_report, ours), (self._count_output,)]

    def _read_report(self, ours: int) -> None:
        with os.fdopen(ours, "rb") as pipe:
            self._report = pipe.read()
        self._reported_at = time.monotonic()

    def _count_output(self) -> None:
        assert self._process.stderr is not None
        while piece := os.read(self._process.stderr.fileno(), 1 << 16):
            self.printed += len(piece)
            self.last_words = (self.last_words + piece)[-2000:]

    def wait(self) -> dict[str, Any] | None:
        """What it reported; None if it died before, or hung."""
        try:
            self._process.wait(_TRIAL_S)
        except subprocess.TimeoutExpired:
            self.stuck = True
            self._process.kill()
            self._process.wait()
        self.ended_at = time.monotonic()
        for reader in self._readers:
            reader.join(0.5)  # a process that was left behind may hold the other ends
        if self._process.returncode == UNAVAILABLE and not self._report:
            raise SandboxUnavailable(self.last_words.decode(errors="replace").strip().splitlines()[-1])
        try:
            report: dict[str, Any] | None = json.loads(self._report) if self._report else None
        except ValueError:
            report = None
        return report

    @property
    def leaving_s(self) -> float:
        """From its report to its end."""
        return self.ended_at - self._reported_at

    @property
    def how(self) -> str:
        """How it ended, if not by reporting."""
        words = self.last_words.decode(errors="replace").strip().splitlines()
        return f"ended with {self._process.returncode}: {words[-1][:200] if words else 'no word'}"


def _clean(
    before: set[int], trial: int, canaries: Canaries, *, killed: bool, within_s: float
) -> tuple[list[str], float]:
    """What of it is left, and how long it took to go.

    Who is ``killed`` can't tidy up: empty control groups and its own scratch folder are removed by the next launch.
    """
    began = time.monotonic()
    mine = before | {canaries.bystander.pid, trial}
    while True:
        processes = {pid: name for pid, name in descendants(os.getpid()).items() if pid not in mine}
        temporary = [f"temporary {path.name}" for path in (canaries.folder / "tmp").iterdir()]
        if killed:
            temporary = [one for one in temporary if not one.startswith(f"temporary paddock-scratch-{trial}-")]
        groups = control_groups(trial)
        if killed:
            groups = remove_empty(groups)
        left = [*(f"process {name}" for name in processes.values()), *temporary, *shared_memory(canaries.name)]
        left += [f"control group {group}" for group in groups]
        passed = time.monotonic() - began
        if not left or passed > within_s:
            end_all(processes)
            remove_empty(groups)
            for path in shared_memory(canaries.name):
                Path(path.removeprefix("shared memory ")).unlink(missing_ok=True)
            return left, passed
        time.sleep(0.02)


def _end_below(before: set[int]) -> None:
    """End what was not there before; who starts others while it ends is looked for once more."""
    for _ in range(_ROUNDS):
        younger = {pid: name for pid, name in descendants(os.getpid()).items() if pid not in before}
        if not younger:
            return
        end_all(younger)


def _reported(attack: Attack, policy: Any, report: dict[str, Any] | None, trial: _Trial) -> dict[str, str]:
    """Hits that the caller saw."""
    found: dict[str, str] = {}
    if trial.printed > _KEPT_BYTES:
        found["output"] = f"{trial.printed >> 20} MB were printed"
    if report is None:
        return {**found, "caller": "it was stuck" if trial.stuck else f"it {trial.how}"}
    if report["leaks"]:
        found["secret"] = report["leaks"][0]
    if report["lies"]:
        found["data"] = "; ".join(report["lies"][:3])
    if report["signals"]:
        found["signal"] = f"{report['signals']} signals came"
    if report["taken"]:
        found["share"] = report["taken"]
    if report["door"]:
        found["listener"] = "its door was open to the host"
    if report["memory_mb"] > _GROWN_MB:
        found["memory"] = f"the caller grew by {report['memory_mb']:.0f} MB"
    if report["tampered"]:
        found["program"] = "; ".join(report["tampered"])
    if report["neighbour"] and report["neighbour"]["problem"]:
        found["neighbour"] = report["neighbour"]["problem"]
    if attack.canary == "claim":
        found.update(_claimed(report))
    if trial.leaving_s > _CLOSING_S:
        found["caller"] = f"it could not end for {trial.leaving_s:.1f} s"
    late = [call for call in report["calls"] if call["seconds"] > _longest_s(attack, policy, call["call"])]
    if late:
        found["caller"] = f"{late[0]['call']} held it up for {late[0]['seconds']:.1f} s"
    return found


def _claimed(report: dict[str, Any]) -> dict[str, str]:
    for call in report["calls"]:
        if call["attack"] == "succeeded":
            return {"claim": call["loot"]}
    return {}


def _longest_s(attack: Attack, policy: Any, call: str) -> float:
    allowed = {**vars(Policy()), **attack.policy}
    if call == "close":
        return _CLOSING_S
    return float(allowed["start_s"] if call == "make" else allowed["call_s"]) + _PAST_DEADLINE_S


def _verdict(
    attack: Attack, report: dict[str, Any] | None, hits: dict[str, str], cleaned_s: float, left: tuple[str, ...]
) -> Verdict:
    calls = tuple((report or {}).get("calls", ()))
    cause = _cause(calls)
    words = [f"{name}: {what}" for name, what in hits.items()]
    if not words:
        words = [_last_word(calls)]
    return Verdict(
        code=attack.code,
        contained=not hits,
        cause=cause,
        cleaned_s=cleaned_s,
        leftovers=left,
        detail="; ".join(words),
        hits=hits,
        as_expected=cause in attack.expected,
        calls=calls,
    )


def _cause(calls: tuple[dict[str, Any], ...]) -> str:
    """In one word, how it went: the first error, else what the attack says."""
    if not calls:
        return "nothing"
    for call in calls:
        if call["error"]:
            return str(call["cause"])
    said = [call["attack"] for call in calls if call["attack"]]
    if any(word == "succeeded" for word in said) or not said:
        return "contained"
    return "denied" if said[-1].startswith("denied") else "failed"


def _last_word(calls: tuple[dict[str, Any], ...]) -> str:
    for call in calls:
        if call["error"]:
            return f"{call['call']}: {call['error']}: {call['text']}"
    said = [call["attack"] for call in calls if call["attack"]]
    return said[-1] if said else "nothing to tell"


def by_code(code: str) -> Attack:
    """The entry of that code."""
    from paddock.bench.hostile.catalogue import ATTACKS

    for attack in ATTACKS:
        if attack.code == code:
            return attack
    raise PaddockError(f"There is no attack {code!r}. There are {ATTACKS[0].code} to {ATTACKS[-1].code}.")
