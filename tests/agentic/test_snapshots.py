"""Snapshots and forks of tool environments: what is copied, what is refused, and that every distance agrees."""

import asyncio
import enum
import random
import subprocess
import sys
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple
from urllib.parse import quote

import msgspec
import numpy as np
import pytest

import paddock
from paddock.agentic import (
    CallTool,
    ExponentialDiscountingTrajectoryRubric,
    LLMJudge,
    Rubric,
    Sequential,
    Task,
    Tasks,
    ToolEnv,
    tool,
)
from paddock.agentic.snapshots import _LAYER
from paddock.core.state import open_snapshot, seal_snapshot
from paddock.errors import InvalidSnapshot, SnapshotUnsupported
from tests.peers import ROOT
from tests.serving import serving


class Colour(enum.Enum):
    RED = "red"


class Spot(NamedTuple):
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Card:
    rank: int
    colour: Colour = Colour.RED


@dataclass
class Player:
    name: str
    hand: list = field(default_factory=list)
    opponent: object = None


class Board:
    def __init__(self):
        self.cells = np.zeros((2, 3), dtype=np.int8)
        self.log = deque([(0, "begin")], maxlen=4)
        self.at = Spot(1, 2)


class Record(msgspec.Struct):
    names: dict
    owner: object = None


class Node:
    def __init__(self, before):
        self.before = before


class Held(ToolEnv):
    """Holds whatever a test gives it."""

    tasks = Tasks(train=[Task(prompt="Go.", hidden={"answer": "sesame"}), Task(prompt="Again.")])
    constants = ("client",)
    plain_classes = (Decimal,)

    def begin(self, task):
        self._total = 0

    @tool
    def add(self, number: int) -> float:
        """Add a number and a random one."""
        self._total += number
        return self._total + float(self.np_random.random())


def held(**attributes):
    env = Held()
    env.reset(seed=3, options={"index": 0})
    for name, value in attributes.items():
        setattr(env, name, value)
    return env


ALIKE = {
    "numbers": [1, -(2**70), 0.5, float("inf"), True, None, 2 + 3j, np.float32(0.1), np.int8(4), Decimal("1.10")],
    "text": ["a", "é", b"\x00", bytearray(b"x"), range(1, 9, 2), datetime(2024, 1, 2, 3)],
    "containers": [
        (1, [2]),
        {3},
        frozenset({(5, 6)}),
        {(7, 8): "x", 9: {}},
        OrderedDict(b=1, a=2),
        Counter("aab"),
    ],
    "defaults": defaultdict(list, a=[1]),
    "queue": deque([1, 2], maxlen=2),
    "own": [Card(3), Spot(0, 1), Colour.RED, Record({"a": [1]})],
    "set of cards": {Card(1), Card(2)},
    "dates as keys": {datetime(2024, 1, 1): 1},
}


@pytest.mark.parametrize("name", ALIKE)
def test_plain_data_and_own_objects_come_back_equal(name):
    env = held(thing=ALIKE[name])
    other = env.fork()
    assert repr(other.thing) == repr(env.thing)
    assert other.thing == env.thing or name == "own"
    assert other.thing is not env.thing


def test_arrays_and_streams_come_back_and_go_on_alike():
    env = held(cells=np.arange(6.0).reshape(2, 3), draw=random.Random(4), rng=np.random.default_rng(5))
    other = env.fork()
    assert other.cells.dtype == env.cells.dtype and (other.cells == env.cells).all() and other.cells.flags.writeable
    assert other.draw.random() == env.draw.random()
    assert other.rng.integers(1 << 60) == env.rng.integers(1 << 60)


def test_what_was_shared_stays_shared_and_circles_close():
    one, two = Player("a"), Player("b")
    one.opponent, two.opponent = two, one
    pile = [Card(1)]
    one.hand = two.hand = pile
    env = held(players=[one, two], pile=pile, board=Board(), me=None)
    env.me = env
    other = env.fork()
    first, second = other.players
    assert first.opponent is second and second.opponent is first and first is not one
    assert first.hand is second.hand is other.pile
    assert other.me is other
    assert other.board.log == env.board.log and other.board.log.maxlen == 4 and other.board.at == Spot(1, 2)


def test_long_chain_of_objects_is_no_deep_recursion():
    chain = None
    for _ in range(20_000):
        chain = Node(chain)
    other = held(chain=chain).fork()
    length, at = 0, other.chain
    while at is not None:
        length, at = length + 1, at.before
    assert length == 20_000


