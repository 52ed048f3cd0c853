"""A replay says where an episode goes another way, or that it does not."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest

import paddock
from paddock.errors import InvalidTrace
from paddock.record.trace import Recorder, TraceReader, replay
from paddock.spaces import Box, Dict, Discrete, Struct, Tuple


def record(path, env, seeds=(3,), options=None, steps=200):
    with Recorder(env, path) as recorder:
        recorder.action_space.seed(seeds[0])
        for seed in seeds:
            recorder.reset(seed=seed, options=options)
            for _ in range(steps):
                if any(recorder.step(recorder.action_space.sample())[2:4]):
                    break
    return path


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1", "Blackjack-v1", "Taxi-v4", "FrozenLake-v1"])
def test_built_in_environments_replay_to_the_bit(tmp_path, id):
    path = record(tmp_path / "t.jsonl", paddock.make(id), seeds=(3, 4, 5))
    again = replay(path, paddock.make(id), infos=True)
    assert again.same
    assert (again.episodes, again.steps) == (3, sum(len(e.steps) for e in TraceReader(path)))


def test_options_of_the_reset_are_given_again(tmp_path):
    path = record(tmp_path / "t.jsonl", paddock.make("CartPole-v1"), options={"low": -0.001, "high": 0.001})
    assert replay(path, paddock.make("CartPole-v1")).same


@dataclass
class Move:
    to: int
    where: Annotated[np.ndarray, Box(-1, 1, (2,))]
    picture: Annotated[np.ndarray, Box(0, 255, (5, 5), np.uint8)]


class World(paddock.Env):
    """Spaces of every kind; ``fault`` says what goes another way, from the third step on."""

    def __init__(self, fault=None):
        self.fault = fault
        self.observation_space = Dict(
            {
                "vector": Box(-9, 9, (3,)),
                "grid": Box(0, 255, (6, 6), np.uint8),
                "pair": Tuple([Discrete(9), Struct(Move)]),
            }
        )
        self.action_space = Struct(Move)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.got = 0, []
        return self._seen(), {"begun": True}

    def _seen(self):
        rng = self.np_random
        grid = rng.integers(0, 255, (6, 6)).astype(np.uint8)
        move = Move(1, np.zeros(2, np.float32), np.zeros((5, 5), np.uint8))
        found = {"vector": rng.random(3).astype(np.float32), "grid": grid, "pair": (self.count, move)}
        if self.count >= 3:
            if self.fault == "grid":
                grid[4, 2] ^= 1
            if self.fault == "vector":
                found["vector"][1] = np.nextafter(found["vector"][1], np.float32(9))
            if self.fault == "record":
                move.picture[0, 3] = 7
        return found

    def step(self, action):
        assert type(action) is Move
        self.count += 1
        late = self.count >= 3
        if late and self.fault == "raise":
            raise ValueError("no")
        reward = float(action.where[0]) + (
            1e-16 if late and self.fault == "tiny" else 1.0 if late and self.fault == "reward" else 0
        )
        info = {"n": self.count + (late and self.fault == "info")}
        return self._seen(), reward, self.count == (3 if self.fault == "end" else 5), late and self.fault == "cut", info


@pytest.fixture
def path(tmp_path):
    return record(tmp_path / "t.jsonl", World())


def test_records_arrive_as_records_of_the_environments_own_class(path):
    again = replay(path, World(), infos=True)
    assert (again.same, again.steps) == (True, 5)


@pytest.mark.parametrize(
    ("fault", "step", "field", "place"),
    [
        ("grid", 3, "observation", ".grid[4][2]"),
        ("vector", 3, "observation", ".vector[1]"),
        ("record", 3, "observation", ".pair[1].picture[0][3]"),
        ("reward", 3, "reward", ""),
        ("end", 3, "terminated", ""),
        ("cut", 3, "truncated", ""),
        ("info", 3, "info", ".n"),
        ("raise", 3, "error", ""),
    ],
)
def test_the_step_and_the_field_that_differ_are_named(path, fault, step, field, place):
    again = replay(path, World(fault), infos=True)
    found = again.difference
    assert (found.episode, found.step, found.field, found.place) == (0, step, field, place)
    assert (again.episodes, again.steps) == (0, 2)
    assert f"step {step}: {field}{place} was " in str(found)


def test_infos_count_only_if_asked_for(path):
    assert replay(path, World("info")).same


def test_another_seed_differs_at_the_reset(path):
    (episode,) = TraceReader(path)
    import dataclasses

    found = replay(dataclasses.replace(episode, seed=4), World()).difference
    assert (found.step, found.field) == (0, "observation")
    assert str(found).startswith("episode 0, the reset: observation")


def test_an_episode_without_a_seed_can_not_be_replayed(tmp_path):
    with Recorder(World(), tmp_path / "t.jsonl") as env:
        env.reset()
    with pytest.raises(InvalidTrace, match="began without a seed"):
        replay(tmp_path / "t.jsonl", World())


def test_an_episode_that_an_error_ended_is_replayed_up_to_there(tmp_path):
    with Recorder(World("raise"), tmp_path / "t.jsonl") as env:
        env.reset(seed=1)
        env.action_space.seed(1)
        with pytest.raises(ValueError, match="no"):
            for _ in range(5):
                env.step(env.action_space.sample())
    again = replay(tmp_path / "t.jsonl", World())
    assert (again.same, again.episodes, again.steps) == (True, 1, 2)


def test_an_environment_with_another_action_space_differs_in_words(path):
    found = replay(path, paddock.make("CartPole-v1")).difference
    assert found.field == "observation" or found.field == "error"


@pytest.mark.process
@pytest.mark.parametrize("isolation", ["process"])
def test_a_trace_from_here_replays_elsewhere(tmp_path, isolation):
    path = record(tmp_path / "t.jsonl", paddock.make("CartPole-v1"), seeds=(1, 2))
    with paddock.make("CartPole-v1", isolation=isolation) as env:
        assert replay(path, env).same


def test_replay_says_when_the_environment_has_another_digest(tmp_path):
    path = tmp_path / "t.jsonl"
    with Recorder(paddock.make("CartPole-v1"), path) as env:
        env.reset(seed=1)
        env.step(0)
    assert replay(path, paddock.make("CartPole-v1")).other_environment is None
    again = replay(path, paddock.make("CartPole-v1", max_episode_steps=9))
    assert again.same
    assert "Episode 0 was recorded from CartPole-v1 with digest " in again.other_environment
