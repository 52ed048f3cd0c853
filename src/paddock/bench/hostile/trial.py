"""The process that makes one hostile environment and calls it, as a trainer would. Reports what came back.

Run as ``python -m paddock.bench.hostile.trial FD PARENT``: the order comes as JSON on stdin, the report goes to
the descriptor. Without a wall the attack runs in here, so what this process reports about itself is not final.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from paddock.bench.hostile.attacks.attempt import HARMLESS, QUIET
from paddock.bench.hostile.attacks.tampering import MARK
from paddock.bench.hostile.host_state import (
    awake_s,
    descendants,
    die_with_parent,
    kill_while_starting,
    prepare,
    shortage,
)
from paddock.bench.hostile.neighbour import Neighbour
from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.errors import (
    BadFrame,
    EnvFailed,
    InvalidSpec,
    NotPermitted,
    NotTransferable,
    PlanError,
    SandboxUnavailable,
    WorkerLost,
)
from paddock.making import make
from paddock.making.payload import WORKER
from paddock.sandbox.launching import launch
from paddock.sandbox.plan import Call
from paddock.sandbox.policy import CONTAINERS, Policy

_TIDY_S = 2.0
_KILLS = 4
_CAUGHT = 2  # faults of a lane, after which it is not stepped again
_STARTERS, _STARTS = 4, 24  # threads that start workers, and how many they start
UNAVAILABLE = 3  # exit code: this machine does not have the tier
_LANE_CAUSES = {"ENV_VIOLATION": "violation", "DEADLINE": "timeout", "ENV_LOST": "ended", "BAD_FRAME": "protocol"}
_REFUSALS = (PlanError, NotPermitted, InvalidSpec, SandboxUnavailable)
_ESCAPE = "\x1b"
_REWARD = 1e9  # the range of a default policy
_INFO_CHARACTERS = 256 << 10
_DEPTH = 100
_ERROR_CHARACTERS = 64 << 10

# What the user keeps in memory; an attack that runs in the same process can find it.
LEDGER = {"hostile ledger": ["mine"]}


def main() -> None:
    """Carry out one order."""
    die_with_parent(int(sys.argv[2]))
    channel = int(sys.argv[1])
    os.set_inheritable(channel, False)
    order = json.loads(sys.stdin.read())
    try:
        report = Trial(order).run()
    except SandboxUnavailable as error:
        print(str(error).replace("\n", " "), file=sys.stderr)
        sys.exit(UNAVAILABLE)
    with os.fdopen(channel, "w") as out:
        json.dump(report, out)
    if "abandon" in order["calls"]:
        os._exit(0)


class Trial:
    """One order, and what its calls brought."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.calls: list[dict[str, Any]] = []
        self.lies: list[str] = []
        self.leaks: list[str] = []
        self.signals: list[int] = []
        self.env: Any = None
        self.door = False
        self.shared, self.taken = 0, ""
        self.secret = f"secret {order['needles'][0]}"  # the neighbour's
        self.expected, self.changed = [0.0], ""
        isolation = order["isolation"]
        self._policy = isolation if isinstance(isolation, dict) else {"tier": isolation}
        self._disturbances: dict[str, Callable[[], None]] = {
            "killed starts": self._kill_starting_programs,
            "killed templates": self._kill_templates,
            "raced starts": self._race_starts,
        }
        if self._policy["tier"] in ("none", "process"):  # without a wall there is nothing to disturb
            self._disturbances = dict.fromkeys(self._disturbances, lambda: None)
        self._disturbances["another"] = self._compare_another

    def run(self) -> dict[str, Any]:
        """Carry it out and report."""
        order = self.order
        signal.signal(signal.SIGURG, lambda number, frame: self.signals.append(number))
        if order["path"] is not None:
            # Last, as the command line does it; but first for children that are started carelessly.
            sys.path.append(order["path"])
            os.environ["PYTHONPATH"] = os.pathsep.join([order["path"], os.environ.get("PYTHONPATH", "")])
        leaked = os.open(order["leaked"], os.O_RDONLY)
        os.set_inheritable(leaked, True)  # a careless trainer
        isolation = isolation_of(order["isolation"])
        # Without the attack's own policy: if not even that can be made, this machine does not have the tier.
        plain = isolation_of(order["plain"])
        neighbour = Neighbour(plain, self.secret) if order["neighbour"] else None
        if isolation != "none":
            make(QUIET, isolation=plain).close()  # opens now what stays open
        self.shared = prepare(order["share"])
        self.expected = make(QUIET).reset(seed=7)[0].tolist()
        before = Look()
        if neighbour is not None:
            neighbour.attack_begins()
        began = time.monotonic()
        self._call("make", lambda: self._make(isolation))
        if self.env is not None:
            self.lies += lies_of_description(self.env)
            self._calls()
        tidy_s, left = tidy(before, _TIDY_S) if "abandon" not in order["calls"] else (0.0, [])
        return {
            "calls": self.calls,
            "lies": self.lies,
            "leaks": self.leaks,
            "signals": len(self.signals),
            "door": self.door,
            "taken": self.taken,
            "seconds": time.monotonic() - began,
            "tidy_s": tidy_s,
            "left": left,
            "memory_mb": peak_mb() - before.peak_mb,
            "tampered": find_tampering(before, order["module"] if isolation != "none" else None),
            "neighbour": {"problem": self.changed} if self.changed else None if neighbour is None else neighbour.end(),
        }

    def _make(self, isolation: Any) -> None:
        order = self.order
        ours = {"$parent": os.getpid(), "$family": [*descendants(os.getpid())]}
        arguments = {
            name: ours.get(value, value) if isinstance(value, str) else value
            for name, value in order["arguments"].items()
        }
        kind, target = order["kind"], order["target"]
        if kind == "module":
            self.env = make(f"{order['module']}:Hostile/Imported-v0", isolation=isolation)
        elif kind in ("wrapper", "module wrapper"):
            path = target if kind == "wrapper" else f"{order['module']}:Imported"
            wrapper = WrapperSpec(path.rpartition(":")[2], path, arguments)
            spec = EnvSpec("Hostile/Wrapped-v0", HARMLESS, additional_wrappers=(wrapper,))
            self.env = make(spec, isolation=isolation)
        else:
            spec = EnvSpec.from_json(EnvSpec("Hostile/Attack-v0", target).to_json())
            self.env = make(spec, num_envs=order["lanes"], isolation=isolation, env_kwargs=arguments)

    def _calls(self) -> None:
        env, lanes = self.env, self.order["lanes"]
        action = 0 if lanes is None else np.zeros(lanes, np.int64)
        for name in self.order["calls"]:
            if name == "reset":
                self._call(name, lambda: env.reset(seed=0))
            elif name == "step":
                # Each time it is caught its lanes begin again, which takes a container a second.
                if sum(one["error"] == "lane_error" for one in self.calls) == _CAUGHT:
                    continue
                self._call(name, lambda: env.step(action))
                if self.order["door"] is not None:
                    with suppress(OSError), socket.create_connection(("127.0.0.1", self.order["door"]), 1.0):
                        self.door = True
                self.taken = self.taken or shortage(self.order["share"], self.order["arguments"], self.shared)
            elif name in self._disturbances:
                self._call(name, self._disturbances[name])
            elif name != "abandon":
                self._call(name, getattr(env, name))
        if "abandon" not in self.order["calls"]:
            with suppress(Exception):
                env.close()  # twice is fine

    def _call(self, name: str, call: Any) -> None:
        record: dict[str, Any] = {"call": name, "error": "", "cause": "", "text": "", "attack": ""}
        began = time.monotonic()
        try:
            value = call()
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            record.update(error=type(error).__name__, cause=cause_of(error), text=str(error)[:300])
            self.leaks += leaks(error_texts(error), self.order["needles"], name)
            self.lies += lies_of_error(error, name)
        else:
            self.leaks += leaks(value, self.order["needles"], name)
            one = value if self.order["lanes"] is None else first_lane(name, value)
            self.lies += lies(name, one, self.calls)
            if name == "step" and isinstance(one[4], dict):
                record["attack"] = str(one[4].get("attack", ""))[:300]
                record["loot"] = str(one[4].get("loot", ""))[:300]
            if name == "step":
                record["ended"] = bool(one[2])
                record.update(lane_fault(value[4]))
        finally:
            record["seconds"] = time.monotonic() - began
            self.calls.append(record)

    def _kill_starting_programs(self) -> None:
        kill_while_starting(json.dumps(self._policy), _KILLS)

    def _kill_templates(self) -> None:
        """Kill all that this process has started, while threads make environments. The last one must work.

        A container has no template: what is killed there is the engine's command, without which a start is refused.
        """
        losses = (WorkerLost, *(_REFUSALS if self._policy["tier"] in CONTAINERS else ()))
        with ThreadPoolExecutor(_STARTERS) as pool:
            for number in range(_KILLS):
                asked = [pool.submit(self._use_another) for _ in range(_STARTERS)]
                wait(asked, 0.05 + 0.05 * number)
                for pid in descendants(os.getpid()):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                for one in asked:
                    with suppress(*losses):
                        one.result()
        self._use_another()

    def _race_starts(self) -> None:
        """Start workers in several threads, and end each at some moment of its start."""

        def start_and_kill(number: int) -> None:
            near, far = socket.socketpair()
            policy = Policy.from_dict(self._policy)
            with near, far, launch(Call(WORKER), policy, socket_fd=far.fileno()) as child:
                child.wait(0.002 * (number % 10))

        with ThreadPoolExecutor(_STARTERS) as pool:
            list(pool.map(start_and_kill, range(_STARTS)))

    def _use_another(self) -> list[float]:
        with make(QUIET, isolation=isolation_of(self.order["plain"])) as other:
            observation: list[float] = other.reset(seed=7)[0].tolist()
            return observation

    def _compare_another(self) -> None:
        if (found := self._use_another()) != self.expected:
            self.changed = f"the next one observes {found}, not {self.expected}"


