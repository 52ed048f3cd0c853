"""Echo: the nearer to the word, the more reward, so that there is something to learn from the first step on."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paddock
from paddock.agentic import CallTool, Say
from paddock.agentic.envs.echo import Echo
from paddock.errors import InvalidSpec
from paddock.testing import check_env


def reward_of(text, index=30, **options):
    with paddock.make("paddock/Echo", **options) as env:
        _, info = env.reset(options={"split": "train", "index": index})
        word = info["task"]["metadata"]["word"]
        return env.step(CallTool("echo_message", {"message": text.format(word=word)}))


def test_the_word_itself_is_worth_1_and_ends_the_episode():
    observation, reward, terminated, truncated, _ = reward_of("{word}")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert observation.result in observation.content[0].text


def test_the_nearer_the_more():
    rewards = [reward_of(text)[1] for text in ("%%%", "{word}%%%%%%", "{word}%", "{word}")]
    assert rewards[0] == 0.0
    assert rewards == sorted(set(rewards))


ECHO = Echo()


@given(st.text(max_size=3000))
def test_only_the_word_itself_is_worth_1(text):
    _, info = ECHO.reset(options={"index": 30})
    reward = ECHO.step(Say(text))[1]
    assert 0.0 <= reward <= 1.0
    assert (reward == 1.0) == (text == info["task"]["metadata"]["word"])


def test_saying_it_counts_as_much_as_the_tool():
    with paddock.make("paddock/Echo") as env:
        _, info = env.reset(seed=3)
        observation, reward, terminated, _, _ = env.step(Say(info["task"]["metadata"]["word"]))
    assert (reward, terminated) == (1.0, True)
    assert observation.content[0].text == info["task"]["metadata"]["word"]


def test_the_other_tool_tells_the_length():
    with paddock.make("paddock/Echo") as env:
        env.reset(seed=3)
        observation = env.step(CallTool("echo_with_length", {"message": "abc"}))[0]
    assert observation.result == {"message": "abc", "length": 3}


def test_several_turns_share_the_reward():
    with paddock.make("paddock/Echo", turns=4) as env:
        _, info = env.reset(seed=3)
        word = info["task"]["metadata"]["word"]
        steps = [env.step(CallTool("echo_message", {"message": word})) for _ in range(4)]
    assert sum(step[1] for step in steps) == pytest.approx(1.0)
    assert [step[2] for step in steps] == [False, False, False, True]


def test_a_refused_call_is_neither_a_turn_nor_a_reward():
    with paddock.make("paddock/Echo") as env:
        env.reset(seed=3)
        observation, reward, terminated, _, _ = env.step(CallTool("echo_message", {}))
        assert (observation.error.error_type, reward, terminated) == ("invalid_args", 0.0, False)


@pytest.mark.parametrize("turns", [0, -1, True, 1.5, "2"])
def test_turns_are_a_count(turns):
    with pytest.raises(InvalidSpec, match="turns"):
        Echo(turns)


def test_a_policy_that_climbs_the_reward_learns():
    """Letter by letter, keeping what is not worse: what a trainer does, in little."""
    rng, letters = random.Random(0), "abcdefghijklmnopqrstuvwxyz"
    with paddock.make("paddock/Echo") as env:
        best, text = -1.0, "".join(rng.choice(letters) for _ in range(5))
        rewards = []
        for _ in range(1500):
            env.reset(options={"split": "train", "index": 28})
            at = rng.randrange(5)
            tried = text[:at] + rng.choice(letters) + text[at + 1 :]
            reward = env.step(Say(tried))[1]
            if reward >= best:
                best, text = reward, tried
            rewards.append(reward)
    assert sum(rewards[-100:]) > sum(rewards[:100]) + 50
    assert best == 1.0


def test_no_word_is_in_two_splits():
    rows = {split: Echo.tasks.rows(split) for split in Echo.tasks.names}
    words = [row["metadata"]["word"] for split in rows.values() for row in split]
    assert len(words) == len(set(words))


def test_echo_passes_the_checker():
    check_env(Echo())
