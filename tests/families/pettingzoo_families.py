"""Run by test_pettingzoo.py where PettingZoo is: all agents, turns and one agent, with the numbers of its own games."""

import copy
import warnings
from urllib.parse import quote

import numpy as np
import pytest

import paddock
from paddock.errors import (
    CustomSpaceError,
    DependencyNotInstalled,
    MissingArgument,
    NameNotFound,
    PlanError,
    SnapshotUnsupported,
    WrongClass,
)
from paddock.sources import from_pettingzoo
from paddock.testing import check_env
from tests.families.playing import actions, equal, played, played_in_lanes, played_with_pauses, same_numbers
from tests.serving import serving

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pettingzoo import ParallelEnv
    from pettingzoo.butterfly import knights_archers_zombies_v11
    from pettingzoo.classic import connect_four_v3, rps_v2, tictactoe_v3

KNIGHTS = "butterfly/knights_archers_zombies_v11"

pytestmark = pytest.mark.filterwarnings("ignore:.*should be an int or np.int64", "ignore::DeprecationWarning")


class NativeParallel:
    """A Parallel environment, told as AllAgents tells it."""

    def __init__(self, env):
        self.env, self.seen = env, {}

    def reset(self, seed=None):
        self.seen, infos = self.env.reset(seed=seed)
        return self.seen, infos

    def step(self, action):
        taken = {agent: action[agent] for agent in self.env.agents}
        seen, rewards, ended, cut, infos = self.env.step(taken)
        self.seen = {**self.seen, **seen}
        over = not self.env.agents
        return self.seen, sum(rewards.values()), over and all(ended.values()), over and any(cut.values()), infos


def legal(info, random):
    return int(random.choice(np.flatnonzero(info["action_mask"])))


@pytest.mark.parametrize(
    ("id", "make", "kwargs"),
    [
        ("classic/rps_v2", rps_v2.parallel_env, {"max_cycles": 9}),
        (KNIGHTS, knights_archers_zombies_v11.parallel_env, {"max_cycles": 60}),
    ],
    ids=["rps", "knights"],
)
def test_all_agents_at_once_see_what_they_see_in_pettingzoo(id, make, kwargs):
    env = paddock.make(f"pettingzoo:{id}", **kwargs)
    chosen = actions(env.action_space, 80)
    results = played(env, 5, chosen)
    assert same_numbers(results, played(NativeParallel(make(**kwargs)), 5, chosen))
    assert env.observation_space.contains(results[-1][0])
    ends = [one for one in results if len(one) == 5 and (one[2] or one[3])]
    assert ends and not any(ends[0][4]["live"].values())
    assert ends[0][4]["rewards"].keys() == ends[0][4]["terminations"].keys()


class Vanishing(ParallelEnv):
    """Agents go one after the other: the first is beaten, the last is stopped."""

    metadata = {"name": "vanishing", "render_modes": []}
    possible_agents = ["a", "b", "c"]

    def __init__(self):
        from gymnasium.spaces import Box, Discrete

        self.spaces = Box(0, 9, (1,), np.float32), Discrete(2)

    def observation_space(self, agent):
        return self.spaces[0]

    def action_space(self, agent):
        return self.spaces[1]

    def reset(self, seed=None, options=None):
        self.agents, self.count, self.taken = list(self.possible_agents), 0, []
        return self._seen(), {agent: {"action_mask": np.array([1, 0], np.int8)} for agent in self.agents}

    def _seen(self):
        return {agent: np.array([self.count], np.float32) for agent in self.agents}

    def step(self, actions):
        self.count += 1
        self.taken.append(sorted(actions))
        gone = self.agents[0]
        last = len(self.agents) == 1
        ended, cut = ({agent: agent == gone and last is which for agent in self.agents} for which in (False, True))
        result = self._seen(), dict.fromkeys(self.agents, 1.5), ended, cut, {agent: {} for agent in self.agents}
        self.agents = self.agents[1:]
        return result


