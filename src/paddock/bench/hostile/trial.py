"""The process that makes one hostile environment and calls it, as a trainer would. Reports what came back.

Run as ``python -m paddock.bench.hostile.trial FD PARENT``: the order comes as JSON on stdin, the report goes to
the descriptor. Without a wall the attack runs in here, so nothing that this process says of itself is the last word.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from paddock.bench.hostile import delivered, inside_caller
from paddock.bench.hostile.host_state import die_with_parent, kill_while_starting, prepare, shortage
from paddock.bench.hostile.neighbour import Neighbour
from paddock.bench.hostile.quiet import QUIET
from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.errors import (
    BadFrame,
    EnvFailed,
    InvalidSpec,
    NotPermitted,
    NotTransferable,
    PlanError,
    SandboxUnavailable,
)
from paddock.making import make
from paddock.sandbox.policy import Policy

_ATTACKS = "paddock.bench.hostile.attacks"
_TIDY_S = 2.0
_KILLS = 4
UNAVAILABLE = 3  # exit code: this machine does not have the tier
_LANE_CAUSES = {"ENV_VIOLATION": "violation", "DEADLINE": "timeout", "ENV_LOST": "ended", "BAD_FRAME": "protocol"}
_REFUSALS = (PlanError, NotPermitted, InvalidSpec, SandboxUnavailable)


def main() -> None:
    """Obey one order."""
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
    """One order, carried out."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.calls: list[dict[str, Any]] = []
        self.lies: list[str] = []
        self.leaks: list[str] = []
        self.signals = 0
        self.env: Any = None
        self.door = False
        self.shared, self.taken = 0, ""

    def run(self) -> dict[str, Any]:
        """Everything that was seen."""
        order = self.order
        signal.signal(signal.SIGURG, self._signalled)
        self._put_on_path()
        leaked = os.open(order["leaked"], os.O_RDONLY)
        os.set_inheritable(leaked, True)  # a careless trainer
        isolation = isolation_of(order["isolation"])
        # Without the attack's own policy: what can't even be made so is a tier that this machine does not have.
        plain = isolation_of(order["plain"])
        neighbour = Neighbour(plain) if order["neighbour"] else None
        if isolation != "none":
            make(QUIET, isolation=plain).close()  # what is opened once and for all is opened now
        self.shared = prepare(order["share"])
        before = inside_caller.look()
        if neighbour is not None:
            neighbour.attack_begins()
        began = time.monotonic()
        self._call("make", lambda: self._make(isolation))
        if self.env is not None:
            delivered.check_description(self.env, order, self.lies)
            self._calls()
        tidy_s, left = inside_caller.tidy(before, _TIDY_S) if "abandon" not in order["calls"] else (0.0, [])
        return {
            "calls": self.calls,
            "lies": self.lies,
            "leaks": self.leaks,
            "signals": self.signals,
            "door": self.door,
            "taken": self.taken,
            "seconds": time.monotonic() - began,
            "tidy_s": tidy_s,
            "left": left,
            "memory_mb": inside_caller.peak_mb() - before.peak_mb,
            "tampered": inside_caller.tampered(before, order["module"] if isolation != "none" else None),
            "neighbour": None if neighbour is None else neighbour.end(),
        }

    def _put_on_path(self) -> None:
        if self.order["path"] is not None:
            # Last, as the command line does it; but first for children that are started carelessly.
            sys.path.append(self.order["path"])
            os.environ["PYTHONPATH"] = os.pathsep.join([self.order["path"], os.environ.get("PYTHONPATH", "")])

    def _signalled(self, number: int, frame: Any) -> None:
        self.signals += 1

    def _make(self, isolation: Any) -> None:
        order = self.order
        told = {name: os.getpid() if value == "$parent" else value for name, value in order["told"].items()}
        kind, _, what = order["target"].partition(" ")
        if kind == "module":
            self.env = make(f"{order['module']}:Hostile/Imported-v0", isolation=isolation)
        elif kind == "wrapper" or kind == "modular-wrapper":
            path = f"{_ATTACKS}.{what}" if kind == "wrapper" else f"{order['module']}:Imported"
            wrapper = WrapperSpec(what, path, told)
            spec = EnvSpec("Hostile/Wrapped-v0", f"{_ATTACKS}.wrappers:Harmless", additional_wrappers=(wrapper,))
            self.env = make(spec, isolation=isolation)
        else:
            path = f"{_ATTACKS}.{what}" if kind == "env" else what
            spec = EnvSpec.from_json(EnvSpec("Hostile/Attack-v0", path).to_json())
            self.env = make(spec, num_envs=order["lanes"], isolation=isolation, env_kwargs=told)

    def _calls(self) -> None:
        env, lanes = self.env, self.order["lanes"]
        action = 0 if lanes is None else np.zeros(lanes, np.int64)
        for name in self.order["calls"]:
            if name == "reset":
                self._call(name, lambda: env.reset(seed=0))
            elif name == "step":
                self._call(name, lambda: env.step(action))
                self._try_door()
                self.taken = self.taken or shortage(self.order["share"], self.order["told"], self.shared)
            elif name == "killed starts":
                self._call(name, self._killed_starts)
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
            self.leaks += delivered.leaks_of_error(error, self.order["needles"], name)
            self.lies += delivered.lies_of_error(error, name)
        else:
            self.leaks += delivered.leaks(value, self.order["needles"], name)
            one = value if self.order["lanes"] is None else delivered.first_lane(name, value)
            self.lies += delivered.lies(name, one, self.calls)
            if name == "step" and isinstance(one[4], dict):
                record["attack"] = str(one[4].get("attack", ""))[:300]
                record["loot"] = str(one[4].get("loot", ""))[:300]
            if name == "step":
                record["ended"] = bool(one[2])
                record.update(lane_fault(value[4]))
        finally:
            record["seconds"] = time.monotonic() - began
            self.calls.append(record)

    def _killed_starts(self) -> None:
        isolation = self.order["isolation"]
        policy = isolation if isinstance(isolation, dict) else {"tier": isolation}
        if policy["tier"] not in ("none", "process"):  # without a wall there is nothing to start
            kill_while_starting(json.dumps(policy), _KILLS)

    def _try_door(self) -> None:
        if self.order["door"] is not None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.order["door"]), 1.0):
                self.door = True


def isolation_of(plain: Any) -> Any:
    """A tier by name, or the policy that a dict describes."""
    return Policy.from_dict(plain) if isinstance(plain, dict) else plain


def cause_of(error: BaseException) -> str:
    """In one word."""
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


if __name__ == "__main__":
    # Python puts the current folder first for -m: nothing of paddock comes from there.
    sys.path[:] = [path for path in sys.path if path not in ("", str(Path.cwd()))]
    main()
