"""State: what an environment answers about its episode, beside environments that keep a `state` of their own."""

import copy
import pickle

import pytest

import paddock
from paddock import State
from paddock.errors import InvalidState
from paddock.wrappers import Guard
from tests.toys import Counter, Walker


def test_state_counts_steps_and_names_the_episode():
    env = Guard(Counter())
    assert env.state() == State(None, 0)
    env.reset()
    env.step(0), env.step(0)
    state = paddock.state(env)
    assert state.step_count == 2
    assert state.episode_id == env.state().episode_id
    assert state.public == {}


def test_each_episode_has_a_name_of_its_own():
    env = Guard(Counter())
    names = set()
    for _ in range(5):
        env.reset()
        names.add(env.state().episode_id)
    assert len(names) == 5


def test_state_works_on_an_environment_that_did_not_come_from_make():
    assert paddock.state(Counter()) == State(None, None)
    assert paddock.state(Walker()).score == 0


def test_only_what_the_environment_publishes_is_shown():
    env = paddock.Wrapper(Guard(Walker()))
    env.reset()
    env.step(0)
    state = env.state()
    assert (state.score, state.public) == (1, {"score": 1})
    with pytest.raises(AttributeError, match="published 'score'"):
        _ = state.secret


def test_a_published_object_reads_as_attributes_too():
    class Typed(Counter):
        def public_state(self):
            return paddock.EnvSpec("Shown-v3")

    assert paddock.state(Typed()).version == 3


def test_what_is_published_must_be_in_the_state_space():
    class Lying(Walker):
        def public_state(self):
            return {"score": -1}

    with pytest.raises(InvalidState, match=r"Lying.public_state\(\) returned"):
        paddock.state(Lying())


def test_the_attribute_state_still_means_the_environments_own():
    env = paddock.Wrapper(Guard(Walker()))
    assert env.get_wrapper_attr("state") == (0.0, 1.0)
    assert env.has_wrapper_attr("state")
    assert env.set_wrapper_attr("state", (5.0, 6.0))
    assert env.unwrapped.state == (5.0, 6.0)
    assert isinstance(env.state(), State)


def test_an_environment_without_its_own_state_has_no_attribute_state():
    env = paddock.Wrapper(Guard(Counter()))
    assert not env.has_wrapper_attr("state")
    with pytest.raises(AttributeError):
        env.get_wrapper_attr("state")
    assert env.set_wrapper_attr("state", 3, force=False) is False
    env.set_wrapper_attr("state", 3)
    assert env.unwrapped.state == 3


def test_a_wrapper_that_assigns_state_owns_it():
    class Mine(paddock.Wrapper):
        def __init__(self, env):
            super().__init__(env)
            self.state = "mine"

    env = Mine(Guard(Walker()))
    assert env.get_wrapper_attr("state") == "mine"
    assert paddock.state(env).score == 0


def test_lanes_answer_one_state_each():
    lanes = paddock.make_vec("CartPole-v1", num_envs=3)
    lanes.reset(seed=0)
    assert [state.step_count for state in lanes.state()] == [0, 0, 0]


def test_a_state_survives_copy_and_pickle():
    state = State("e", 3, {"score": 1})
    assert copy.deepcopy(state) == pickle.loads(pickle.dumps(state)) == state
