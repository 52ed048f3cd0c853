"""Lanes at a server: one message a step, the same numbers as lanes here, and nothing believed that is not checked."""

from functools import partial

import numpy as np
import pytest

import paddock
from paddock import AutoresetMode, LaneOptions
from paddock.core.vector_env import lane_infos_from_wire, lane_infos_to_wire
from paddock.errors import (
    AlreadyPendingCallError,
    ClosedEnvironmentError,
    EnvironmentViolation,
    InvalidAction,
    InvalidLanes,
    InvalidSeed,
    NoAsyncCallError,
    NotPermitted,
    ResetNeeded,
)
from paddock.hosting import messages as m
from paddock.hosting.codec import decode_frame, encode
from paddock.hosting.host import Host
from paddock.hosting.judge import WallRules
from paddock.spaces import Box, Dict, Discrete, Text, Tuple
from paddock.vector import SyncVectorEnv
from paddock.vector.lanes import HostedLanes
from paddock.vector.remote import RemoteVectorEnv
from tests.conformance.tiers import DirectChannel
from tests.serving import serving
from tests.vector.lockstep import assert_alike

LANES = 3


class Odd(paddock.Env):
    """Nested observations, infos of every kind, and a fault on demand; lanes tell themselves apart by their seed."""

    action_space = Discrete(3)

    def __init__(self, loose=False):
        text = {"word": Text(8, min_length=0)} if loose else {}
        self.observation_space = Dict(
            {
                "place": Box(-9, 9, (2,), dtype=np.float32),
                "pair": Tuple([Discrete(9), Box(0, 1, (), dtype=np.int8)]),
                **text,
            }
        )
        self.loose, self.count, self.shift = loose, 0, 0

    def seen(self):
        word = {"word": "ab" * (self.count % 3)} if self.loose else {}
        pair = (np.int64(self.count % 9), np.int8(self.count % 2))
        return {"place": np.full(2, self.shift, np.float32), "pair": pair, **word}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        self.shift = int(self.np_random.integers(9))
        return self.seen(), {"why": "begun", "given": dict(options or {})}

    def step(self, action):
        self.count += 1
        if action == 2 and self.count == 2:
            raise ValueError("it broke")
        info = {"count": self.count, "name": "x" * self.count, "more": {"half": self.count / 2}}
        if self.count % 2:
            info["list"] = [1, 2]
        return self.seen(), float(self.count), self.count >= 4, False, info

    def public_state(self):
        return {"shift": self.shift}


def hosted(factory=Odd, lanes=LANES, wire=True, spoil=None, **options):
    """Lanes behind a Host in this process; every message becomes bytes and a message again, or is spoiled."""
    host = Host(lambda what: HostedLanes(SyncVectorEnv([factory] * lanes, copy=False, **options)))
    channel = Passing(host, spoil) if wire else DirectChannel(host)
    return RemoteVectorEnv(channel, {"num_envs": LANES}, WallRules(), name="here")


class Passing(DirectChannel):
    def __init__(self, host, spoil):
        super().__init__(host)
        self._spoil = spoil

    def recv(self, timeout=None):
        request = self._sent.popleft()
        request = _passed(request)
        reply = self.host.handle(request)
        if self._spoil is not None:
            reply = self._spoil(request, reply)
            if isinstance(request, m.Make):  # as an older server answers: then steps are values, which can be spoiled
                reply = m.Done({**reply.value, "rows": False})
        return _passed(reply)


def _passed(message):
    return decode_frame(b"".join(encode(message, 1)))[1]


def near(factory=Odd, **options):
    return SyncVectorEnv([factory] * LANES, **options)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("loose", [False, True], ids=["fixed", "loose"])
def test_lanes_are_the_same_lanes_at_any_distance(mode, loose, seed):
    def factory():
        return Odd(loose=loose)

    rng = np.random.default_rng(seed)
    far, here = hosted(factory, autoreset_mode=mode), near(factory, autoreset_mode=mode)
    assert far.single_observation_space == here.single_observation_space
    assert (far.observation_space, far.action_space) == (here.observation_space, here.action_space)
    assert far.metadata["autoreset_mode"] is mode
    options = {"colour": "red"}
    assert_alike(far.reset(seed=5, options=options), here.reset(seed=5, options=options))
    for _ in range(12):
        actions = rng.integers(0, 2, LANES)
        result = here.step(actions)
        assert_alike(far.step(actions), result)
        over = result[2] | result[3]
        if mode is AutoresetMode.DISABLED and over.any():
            mask = {"reset_mask": over}
            assert_alike(far.reset(seed=[1, None, 2], options=mask), here.reset(seed=[1, None, 2], options=mask))
    assert [one.public for one in far.state()] == [one.public for one in here.state()]
    far.close()


