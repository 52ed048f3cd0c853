"""Lanes in workers that are not believed: honest ones are as everywhere, a lie costs its worker and names its lane."""

import os

import numpy as np
import pytest

import paddock
from paddock.errors import DeadlineExceeded, EnvFailed, EnvironmentViolation, InvalidLanes, WorkerLost
from paddock.hosting.host import Host
from paddock.hosting.judge import WallRules
from paddock.hosting.messages import Failed, Rows
from paddock.hosting.worker import serve
from paddock.spaces import Box, Dict, Discrete, MultiBinary, Text
from paddock.vector import SyncVectorEnv
from paddock.vector.processes import ProcessVectorEnv
from tests.clocks import awake_s
from tests.hosting import hostile_workers as hostile

RULES = WallRules(call_s=20.0, start_s=20.0)
NESTED = Dict({"a": Box(-1, 1, (2,)), "b": MultiBinary(3), "c": Discrete(4), "d": Box(0, 1, (2,), bool)})
LIE = 1  # the action on which a Liar's worker does what it was told


def put_nan(block, row, value):
    block.observations["a"][row, 1] = np.nan


def put(field, number):
    def lie(block, row, value):
        getattr(block, field)[row] = number

    return lie


def put_part(key, number):
    def lie(block, row, value):
        np.ndarray((len(block.observations[key]), block.observations[key].nbytes // len(block.observations[key])),
                   np.uint8, block.observations[key])[row, 0] = number  # fmt: skip

    return lie


def note(*parts):
    def lie(block, row, value):
        return [*(value or []), [row, *parts]]

    return lie


LIES = {
    "nan": (put_nan, "observation['a'][1]"),
    "bit": (put_part("b", 2), "observation['b'][0]"),
    "choice": (put_part("c", 9), "observation['c']"),
    "bool": (put_part("d", 7), "observation['d']"),
    "reward nan": (put("rewards", np.nan), "reward"),
    "reward": (put("rewards", 1e300), "reward"),
    "terminated": (put("terminations", 2), "terminated"),
    "truncated": (put("truncations", 255), "truncated"),
    "info": (note({"a": [1, Discrete(2)]}), "info['a'][1]"),
    "bomb": (note({"a": "x" * 100_000}), "info"),
}


class Liar(paddock.Env):
    """Honest, but its worker may be told by ``lie`` what to write in its place when the action is LIE."""

    def __init__(self, lane=0, lie=None, loose=False, chatty=False):
        self.observation_space = Text(3, charset="abc") if loose else NESTED
        self.action_space = Discrete(4)
        self.lane, self.lie, self.loose, self.chatty, self.count = lane, lie, loose, chatty, 0

    def _observe(self):
        if self.loose:
            return "ab" if self.lie != "text" else "\x1b["
        a = np.array([self.count / 1000, -self.lane / 1000], np.float32)
        return {"a": a, "b": np.ones(3, np.int8), "c": np.int64(self.count % 4), "d": np.ones(2, bool)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        if (options or {}).get("lie") and self.lie == "reset":
            return {**self._observe(), "c": 4}, {}
        return self._observe(), {"lane": self.lane}

    def step(self, action):
        self.count += 1
        if action == LIE:
            if self.lie == "memory":
                raise MemoryError("no room")
            if self.lie == "hang":
                hostile.forever()
            if self.lie == "raise":
                raise ValueError("the \x1b[2Jwheel came off")
            if self.lie == "print":
                for _ in range(20):
                    os.write(1, b"y" * 65_536)
            told.extend([self.lie] if self.lie in LIES else [])
        info = {"count": self.count} if action == 2 else {}
        return self._observe(), float(self.count), self.count >= 50, False, info

    def render(self):
        return 5

    def boast(self):
        return "\x1b[2Jbest"


told = []


def lying(honest):
    def step_rows(host, request, block):
        reply = honest(host, request, block)
        for place, row in enumerate(request.envs or range(block.rows)):
            if told:
                held = host._envs[row].env.unwrapped
                if held.lie in LIES and (action_of(block, request, place, row) == LIE):
                    notes = LIES[held.lie][0](block, row, reply.notes)
                    reply = Rows(notes) if notes is not None else reply
        told.clear()
        return reply

    return step_rows


def action_of(block, request, place, row):
    return int(block.action(row) if request.actions is None else request.actions[place])


def build(what):
    return Liar(**what)


def launcher():
    def behaviour(far):
        Host.step_rows = lying(Host.step_rows)
        serve(far, Host(build, alone=True))

    return hostile.start(behaviour)


@pytest.fixture
def lanes_of():
    made = []

    def make(*whats, rules=RULES, **options):
        made.append(ProcessVectorEnv(list(whats), launcher=launcher, wall=rules, **options))
        return made[-1]

    yield make
    for lanes in made:
        lanes.close(terminate=True)


def honest(*numbers, **more):
    return [{"lane": number, **more} for number in numbers]


def assert_same_batch(got, expected):
    for key in NESTED.spaces:
        assert got[key].tobytes() == expected[key].tobytes() and got[key].dtype == expected[key].dtype


@pytest.mark.process
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_honest_lanes_are_the_same_behind_the_wall(lanes_of, mode):
    here = SyncVectorEnv([lambda lane=lane: Liar(lane) for lane in range(5)], autoreset_mode=mode)
    there = lanes_of(*honest(*range(5)), workers=2, autoreset_mode=mode)
    first, second = here.reset(seed=4), there.reset(seed=4)
    assert_same_batch(second[0], first[0])
    assert second[1]["lane"].tolist() == first[1]["lane"].tolist()
    for at in range(60 if mode != "Disabled" else 40):
        actions = np.array([at % 3, 0, 2, 0, 0])
        one, other = here.step(actions), there.step(actions)
        assert_same_batch(other[0], one[0])
        for mine, theirs in zip(other[1:4], one[1:4], strict=True):
            assert mine.tolist() == theirs.tolist() and mine.dtype == theirs.dtype
        assert other[4].keys() == one[4].keys()


@pytest.mark.process
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("way", ["all", "some"])
def test_a_lie_is_raised_with_its_lane_and_path(lanes_of, lie, way):
    lanes = lanes_of({"lane": 0}, {"lane": 1, "lie": lie}, {"lane": 2}, workers=1)
    lanes.reset(seed=1)
    lanes.step(np.zeros(3, np.int64))
    with pytest.raises(EnvironmentViolation) as caught:
        # A note for another lane makes the engine take rows one by one.
        lanes.step(np.array([2 if way == "some" else 0, LIE, 0]))
    assert (caught.value.lane, caught.value.path) == (1, LIES[lie][1])
    assert "lane 1" in str(caught.value)
    assert lanes._lanes.workers[0].lost


@pytest.mark.process
@pytest.mark.parametrize("lie", ["nan", "bool", "reward nan", "terminated", "bomb"])
def test_other_workers_go_on_and_the_lane_begins_anew(lanes_of, lie):
    lanes = lanes_of({"lane": 0}, {"lane": 1, "lie": lie}, workers=2, on_fault="restart")
    lanes.reset(seed=1)
    before, *_ = lanes.step(np.zeros(2, np.int64))
    observations, rewards, terminations, truncations, infos = lanes.step(np.array([0, LIE]))
    assert rewards.tolist() == [2.0, 0.0] and truncations.tolist() == [False, True] and not terminations.any()
    assert "ENV_VIOLATION" in infos["lane_error"][1]
    for key in NESTED.spaces:  # the last that was honest
        assert observations[key][1].tobytes() == before[key][1].tobytes()
    assert lanes.step(np.zeros(2, np.int64))[1].tolist() == [3.0, 0.0]
    assert lanes.step(np.zeros(2, np.int64))[1].tolist() == [4.0, 1.0]


@pytest.mark.process
def test_lanes_that_share_the_worker_are_lost_with_it(lanes_of):
    lanes = lanes_of({"lane": 0}, {"lane": 1, "lie": "nan"}, workers=1, on_fault="mask")
    lanes.reset(seed=1)
    *_, infos = lanes.step(np.array([0, LIE]))
    assert "lost with lane 1" in infos["lane_error"][0] and "ENV_VIOLATION" in infos["lane_error"][1]


@pytest.mark.process
def test_a_lie_at_a_reset_is_found_too(lanes_of):
    lanes = lanes_of({"lane": 0}, {"lane": 1, "lie": "reset"}, workers=2)
    lanes.reset(seed=1)
    with pytest.raises(EnvironmentViolation) as caught:
        lanes.reset(options={"lie": True})
    assert (caught.value.lane, caught.value.path) == (1, "observation['c']")


@pytest.mark.process
def test_observations_without_a_fixed_size_are_checked_in_the_reply(lanes_of):
    lanes = lanes_of(*honest(0, 1, loose=True), workers=1)
    lanes.reset(seed=1)
    assert lanes.step(np.zeros(2, np.int64))[0] == ("ab", "ab")
    liars = lanes_of({"lane": 0, "loose": True}, {"lane": 1, "loose": True, "lie": "text"}, workers=1)
    with pytest.raises(EnvironmentViolation) as caught:
        liars.reset(seed=1)
    assert (caught.value.lane, caught.value.path) == (1, "observation")


@pytest.mark.process
def test_answers_pass_the_wall(lanes_of):
    lanes = lanes_of(*honest(0, 1), workers=2)
    lanes.reset(seed=1)
    assert lanes.call("boast") == ("best", "best")
    assert lanes.get_attr("lane") == (0, 1)
    assert [one.step_count for one in lanes.state()] == [None, None]
    lanes.set_attr("lane", 7)
    assert lanes.get_attr("lane") == (7, 7)
    assert lanes.render() == (5, 5)  # without a mode a number is harmless


@pytest.mark.process
def test_a_worker_out_of_memory_is_lost_to_that(lanes_of):
    lanes = lanes_of({"lane": 0}, {"lane": 1, "lie": "memory"}, workers=1)
    lanes.reset(seed=1)
    with pytest.raises(WorkerLost, match="lane 1: ran out of memory") as caught:
        lanes.step(np.array([0, LIE]))
    assert caught.value.cause == "memory" and lanes._lanes.workers[0].channel.child.wait(0.0)


@pytest.mark.process
def test_an_error_of_the_environment_is_only_its_own(lanes_of):
    lanes = lanes_of({"lane": 0}, {"lane": 1, "lie": "raise"}, workers=1)
    lanes.reset(seed=1)
    with pytest.raises(EnvFailed, match="^lane 1: the wheel came off$"):
        lanes.step(np.array([0, LIE]))
    assert not lanes._lanes.workers[0].lost


@pytest.mark.process
def test_the_deadline_is_that_of_the_rules_however_many_rows_a_worker_has(lanes_of):
    lanes = lanes_of(*honest(0, 1, 2), {"lane": 3, "lie": "hang"}, workers=1, rules=WallRules(call_s=0.3))
    lanes.reset(seed=1)
    began = awake_s()
    with pytest.raises(DeadlineExceeded) as caught:
        lanes.step(np.array([0, 0, 0, LIE]))
    assert caught.value.lane == 3 and awake_s() - began < 0.8


@pytest.mark.process
def test_what_lanes_print_never_blocks_them(lanes_of):
    lanes = lanes_of({"lane": 0}, {"lane": 1, "lie": "print"}, workers=2)
    lanes.reset(seed=1)
    for _ in range(3):
        assert lanes.step(np.array([0, LIE]))[1].any()


@pytest.mark.process
def test_rooms_for_all_lanes_together_have_a_bound(lanes_of):
    with pytest.raises(EnvironmentViolation, match="3 lanes"):
        lanes_of(*honest(0, 1, 2), workers=1, rules=WallRules(lanes_bytes=100))


def test_code_can_not_be_sent_behind_the_wall(lanes_of):
    with pytest.raises(InvalidLanes, match="plain data"):
        lanes_of(lambda: Liar())


@pytest.mark.process
def test_a_worker_that_can_not_make_one_says_so(lanes_of):
    with pytest.raises(EnvFailed, match="no_such_argument"):
        lanes_of({"lane": 0}, {"no_such_argument": 1}, workers=2)


@pytest.mark.process
def test_a_failure_of_a_whole_step_is_every_lanes(lanes_of, monkeypatch):
    def fails(host, request, block):
        return Failed("DEADLINE", "I say that I am late")

    monkeypatch.setattr(Host, "step_rows", fails)
    lanes = lanes_of(*honest(0, 1), workers=1)
    lanes.reset(seed=1)
    with pytest.raises(EnvFailed) as caught:
        lanes.step(np.zeros(2, np.int64))
    assert type(caught.value) is EnvFailed
