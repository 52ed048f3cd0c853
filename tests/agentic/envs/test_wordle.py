"""Wordle: marks as in the game, letters spent once, six guesses, no word in two splits."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paddock
from paddock.agentic import CallTool, Say
from paddock.agentic.envs.wordle import ALSO_ALLOWED, ANSWERS, GUESSES, Wordle, answers_of, format_marks, mark_guess
from paddock.testing import check_env

WORDS = st.text("abc", min_size=5, max_size=5)


@pytest.mark.parametrize(
    ("guess", "answer", "expected"),
    [
        ("crane", "crane", "GGGGG"),
        ("stone", "crane", "---GG"),
        ("nacre", "crane", "YYYYG"),
        ("geese", "crane", "----G"),  # the green E at the end takes the only one
        ("geese", "elder", "-YY--"),  # two E in the answer, elsewhere: two of the three are yellow
        ("speed", "abide", "--Y-Y"),  # one E in the answer: the first E of the guess takes it
        ("llama", "label", "GYY--"),
        ("allow", "label", "YYY--"),
        ("eerie", "there", "Y-Y-G"),
        ("mamma", "maple", "GG---"),
    ],
)
def test_marks_of_known_games(guess, answer, expected):
    assert format_marks(mark_guess(guess, answer)) == expected


@given(WORDS, WORDS)
def test_a_letter_is_marked_as_often_as_the_answer_has_it(guess, answer):
    found = mark_guess(guess, answer)
    coloured = Counter(letter for letter, mark in zip(guess, found, strict=True) if mark != "grey")
    assert coloured == Counter(guess) & Counter(answer)
    assert all((mark == "green") == (one == other) for mark, one, other in zip(found, guess, answer, strict=True))


@given(WORDS, WORDS)
def test_yellows_are_given_from_the_left(guess, answer):
    found = mark_guess(guess, answer)
    for letter in set(guess):
        not_green = [mark for one, mark in zip(guess, found, strict=True) if one == letter and mark != "green"]
        assert not_green == sorted(not_green, reverse=True), "yellow stands before grey"


def test_the_words_are_words_of_five_letters_and_in_one_list():
    words = [*ANSWERS, *ALSO_ALLOWED]
    assert len(words) == len(set(words))
    assert all(len(word) == 5 and word.isascii() and word.islower() and word.isalpha() for word in words)
    assert len(ANSWERS) >= 500


def test_no_answer_is_in_two_splits():
    splits = [answers_of(split) for split in ("train", "validation", "test")]
    assert sorted(word for split in splits for word in split) == sorted(ANSWERS)


@pytest.fixture
def game():
    with paddock.make("paddock/Wordle") as env:
        env.reset(options={"split": "test", "index": 7})
        yield env, env.unwrapped.task.hidden["answer"]


def test_the_word_ends_the_game_with_a_reward_for_being_quick(game):
    env, answer = game
    other = next(word for word in ANSWERS if word != answer)
    _, reward, terminated, _, info = env.step(CallTool("guess", {"word": other}))
    assert (reward, terminated, info["guesses"]) == (0.0, False, 1)
    observation, reward, terminated, truncated, info = env.step(CallTool("guess", {"word": f" {answer.upper()}"}))
    assert reward == pytest.approx(0.8 + 0.2 * 5 / 6)
    assert (terminated, truncated, info["solved"]) == (True, False, True)
    assert observation.result.splitlines()[-2:] == [f"{answer.upper()} GGGGG", "Solved in 2."]
    assert info["rubric"]["parts"]["solved"] == 1.0


def test_six_wrong_guesses_end_the_game_without_reward(game):
    env, answer = game
    wrong = [word for word in ANSWERS if word != answer][:GUESSES]
    for at, word in enumerate(wrong, 1):
        observation, reward, terminated, _, _ = env.step(Say(f"I think that it is [{word}]."))
        assert (reward, terminated) == (0.0, at == GUESSES)
    assert observation.content[0].text.endswith(f"The word was {answer.upper()}.")


@pytest.mark.parametrize(
    "action", [CallTool("guess", {"word": "zzzzz"}), CallTool("guess", {"word": ""}), Say("Hm."), Say("")]
)
def test_what_is_no_word_is_an_error_that_costs_no_guess(game, action):
    env, answer = game
    observation, reward, terminated, _, _ = env.step(action)
    assert (reward, terminated) == (0.0, False)
    assert observation.error is not None
    assert env.step(Say(answer))[4]["guesses"] == 1


def test_the_secret_is_in_nothing_that_is_told():
    with paddock.make("paddock/Wordle") as env:
        observation, info = env.reset(options={"split": "train", "index": 3})
        answer = env.unwrapped.task.hidden["answer"]
        assert answer not in repr(observation) + repr(info) + repr(env.metadata) + repr(paddock.state(env))
        assert answer not in repr(env.get_wrapper_attr("task")("get_task", "train", 3))


def test_the_seed_chooses_the_word():
    def answers(seed):
        with paddock.make("paddock/Wordle") as env:
            env.reset(seed=seed)
            found = [env.unwrapped.task.hidden["answer"]]
            for _ in range(3):
                env.reset()
                found.append(env.unwrapped.task.hidden["answer"])
            return found

    assert answers(1) == answers(1)
    assert answers(1) != answers(2)


def test_wordle_passes_the_checker():
    check_env(Wordle())