def isolation_of(plain: Any) -> Any:
    """A tier by name, or the policy that a dict describes."""
    return Policy.from_dict(plain) if isinstance(plain, dict) else plain


def cause_of(error: BaseException) -> str:
    """The cause of an error, in one word."""
    if isinstance(error, _REFUSALS):
        return "refused"
    if isinstance(error, BadFrame):
        return "protocol"
    if isinstance(error, (EnvFailed, NotTransferable)):
        return "raised"
    return str(getattr(error, "cause", "") or "raised")


def lane_fault(infos: Any) -> dict[str, str]:
    """The first fault of a lane: lanes go on without the one that failed, and say so in their infos."""
    faults = [str(one) for one in infos.get("lane_error", ()) if one] if isinstance(infos, dict) else []
    if not faults:
        return {}
    code = faults[0].partition(":")[0]
    return {"error": "lane_error", "cause": _LANE_CAUSES.get(code, "raised"), "text": faults[0][:300]}


class Look:
    """What the calling process can see of itself at the moment when this is made."""

    def __init__(self) -> None:
        self.descriptors, self.children = descriptors(), len(descendants(os.getpid()))
        self.peak_mb, self.entry = peak_mb(), _entry()


def tidy(before: Look, patience_s: float) -> tuple[float, list[str]]:
    """Wait until nothing of the environment is left; return how long that took, and what is left if it was too long."""
    began = awake_s()
    while True:
        # By number: a pool of workers that stand ready may have replaced one of them.
        children, here = descendants(os.getpid()), descriptors()
        left = [f"process {pid} {name}" for pid, name in children.items()] if len(children) > before.children else []
        if len(here) > len(before.descriptors):
            left += [f"descriptor {kind}" for kind in here if kind not in before.descriptors] or ["descriptors"]
        if not left or awake_s() - began > patience_s:
            return awake_s() - began, left
        time.sleep(0.01)