def test_fork_and_original_go_on_by_themselves_from_the_same_random_stream():
    env = held()
    env.step(CallTool("add", {"number": 2}))
    other = env.fork()
    same = [one.step(CallTool("add", {"number": 1}))[0].result for one in (env, other)]
    assert same[0] == same[1]
    env.step(CallTool("add", {"number": 10}))
    assert (env._total, other._total) == (13, 3)


def test_restore_goes_back_as_often_as_one_likes():
    env = held()
    snapshot = env.snapshot()
    results = []
    for _ in range(3):
        env.restore(snapshot)
        results.append(env.step(CallTool("add", {"number": 1}))[0].result)
    assert len(set(results)) == 1


def test_attribute_that_came_later_is_gone_after_restore():
    env = held()
    snapshot = env.snapshot()
    env.later = 1
    env.restore(snapshot)
    assert not hasattr(env, "later")


def test_hidden_part_of_the_task_is_in_no_snapshot_and_is_found_again():
    env = held(mine=None)
    env.mine = env.task
    snapshot = env.snapshot()
    assert b"sesame" not in snapshot
    other = Held()
    other.restore(snapshot)
    assert other.task.hidden == {"answer": "sesame"} and other.mine is other.task


def test_constants_are_shared_by_forks_and_kept_by_restore():
    client = threading.Lock()
    env = held(client=client)
    assert env.fork().client is client
    env.restore(env.snapshot())
    assert env.client is client


def refused(**attributes):
    with pytest.raises(SnapshotUnsupported) as caught:
        held(**attributes).snapshot()
    return str(caught.value)


def test_refusal_names_the_place_and_the_way_out(tmp_path):
    assert "board.cells[1] is a lock of _thread" in refused(board={"cells": [0, threading.Lock()]}).replace(
        "['cells']", ".cells"
    )
    for thing in (lambda: 1, open, (one for one in "a"), np.array([object()]), ToolEnv, asyncio.Lock()):
        assert "Held.constants" in refused(thing=thing)

    class Local:
        pass

    assert "plain_classes" in refused(thing=Local())


class Secretive:
    def __reduce__(self):
        return print, ("never",)


class Listing(list):
    pass


def test_classes_with_a_way_of_their_own_to_be_copied_are_refused():
    assert "__reduce__ of its own" in refused(thing=Secretive())
    assert "thing is" in refused(thing=Listing([1]))


def test_lone_surrogate_is_refused():
    assert "can't be saved" in refused(thing="\ud800")


class Last(ExponentialDiscountingTrajectoryRubric):
    def score_trajectory(self, trajectory):
        return len(trajectory)


class Counting(Rubric):
    def __init__(self):
        self.count = 0
        self.judge = LLMJudge("{action}", client=lambda prompt: "1", default_score=None)

    def reset(self):
        super().reset()
        self.count = 0

    def forward(self, action, observation):
        self.count += 1
        return self.count


class Graded(Held):
    """The same, graded by rubrics that remember."""

    rubric = Sequential(Counting(), Last(gamma=0.5))

    @tool
    def stop(self) -> str:
        """Stop."""
        self.finish()
        return "stopped"


def test_memory_of_rubrics_is_part_of_it():
    env = Graded()
    env.reset(seed=1)
    for _ in range(3):
        env.step(CallTool("add", {"number": 1}))
    fresh = Graded()
    fresh.restore(env.snapshot())
    ends = [one.step(CallTool("stop")) for one in (env.fork(), fresh, env)]
    assert ends[0] == ends[1] == ends[2]
    assert ends[0][1] == 4.0


def test_snapshot_before_the_first_reset():
    env = Held()
    other = env.fork()
    assert other.reset(seed=1)[1] == env.reset(seed=1)[1]


# ── Bytes from elsewhere ──


def test_snapshot_of_another_class_is_refused():
    with pytest.raises(InvalidSnapshot, match="expected one of"):
        Held().restore(Graded().snapshot())


def changed(env, change):
    parts, body = open_snapshot(_LAYER, env.snapshot(), list)
    change(parts)
    return seal_snapshot(_LAYER, parts, body)