def test_halves_of_a_step_and_held_lanes():
    far, here = hosted(), near()
    far.reset(seed=1)
    here.reset(seed=1)
    with pytest.raises(NoAsyncCallError):
        far.recv()
    far.send(np.zeros(LANES, int))
    with pytest.raises(AlreadyPendingCallError):
        far.step(np.zeros(LANES, int))
    assert_alike(far.recv(), here.step(np.zeros(LANES, int)))
    held = np.array([True, False, True])
    far.hold(held)
    here.hold(held)
    assert_alike(far.step(np.zeros(LANES, int)), here.step(np.zeros(LANES, int)))


def test_attributes_and_snapshots_of_lanes():
    far = hosted()
    far.reset(seed=1)
    far.set_attr("shift", [1, 2, 3])
    assert far.get_attr("shift") == (1, 2, 3)
    far.set_attr("shift", 4)
    assert far.call("public_state") == ({"shift": 4},) * LANES
    with pytest.raises(InvalidLanes):
        far.set_attr("shift", [1, 2])
    with pytest.raises(AttributeError, match="underscore"):
        far.call("_np_random")
    assert all(isinstance(one, np.random.Generator) for one in far.call("np_random"))


def test_a_lane_that_fails_is_begun_anew_there():
    far = hosted(on_fault="restart")
    far.reset(seed=1)
    far.step(np.zeros(LANES, int))
    *_, truncations, infos = far.step(np.array([0, 2, 0]))
    assert truncations.tolist() == [False, True, False]
    assert "ValueError" in str(infos)
    far.step(np.zeros(LANES, int))


def test_mistakes_of_the_caller_leave_the_lanes_alone():
    far = hosted(lambda: paddock.make("CartPole-v1"))
    with pytest.raises(ResetNeeded):
        far.step(np.zeros(LANES, int))
    far.reset(seed=1)
    with pytest.raises(InvalidAction, match="lane 1"):
        far.step(np.array([0, 9, 0]))
    with pytest.raises(InvalidAction):
        far.step(np.zeros(LANES + 1, int))
    with pytest.raises(InvalidSeed):
        far.reset(seed=[1, 2])
    with pytest.raises(InvalidLanes):
        far.reset(options={"reset_mask": np.zeros(LANES, bool)})
    far.step(np.zeros(LANES, int))
    far.close()
    far.close()
    with pytest.raises(ClosedEnvironmentError):
        far.step(np.zeros(LANES, int))


def _step_spoiled(change):
    def spoil(request, reply):
        if not isinstance(request, m.Step):
            return reply
        result = list(reply.value[0])
        return m.Done([change(result) or result])

    return spoil


def _put(place, value):
    def change(result):
        result[place] = value(result[place]) if callable(value) else value

    return change


def _place(values):
    return lambda seen: {**seen, "place": values(seen["place"])}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (_put(0, _place(lambda rows: rows + 100)), "observation['place'][0][0]"),
        (_put(0, _place(lambda rows: rows * np.nan)), "observation['place'][0][0]"),
        (_put(0, _place(lambda rows: rows[:2])), "observation['place']"),
        (_put(0, _place(lambda rows: rows.astype(np.float64))), "observation['place']"),
        (_put(0, lambda seen: {**seen, "extra": 1}), "observation['extra']"),
        (_put(0, lambda seen: {**seen, "pair": list(seen["pair"])}), "observation['pair']"),
        (_put(0, None), "observation"),
        (_put(1, lambda rewards: rewards.astype(np.float32)), "reward"),
        (_put(1, lambda rewards: rewards[:-1]), "reward"),
        (_put(1, lambda rewards: rewards + np.array([0, np.inf, 0])), "reward[1]"),
        (_put(1, lambda rewards: rewards + 1e12), "reward[0]"),
        (_put(1, 1.0), "reward"),
        (_put(2, lambda flags: flags.astype(np.uint8)), "terminated"),
        (_put(3, lambda flags: flags[:1]), "truncated"),
        (_put(4, []), "info"),
        (_put(4, {"a": "x" * (1 << 20)}), "info"),
        (_put(4, {"final_obs": [None, None]}), "info['final_obs']"),
        (_put(4, {"final_obs": [None, None, 3], "_final_obs": np.ones(3, bool)}), "info['final_obs'][2]"),
        (lambda result: result[:4], "step()"),
    ],
)
def test_a_lie_is_a_violation_and_ends_the_session(change, path):
    far = hosted(spoil=_step_spoiled(change))
    far.reset(seed=1)
    with pytest.raises(EnvironmentViolation) as caught:
        far.step(np.zeros(LANES, int))
    assert caught.value.path == path
    with pytest.raises(ClosedEnvironmentError):
        far.step(np.zeros(LANES, int))