def test_who_is_out_keeps_the_last_observation_and_is_not_asked():
    native = Vanishing()
    env = from_pettingzoo(native)
    _, info = env.reset(seed=1)
    assert equal(info["action_mask"], {agent: [1, 0] for agent in "abc"})
    results = [env.step(dict.fromkeys("abc", 0)) for _ in range(3)]
    assert native.taken == [["a", "b", "c"], ["b", "c"], ["c"]]
    assert [{agent: seen[0] for agent, seen in one[0].items()} for one in results] == [
        {"a": 1, "b": 1, "c": 1},
        {"a": 1, "b": 2, "c": 2},
        {"a": 1, "b": 2, "c": 3},
    ]
    assert [one[1:4] for one in results] == [(4.5, False, False), (3.0, False, False), (1.5, False, True)]
    assert [one[4]["live"] for one in results] == [
        {"a": False, "b": True, "c": True},
        {"a": False, "b": False, "c": True},
        {"a": False, "b": False, "c": False},
    ]


@pytest.mark.parametrize("module", [tictactoe_v3, connect_four_v3], ids=["tictactoe", "connect_four"])
def test_turns_are_those_of_the_game(module):
    native = module.env()
    env = paddock.make(f"pettingzoo:classic/{module.__name__.rpartition('.')[2]}")
    for seed in range(3):
        random = np.random.default_rng(seed)
        seen, info = env.reset(seed=seed)
        native.reset(seed=seed)
        over = False
        for agent in native.agent_iter():
            expected, _, ended, cut, _ = native.last()
            if ended or cut:
                native.step(None)
                continue
            assert not over and info["agent"] == agent and equal(seen, expected)
            assert info["action_mask"] is seen["action_mask"]
            move = legal(info, random)
            native.step(move)
            seen, reward, terminated, truncated, info = env.step(move)
            over = terminated or truncated
            assert info["rewards"] == native.rewards and reward == native.rewards[agent]
        assert over and terminated
        with pytest.raises(paddock.errors.ResetNeeded):
            env.step(0)


@pytest.mark.parametrize("agent", ["player_1", "player_2"])
def test_one_agent_gets_all_that_happens_between_its_turns(agent):
    def lowest(seen, info):
        assert info["agent"] != agent
        return int(np.flatnonzero(info["action_mask"])[0])

    native, env = tictactoe_v3.env(), from_pettingzoo(tictactoe_v3.env(), agent=agent, opponents=lowest)
    rewards = set()
    for seed in range(12):
        random = np.random.default_rng(seed)
        seen, info = env.reset(seed=seed)
        native.reset(seed=seed)
        reward, over = 0.0, False
        for one in native.agent_iter():
            expected, got, ended, cut, _ = native.last()
            if one == agent:
                assert equal(seen, expected) and (got, ended or cut) == (reward, over)
                rewards.add(got)
            if ended or cut:
                native.step(None)
            elif one != agent:
                native.step(lowest(expected, {"agent": one, "action_mask": expected["action_mask"]}))
            else:
                move = legal(info, random)
                native.step(move)
                seen, reward, terminated, truncated, info = env.step(move)
                over = terminated or truncated
    assert {1, -1} <= rewards


def test_opponents_by_chance_are_the_same_for_the_same_seed():
    def game(seed):
        env = paddock.make("pettingzoo:classic/connect_four_v3", agent="player_1")
        env.action_space.seed(3)
        seen, info = env.reset(seed=seed)
        results = [seen]
        while len(results) < 40:
            seen, reward, terminated, truncated, info = env.step(env.action_space.sample(info["action_mask"]))
            results.append((seen, reward, terminated))
            if terminated or truncated:
                break
        return results

    assert equal(game(1), game(1))
    assert not equal(game(1), game(2))


def test_one_agent_of_a_parallel_game():
    env = from_pettingzoo(rps_v2.parallel_env(max_cycles=4), agent="player_1", opponents=lambda seen, info: 0)
    env.reset(seed=1)
    results = [env.step(action) for action in (1, 2, 0, 1)]  # paper, scissors, rock against rock
    assert [one[1] for one in results] == [1.0, -1.0, 0.0, 1.0]
    assert [one[2] or one[3] for one in results] == [False, False, False, True]