def test_made_up_snapshots_are_refused_and_change_nothing():
    env = held(thing=[1, Card(2)])
    before = env.snapshot()
    texts = {repr(entry) for entry in open_snapshot(_LAYER, before, list)[0][3]}
    assert any("Card" in text for text in texts)

    def forge(old, new):
        return before.replace(old, new)

    def entry(tag, *rest):
        def change(parts):
            at = next(n for n, one in enumerate(parts[3]) if one[0] == "object")
            parts[3][at] = [tag, *rest] if rest != ("itself",) else [tag, [[at]]]

        return changed(env, change)

    here = __name__
    forged = [
        b"", b"x", before[:-3], forge(b"thing", b"reset"), forge(b"thing", b"tasks"),
        entry("object", "subprocess:Popen", []), entry("object", "builtins:type", []), entry("enum", "os:system", "x"),
        entry("object", f"{here}:Held", [["step", 1]]), entry("object", f"{here}:Card", [["__class__", 1]]),
        entry("tuple", "itself"), entry("array", "|O", [1], b"12345678"), entry("array", "<f8", [9], b""),
        entry("text", "int", "zz"), entry("nonsense"), entry("list", [[10_000]]), entry("find", "x", "y"),
        changed(env, lambda parts: parts.__setitem__(1, {"prompt": "Other."})),
    ]  # fmt: skip
    for number, snapshot in enumerate(forged):
        with pytest.raises(InvalidSnapshot):
            env.restore(snapshot)
        assert env.snapshot() == before, number


def test_random_bytes_never_do_anything_else_than_refuse(seed):
    env = held(thing=[Player("a"), {1: (2, 3)}, np.arange(3)])
    before, random_bytes = env.snapshot(), np.random.default_rng(seed)
    for _ in range(300):
        raw = bytearray(before)
        for at in random_bytes.integers(len(raw), size=int(random_bytes.integers(1, 4))):
            raw[at] = int(random_bytes.integers(256))
        try:
            held().restore(bytes(raw))
        except InvalidSnapshot:
            continue


# ── Every distance ──


def words_of(env, snapshot=None):
    """Two guesses, a fork between them, and what both sides say then."""
    env.reset(seed=1, options={"split": "train", "index": 4})
    env.step(CallTool("guess", {"word": "crane"}))
    with env.fork() as other:
        ours, theirs = (one.step(CallTool("guess", {"word": "slate"})) for one in (env, other))
        assert ours == theirs
        assert "PLATE" in other.step(CallTool("guess", {"word": "plate"}))[0].content[0].text
        after = env.step(CallTool("guess", {"word": "brick"}))[0].content[0].text
        assert "PLATE" not in after and "BRICK" in after
    return after


@pytest.mark.process
@pytest.mark.parametrize("isolation", [None, "process", "sandbox"])
def test_fork_at_every_distance_of_this_machine(isolation):
    with paddock.make("paddock/Wordle") as here, paddock.make("paddock/Wordle", isolation=isolation) as env:
        assert words_of(env) == words_of(here)
        env.restore(here.snapshot())
        assert env.step(CallTool("guess", {"word": "fjord"})) == here.step(CallTool("guess", {"word": "fjord"}))


@pytest.mark.process
def test_fork_at_a_server_plain_and_async():
    with serving("paddock/Wordle") as server, paddock.make("paddock/Wordle") as here:
        url = server.with_token("/" + quote("paddock/Wordle", safe=""))
        with paddock.make(url) as env:
            assert words_of(env) == words_of(here)

        async def fork():
            async with await paddock.make_async(url) as env:
                await env.reset(seed=1)
                async with await env.fork() as other:
                    action = CallTool("guess", {"word": "crane"})
                    return await env.step(action), await other.step(action)

        ours, theirs = asyncio.run(fork())
        assert ours == theirs


def test_wrappers_are_forked_with_what_they_remember():
    env = paddock.wrappers.RecordEpisodeStatistics(paddock.make("paddock/Wordle", max_episode_steps=3))
    env.reset(seed=1)
    env.step(CallTool("guess", {"word": "crane"}))
    other = env.fork()
    other.step(CallTool("guess", {"word": "slate"}))
    *_, truncated, info = other.step(CallTool("guess", {"word": "plate"}))
    assert truncated and info["episode"]["l"] == 3
    assert env.state().step_count == 1


def test_environments_without_tools_fork_too():
    env = paddock.make("CartPole-v1")
    env.reset(seed=1)
    env.step(1)
    other = env.fork()
    assert np.array_equal(env.step(0)[0], other.step(0)[0])


def test_recorder_can_not_be_forked_and_says_so(tmp_path):
    from paddock.record.trace import Recorder

    with Recorder(paddock.make("paddock/Echo"), tmp_path / "run.jsonl") as env:
        env.reset(seed=1)
        with pytest.raises(SnapshotUnsupported, match="Recorder"):
            env.fork()


@pytest.mark.process
def test_best_of_n_by_forks_beats_the_first_guess():
    command = [sys.executable, ROOT / "examples" / "best_of_n.py", "--games", "6", "--tries", "20"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    one, best = (float(line.rpartition(" ")[2]) for line in printed.splitlines())
    assert best > one