@pytest.mark.parametrize(
    ("place", "value", "path"),
    [
        (0, np.float64(np.nan), "reward[0]"),
        (8, np.float64(1e12), "reward[1]"),
        (8 * LANES, np.uint8(2), "terminated"),
        (9 * LANES + 1, np.uint8(255), "truncated"),
        (32, np.float32(np.nan), "observation['pair'][0][0]"),
        (None, b"", "step()"),
        (None, bytes(8), "step()"),
        (None, None, "step()"),
    ],
)
def test_a_lie_in_rows_is_a_violation_too(place, value, path):
    def recv(self, timeout=None):
        reply = honest(self, timeout)
        if type(reply) is not m.Rows:
            return reply
        rows = bytearray(reply.rows)
        if place is None:
            rows = value if value is None else rows + value if value else rows[:-8]
        else:
            rows[place : place + value.nbytes] = value.tobytes()
        return m.Rows(reply.notes, reply.plain, rows)

    honest = Passing.recv
    far = hosted()
    far.reset(seed=1)
    far._channel.recv = partial(recv, far._channel)
    with pytest.raises(EnvironmentViolation) as caught:
        far.step(np.zeros(LANES, int))
    assert caught.value.path == path
    with pytest.raises(ClosedEnvironmentError):
        far.step(np.zeros(LANES, int))


def test_another_number_of_lanes_than_asked_for_is_a_violation():
    with pytest.raises(EnvironmentViolation, match="num_envs"):
        hosted(lanes=LANES + 1)


def test_infos_come_back_as_they_were():
    objects = np.empty(3, object)
    objects[:] = [None, "a", None]
    arrays = np.empty(3, object)
    arrays[0], arrays[1] = np.arange(2), np.arange(2)
    mask = np.array([False, True, False])
    infos = {"a": objects, "_a": mask, "b": {"c": arrays, "_c": mask, "d": np.ones(3), "_d": mask}, "_b": mask}
    back = lane_infos_from_wire(_passed(m.Done(lane_infos_to_wire(infos))).value, 3)
    assert_alike(back, infos)


@pytest.mark.process
def test_lanes_of_a_real_server():
    with serving("CartPole-v1", "Taxi-v4") as running:
        for name, mode, lanes in (("Taxi-v4", "SameStep", 4), ("CartPole-v1", "NextStep", 17)):
            options = LaneOptions(autoreset=mode)
            url = running.with_token(f"/{name}")
            with (
                paddock.make_vec(url, lanes, lanes=options) as far,
                paddock.make(name, num_envs=lanes, lanes=options) as here,
            ):
                assert repr(far) == f"RemoteVectorEnv({running.url}/{name}, num_envs={lanes}, wire paddock.v2)"
                here.action_space.seed(3)
                assert_alike(far.reset(seed=2), here.reset(seed=2))
                for _ in range(220):
                    actions = here.action_space.sample()
                    assert_alike(far.step(actions), here.step(actions))
                assert [one.step_count for one in far.state()] == [one.step_count for one in here.state()]
                far.restore(far.snapshot())
        with paddock.make(running.with_token("/CartPole-v1"), num_envs=2, render_mode="rgb_array") as far:
            far.reset(seed=1)
            assert [frame.shape for frame in far.render()] == [(400, 600, 3)] * 2
        with pytest.raises(NotPermitted, match="4096"):
            paddock.make(running.with_token("/CartPole-v1"), num_envs=5000)