def descriptors() -> list[str]:
    """What this process has open, in words."""
    names = []
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - its own descriptor is gone when it is read
        with suppress(OSError):
            names.append(str(Path(f"/proc/self/fd/{entry}").readlink()))
    return sorted(names)


def peak_mb() -> float:
    """The most memory that this process has had so far."""
    for line in Path("/proc/self/status").read_text(errors="replace").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def find_tampering(before: Look, module: str | None) -> list[str]:
    """What an environment has changed in this process; ``module`` must not have been imported."""
    import builtins

    problems = []
    if _entry() != before.entry:
        problems.append(f"the registry makes {_entry()!r} for CartPole-v1")
    if hasattr(json, "hostile") or hasattr(builtins, "hostile") or MARK in sys.modules:
        problems.append("modules were changed")
    if MARK in os.environ or f"/{MARK}" in sys.path:
        problems.append("the process's surroundings were changed")
    if LEDGER["hostile ledger"] != ["mine"]:
        problems.append("the user's results were changed")
    if module is not None and module in sys.modules:
        problems.append(f"{module} was imported here")
    return problems


def _entry() -> Any:
    from paddock.core.registry import registry

    spec = dict.get(registry, "CartPole-v1")
    return None if spec is None else spec.entry_point


# What a trainer was handed, checked once more. Not by the spaces' own checks: an attack may have replaced them.


def leaks(value: Any, needles: Sequence[str], where: str) -> list[str]:
    """One sentence if a secret is anywhere in ``value``."""
    leaked = any(needle in text for text in texts(value, raw=True) for needle in needles)
    return [f"{where} brought back a secret"] if leaked else []


