"""Random programs over lanes in a loop, in shared workers and in workers of their own, against n single environments.

Observations say which lane, episode, step and action they come from, so no mix-up of lanes or steps can pass.
"""

import json
import random
from functools import partial

import numpy as np
import pytest

import paddock
from paddock.errors import ResetNeeded
from paddock.hosting.launch import start_by
from paddock.seeding import derived_seed
from paddock.spaces import Box, Discrete
from paddock.vector.loop import SyncVectorEnv
from paddock.vector.processes import AsyncVectorEnv, ProcessVectorEnv
from tests.vector.attack_envs import limited
from tests.vector.lockstep import alike

BOOM = 99
OPERATIONS = 50


class Telling(paddock.Env):
    """Action 99 raises, 7 and 17 terminate, 8 and 18 truncate; infos differ from step to step in key and type."""

    observation_space = Box(-1e9, 1e9, (6,), np.float64)
    action_space = Discrete(100)

    def __init__(self, lane):
        self.lane, self.episode, self.count, self.drawn, self.gain = lane, 0, 0, 0, 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.count, self.drawn = self.episode + 1, 0, int(self.np_random.integers(1 << 20))
        if options and self.lane in options.get("fail", ()):
            raise KeyError("this reset fails")
        return self._observe(-1), {"drawn": self.drawn} if self.drawn % 2 else {}

    def step(self, action):
        if action == BOOM:
            raise ValueError("the wheel came off")
        self.count, self.drawn = self.count + 1, int(self.np_random.integers(1 << 20))
        info = ({"count": self.count}, {"half": self.count + 0.5}, {"deep": {"count": self.count}}, {})[self.count % 4]
        return self._observe(action), float(action) * self.gain, action % 10 == 7, action % 10 == 8, info

    def _observe(self, action):
        return np.array([self.lane, self.episode, self.count, action, self.drawn, self.gain])

    def add(self, amount):
        self.gain += amount
        return self.gain

    def snapshot(self):
        return json.dumps(
            [self.episode, self.count, self.drawn, self.gain, self.np_random.bit_generator.state]
        ).encode()

    def restore(self, snapshot):
        self.episode, self.count, self.drawn, self.gain, stream = json.loads(snapshot)
        self.np_random.bit_generator.state = stream


class Single:
    """One environment alone, with the autoreset and the policy for faults said once more in the plainest way.

    A result is (observation, reward, terminated, truncated, info).
    """

    def __init__(self, lane, mode, policy):
        self.make, self.mode, self.policy = partial(Telling, lane), mode, policy
        self.env, self.last, self.ended = self.make(), None, False
        self.seed, self.faults, self.failed, self.frozen = None, 0, False, False

    def reset(self, seed):
        if seed is not None:
            self.seed, self.faults = seed, 0
        elif self.failed:
            seed = derived_seed(self.seed, self.faults)
        if self.failed:
            self.env = self.make()
        self.failed = self.frozen = self.ended = False
        self.last, info = self.env.reset(seed=seed)
        return info

    @property
    def refuses(self):
        return self.mode == "Disabled" and (self.ended or self.failed) and not self.frozen

    def rest(self):
        return self.last, 0.0, False, False, {}

    def step(self, action):
        if self.frozen:
            return self.rest()
        if self.failed or self.ended:
            info = self.reset(None)
            return (*self.rest()[:4], info)
        try:
            self.last, reward, terminated, truncated, info = self.env.step(action)
        except ValueError:
            self.faults, self.failed, self.frozen = self.faults + 1, True, self.policy == "mask"
            error = f"ENV_FAILED (ValueError): lane {self.env.lane}: the wheel came off"
            return self.last, 0.0, False, True, {"lane_error": error}
        if terminated or truncated:
            self.ended = True
            if self.mode == "SameStep":
                final, of_end = self.last, info
                info = {"final_obs": final, "final_info": of_end, **self.reset(None)}
        return self.last, reward, terminated, truncated, info


class Singles:
    """n of them, with just enough of a vector environment's surface for the programs here."""

    def __init__(self, num_envs, mode, policy):
        self.lanes, self.policy, self.held = [Single(lane, mode, policy) for lane in range(num_envs)], policy, ()

    def hold(self, mask):
        self.held = np.flatnonzero(mask)

    def reset(self, *, seed=None, options=None):
        self.held = ()
        chosen = np.ones(len(self.lanes), np.bool_) if options is None else options["reset_mask"]
        infos = [
            lane.reset(None if seed is None else seed + number) if chosen[number] else {}
            for number, lane in enumerate(self.lanes)
        ]
        return np.array([lane.last for lane in self.lanes]), infos

    def step(self, actions):
        if len(actions) != len(self.lanes):
            raise ValueError("one action a lane")
        held, self.held = self.held, ()
        if any(lane.refuses for number, lane in enumerate(self.lanes) if number not in held):
            raise ResetNeeded("a lane has ended")
        each = [
            lane.rest() if number in held else lane.step(action)
            for number, (lane, action) in enumerate(zip(self.lanes, actions, strict=True))
        ]
        *arrays, infos = zip(*each, strict=True)
        if self.policy == "raise" and any("lane_error" in info for info in infos):
            raise ValueError("a lane has raised")
        return (*map(np.array, arrays), list(infos))

    def call(self, name, *args):
        return tuple(getattr(lane.env, name)(*args) for lane in self.lanes)

    def get_attr(self, name):
        return tuple(getattr(lane.env, name) for lane in self.lanes)

    def set_attr(self, name, values):
        for lane, value in zip(self.lanes, values, strict=True):
            setattr(lane.env, name, value)

    def close(self):
        pass


