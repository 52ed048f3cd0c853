"""Many faults over one run of 64 lanes. Every result of every lane, in every step, must follow from its own history."""

import os
import signal
from dataclasses import dataclass, field

import numpy as np
import pytest

from paddock.seeding import derived_seed
from tests.vector.fault_envs import NO_ACTION, Possessions, deed, ledgers, reward_of

NUM_ENVS, LENGTH, SEED = 64, 7, 1000
# Only those that hang are to be ended by the deadline: on a busy machine the others may take long for a step.
DEADLINE_S, HUNG_S = 60.0, 0.5
ALONE = ("raise", "sys.exit")  # cost no other lane anything
WITH_ITS_WORKER = ("SIGKILL", "os._exit", "loop", "SIGSTOP", "garbage", "half a frame, exit")
HANGS = ("loop", "SIGSTOP")
FROM_OUTSIDE = ("killed while idle", "killed while it steps")


@dataclass
class History:
    """What one lane has been through, so what it must say next."""

    lane: int
    seed: int
    faults: int = 0
    now: list = field(default_factory=list)  # the last observation
    ended: bool = False
    anew: bool = False
    frozen: bool = False
    doom: str = ""  # "": it may not fail; "may": it may fail in this step or the next; "must": it fails in this one

    def begin(self, seed):
        self.now = [self.lane, seed % 2**62, 0, 0, NO_ACTION]
        self.ended = self.anew = False

    def check(self, action, observation, reward, terminated, truncated, error, *, mask):
        """One step's result. An AssertionError names the lane by what it prints."""
        got = observation.tolist(), reward, terminated, truncated
        if self.frozen:
            assert (got, error) == ((self.now, 0, False, False), None), self
        elif error is not None:
            assert self.doom, (self, error)
            assert got == (self.now, 0, False, True), (self, error, got)
            assert f"lane {self.lane}: " in error
            self.doom, self.anew, self.frozen = "", True, mask
            self.faults += 1
        else:
            assert self.doom != "must", (self, got)
            self.doom = "must" if self.doom else ""
            expected = self._next(action)
            assert got == expected, (self, expected, got)
            assert got[0] == self.now

    def _next(self, action):
        if self.anew:
            self.begin(derived_seed(self.seed, self.faults))
            return self.now, 0, False, False
        lane, seed, episode, count, _ = self.now
        if self.ended:
            self.now, self.ended = [lane, seed, episode + 1, 0, NO_ACTION], False
            return self.now, 0, False, False
        self.now, self.ended = [lane, seed, episode, count + 1, action], count + 1 == LENGTH
        return self.now, reward_of(count + 1, action), self.ended, False


class Storm:
    """Lanes with their histories, and what is done to them."""

    def __init__(self, envs, random, *, mask):
        self.envs, self.random, self.mask = envs, random, mask
        self.histories = [History(lane, SEED + lane) for lane in range(NUM_ENVS)]
        self.workers = [worker.lanes for worker in envs._lanes.workers]
        observations, _ = envs.reset(seed=SEED)
        for history, observation in zip(self.histories, observations, strict=True):
            history.begin(history.seed)
            assert observation.tolist() == history.now

    def worker_of(self, lane):
        return next(worker for worker in self.envs._lanes.workers if lane in worker.lanes)

    def pid_of(self, lane):
        return self.worker_of(lane).channel.child.pid

    def step(self, fault=None):
        chosen = self.random.integers(0, 1000, NUM_ENVS)
        victim = self._victim() if fault is not None else None
        hit = [] if victim is None else self._doom(fault, victim)
        if hit and fault not in FROM_OUTSIDE:
            chosen[victim] = deed(fault)
        if hit and fault == "killed while idle":
            os.kill(self.pid_of(victim), signal.SIGKILL)
        if hit and fault in HANGS:
            self.worker_of(victim)._deadline_s = HUNG_S
        self.envs.send(chosen)
        if hit and fault == "killed while it steps":
            os.kill(self.pid_of(victim), signal.SIGKILL)
        results = self.envs.recv()
        if hit and fault in HANGS:
            self.worker_of(victim)._deadline_s = DEADLINE_S
        self._check(chosen, *results)
        return bool(hit)

    def _victim(self):
        """A lane that will really be stepped, in a worker where nothing else is amiss."""
        calm = [
            history.lane
            for lanes in self.workers
            if not any(self.histories[lane].doom or self.histories[lane].anew for lane in lanes)
            for history in (self.histories[lane] for lane in lanes)
            if not history.ended
        ]
        return int(self.random.choice(calm)) if calm else None

    def _doom(self, fault, victim):
        hit = [victim] if fault in ALONE else next(lanes for lanes in self.workers if victim in lanes)
        for lane in hit:
            self.histories[lane].doom = "may" if fault == "killed while it steps" else "must"
        return hit

    def _check(self, chosen, observations, rewards, terminations, truncations, infos):
        errors = infos.get("lane_error", [None] * NUM_ENVS)
        for lane, history in enumerate(self.histories):
            flags = bool(terminations[lane]), bool(truncations[lane])
            history.check(
                int(chosen[lane]), observations[lane], float(rewards[lane]), *flags, errors[lane], mask=self.mask
            )
        if self.mask:
            assert infos["_live"].tolist() == [not history.frozen for history in self.histories]

    def revive(self):
        """What the caller of masked lanes does now and then: reset those that are frozen."""
        frozen = np.array([history.frozen for history in self.histories])
        if frozen.sum() < NUM_ENVS // 3:
            return
        observations, infos = self.envs.reset(options={"reset_mask": frozen})
        assert infos["_live"].all()
        for history in self.histories:
            if history.frozen:
                history.begin(derived_seed(history.seed, history.faults))
                history.frozen = False
            assert observations[history.lane].tolist() == history.now


@pytest.mark.process
@pytest.mark.parametrize("policy", ["restart", "mask"])
@pytest.mark.parametrize("workers", [16, 64])
@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.full)])
def test_faults_never_reach_another_lane(seed, count, workers, policy):
    random = np.random.default_rng([seed, count, workers, len(policy)])
    before = Possessions()
    faults = [*ALONE, *WITH_ITS_WORKER, *FROM_OUTSIDE] * count
    with ledgers(NUM_ENVS, workers=workers, length=LENGTH, on_fault=policy, deadline_s=DEADLINE_S) as envs:
        storm = Storm(envs, random, mask=policy == "mask")
        done = 0
        while done < count:
            done += storm.step(faults[done])
            for _ in range(random.integers(0, 3)):
                storm.step()
            if storm.mask:
                storm.revive()
        for _ in range(LENGTH + 3):
            storm.step()
        assert sum(history.faults for history in storm.histories) >= count
    del envs, storm
    assert Possessions().beyond(before) == {}