def lies(call: str, value: Any, before: Sequence[dict[str, Any]]) -> list[str]:
    """What is wrong with a result of this call; the hostile environments all declare Box(0, 1, (2,), float32)."""
    if call == "reset":
        return [*_observation(value[0]), *_info(value[1])]
    if call == "state":
        count = value.step_count
        return [] if count is None or (type(count) is int and count >= 0) else [f"state: {count} steps"]
    if call != "step":
        return []
    observation, reward, terminated, truncated, info = value
    problems = [*_observation(observation), *_reward(reward), *_info(info)]
    if not all(isinstance(flag, (bool, np.bool_)) for flag in (terminated, truncated)):
        problems.append(f"step: a flag is {terminated!r}"[:80])
    if any(one.get("ended") for one in before if one["call"] == "step"):
        problems.append("step: goes on after the end")
    return problems


def first_lane(call: str, value: Any) -> Any:
    """Of what several lanes returned, what the first did."""
    if call not in ("reset", "step"):
        return value
    *results, infos = value
    info = {name: one[0] if isinstance(one, np.ndarray) else one for name, one in infos.items()}
    return (*(one[0] for one in results), info)


def lies_of_error(error: BaseException, call: str) -> list[str]:
    """Errors are shown on terminals and written to logs."""
    parts = error_texts(error)
    problems = []
    if any(_ESCAPE in text for text in parts):
        problems.append(f"{call}: an error with terminal escapes")
    if sum(map(len, parts)) > _ERROR_CHARACTERS:
        problems.append(f"{call}: an error of {sum(map(len, parts))} characters")
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        problems.append(f"{call}: {type(error).__name__} went through to the caller")
    return problems


def lies_of_description(env: Any) -> list[str]:
    """What is wrong with what it said of itself when it was made."""
    entry = getattr(env.spec, "entry_point", None)
    problems = ["make: its spec names os:system"] if entry == "os:system" else []
    words = list(texts(env.metadata))
    if any(_ESCAPE in text for text in words) or sum(map(len, words)) > _INFO_CHARACTERS:
        problems.append("make: metadata that is long, or steers a terminal")
    return problems


def error_texts(error: BaseException) -> list[str]:
    """Its text, its trace and those of its cause."""
    return [str(error), str(getattr(error, "trace", "")), str(error.__cause__ or "")]


def texts(value: Any, *, raw: bool = False, depth: int = 0) -> Iterator[str]:
    """Every text in ``value``, keys included; with ``raw`` bytes and arrays as text too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (bytes, bytearray)):
        yield value.decode("latin-1") if raw else ""
    elif isinstance(value, np.ndarray):
        yield value.tobytes().decode("latin-1") if raw and value.nbytes < (1 << 16) else ""
    elif isinstance(value, dict) and depth < _DEPTH:
        for key, item in value.items():
            yield from texts(key, raw=raw, depth=depth + 1)
            yield from texts(item, raw=raw, depth=depth + 1)
    elif isinstance(value, (list, tuple)) and depth < _DEPTH:
        for item in value:
            yield from texts(item, raw=raw, depth=depth + 1)


def _observation(value: Any) -> list[str]:
    if type(value) is not np.ndarray or value.dtype != np.float32 or value.shape != (2,):
        kind = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        return [f"an observation that is {kind}"]
    low, high = float(value.min()), float(value.max())
    return [] if low >= 0 and high <= 1 else [f"an observation from {low} to {high}"]


def _reward(value: Any) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        return [f"a reward that is {type(value).__name__}"]
    return [] if math.isfinite(value) and abs(value) <= _REWARD else [f"a reward of {value}"]


def _info(value: Any) -> list[str]:
    if type(value) is not dict:
        return [f"an info that is {type(value).__name__}"]
    words = list(texts(value))
    problems = ["an info with terminal escapes"] if any(_ESCAPE in text for text in words) else []
    if sum(map(len, words)) > _INFO_CHARACTERS:
        problems.append(f"an info of {sum(map(len, words))} characters")
    depth = 0
    while isinstance(value, dict) and value and depth <= _DEPTH:
        value, depth = next(iter(value.values())), depth + 1
    return problems + (["an info that is too deep"] if depth > _DEPTH else [])


if __name__ == "__main__":
    # Python puts the current folder first for -m: nothing of paddock comes from there.
    sys.path[:] = [path for path in sys.path if path not in ("", str(Path.cwd()))]
    main()