def operation(rng, num_envs, kept, *, wild):
    """A name, and what to do with any of the systems; ``wild``: things too, that no single environment does."""
    kind = rng.choices(
        ["step", "hold", "reset some", "reset", "call", "set", "get", "bad", "fail", "snapshot", "restore"],
        [60, 8, 9, 4, 4, 2, 2, 1, *([4, 3, 3] if wild else [0, 0, 0])],
    )[0]
    chosen = np.array([rng.random() < 0.4 for _ in range(num_envs)])
    chosen[0] |= not chosen.any()
    nobody = np.zeros(num_envs, np.bool_)
    seed = rng.choice([None, rng.randrange(1000)])
    actions = np.array(rng.choices([0, 1, 2, 3, 4, 5, 6, 17, 18, BOOM], [3] * 9 + [1], k=num_envs))
    gains = [float(rng.randrange(9)) for _ in range(num_envs)]
    failing = {"fail": [rng.randrange(num_envs)]}

    def hold_and_step(envs):
        envs.hold(chosen)
        try:
            return envs.step(actions)
        finally:
            envs.hold(nobody)

    does = {
        "step": lambda envs: envs.step(actions.astype(np.int32) if gains[0] == 1 else actions),
        "hold": hold_and_step,
        "reset some": lambda envs: envs.reset(seed=seed, options={"reset_mask": chosen}),
        "reset": lambda envs: envs.reset(seed=seed),
        "call": lambda envs: envs.call("add", gains[0]),
        "set": lambda envs: envs.set_attr("gain", gains),
        "get": lambda envs: envs.get_attr("gain"),
        "bad": lambda envs: envs.step(np.zeros(num_envs + 1, np.int64)),
        "fail": lambda envs: envs.reset(options=failing),
        "snapshot": lambda envs: kept.__setitem__(envs, envs.snapshot()),
        "restore": lambda envs: envs.restore(kept[envs]) if envs in kept else None,
    }
    return f"{kind} {actions} {chosen} {seed}", does[kind]


def outcome(envs, do):
    """What came of it; of an error only that there is one: class and text differ by distance, its effects may not."""
    try:
        return do(envs)
    except Exception:
        return "error"


def info_of(infos, lane):
    """One lane's info out of a batch of them."""
    found = {}
    for key, rows in infos.items():
        if f"_{key}" in infos and infos[f"_{key}"][lane]:
            value = info_of(rows, lane) if isinstance(rows, dict) else rows[lane]
            found[key] = value.item() if isinstance(value, np.generic) else value
    return found


def by_lane(result, num_envs):
    """A result with infos as a list, a dict a lane; those of Singles are already."""
    if isinstance(result, tuple) and isinstance(result[-1], dict):
        return (*result[:-1], [info_of(result[-1], lane) for lane in range(num_envs)])
    return result


def run_program(seed):
    rng = random.Random(seed)
    num_envs = rng.choice([1, 2, 3, 5])
    mode, policy = rng.choice(["NextStep", "SameStep", "Disabled"]), rng.choice(["restart", "mask", "raise"])
    wild = rng.random() < 0.4
    factories = [partial(Telling, lane) for lane in range(num_envs)]
    options = {"autoreset_mode": mode, "on_fault": policy, "copy": rng.random() < 0.7}
    shared = {"workers": rng.randint(1, num_envs), "max_concurrency": rng.choice([None, 1])}
    systems = [
        SyncVectorEnv(factories, **options),
        ProcessVectorEnv(factories, launcher=start_by("fork"), **shared, **options),
        AsyncVectorEnv(factories, context="fork", **options),
    ]
    if not wild:
        systems.append(Singles(num_envs, mode, policy))
    kept, log = {}, [f"seed {seed}: {num_envs} lanes, {options}, {shared}"]
    try:
        for turn in range(OPERATIONS):
            name, do = operation(rng, num_envs, kept, wild=wild)
            if turn == 0:
                name, do = "reset", lambda envs: envs.reset(seed=seed)
            log.append(name)
            loop, *others = [outcome(envs, do) for envs in systems]
            for envs, result in zip(systems[1:], others, strict=True):
                expected = by_lane(loop, num_envs) if isinstance(envs, Singles) else loop
                told = "\n".join([*log[:1], *log[-5:]])
                assert alike(expected, result), f"{told}\nloop: {expected}\n{type(envs).__name__}: {result}"
    finally:
        for envs in systems:
            envs.close()


@pytest.mark.process
@pytest.mark.parametrize("count", [60, pytest.param(1500, marks=pytest.mark.full)])
def test_every_kind_of_lanes_is_n_single_environments(seed, count):
    with limited(60.0 + count):
        for number in range(count):
            run_program(seed * 100_000 + number)