def test_names_forms_and_arguments():
    for name in ("classic/rps_v2", "classic/rps-v2", "pettingzoo.classic:rps_v2"):
        assert set(paddock.make(f"pettingzoo:{name}").action_space.spaces) == {"player_0", "player_1"}
    assert paddock.make("pettingzoo:classic/rps_v2", api="aec").action_space == paddock.spaces.Discrete(3)
    env = paddock.make("pettingzoo:classic/tictactoe_v3", agent="player_1", render_mode="rgb_array")
    assert env.reset(seed=1) and env.render().ndim == 3
    assert (env.spec.id, env.spec.kwargs["agent"]) == ("classic/tictactoe_v3", "player_1")
    assert paddock.make(env.spec).unwrapped.agent == "player_1"
    with pytest.raises(PlanError, match="has no api='parallel'. It has aec."):
        paddock.make("pettingzoo:classic/tictactoe_v3", api="parallel")
    with pytest.raises(NameNotFound, match="no module pettingzoo.classic.tictactoe_v9"):
        paddock.make("pettingzoo:classic/tictactoe_v9")
    with pytest.raises(DependencyNotInstalled, match=r"rlcard.*pip install 'pettingzoo\[classic\]'"):
        paddock.make("pettingzoo:classic/leduc_holdem_v4")
    with pytest.raises(MissingArgument, match="player_1, player_2"):
        paddock.make("pettingzoo:classic/tictactoe_v3", agent="me")
    with pytest.raises(MissingArgument, match="Name it"):
        from_pettingzoo(tictactoe_v3.env(), opponents=lambda seen, info: 0)
    with pytest.raises(WrongClass, match="got int"):
        from_pettingzoo(3)


def test_agents_with_different_spaces_do_not_take_turns():
    env = tictactoe_v3.raw_env()
    env.observation_space = lambda agent: (
        rps_v2.raw_env().observation_space("player_0") if agent == "player_1" else _SEEN
    )
    with pytest.raises(CustomSpaceError, match="agent=, one of player_1, player_2"):
        from_pettingzoo(env)


_SEEN = tictactoe_v3.raw_env().observation_space("player_1")


def test_copies_go_on_from_where_they_are_and_snapshots_say_no():
    env = paddock.make("pettingzoo:classic/connect_four_v3")
    env.reset(seed=1)
    env.step(3)
    other = copy.deepcopy(env)
    assert equal([env.step(move) for move in (3, 2, 5)], [other.step(move) for move in (3, 2, 5)])
    with pytest.raises(SnapshotUnsupported, match="connect_four_v3 can't save its state"):
        env.snapshot()


@pytest.mark.parametrize("kwargs", [{}, {"agent": "player_1"}, {"api": "aec"}], ids=["all", "one", "turns"])
def test_the_checker_passes(kwargs):
    check_env(paddock.make("pettingzoo:classic/rps_v2", **kwargs), skip_render_check=True)


@pytest.mark.parametrize("kind", ["loop", "process", "sandbox"])
def test_lanes_are_single_environments(kind):
    with paddock.make(
        f"pettingzoo:{KNIGHTS}", num_envs=2, isolation=None if kind == "loop" else kind, max_cycles=7
    ) as lanes:
        chosen = actions(lanes.single_action_space, 12)
        for lane, results in enumerate(played_in_lanes(lanes, 5, chosen)):
            native = NativeParallel(knights_archers_zombies_v11.parallel_env(max_cycles=7))
            assert same_numbers(results, played_with_pauses(native, 5 + lane, chosen))


def test_one_agent_behind_a_wall_is_the_same():
    here = paddock.make("pettingzoo:classic/connect_four_v3", agent="player_0")
    with paddock.make("pettingzoo:classic/connect_four_v3", agent="player_0", isolation="sandbox") as walled:
        one, other = (env.reset(seed=4) for env in (here, walled))
        for move in (0, 1, 2):
            assert equal(one[0], other[0]) and equal(one[-1]["action_mask"], other[-1]["action_mask"])
            one, other = here.step(move), walled.step(move)


def test_a_server_has_them_too(tmp_path):
    with serving("pettingzoo:classic/tictactoe_v3", "pettingzoo:classic/rps_v2", cwd=tmp_path) as server:
        first, second = (server.with_token(f"/{quote(id, safe='')}") for id in server.environments)
        with paddock.make(first) as env:
            _, info = env.reset(seed=1)
            assert info["agent"] == "player_1"
            results = [env.step(move) for move in (0, 3, 1, 4, 2)]
            assert [one[1:3] for one in results] == [(0.0, False)] * 4 + [(1.0, True)]
        with paddock.make(second) as env:
            env.reset(seed=1)
            assert env.step({"player_0": 0, "player_1": 1})[4]["rewards"] == {"player_0": -1, "player_1": 1}
