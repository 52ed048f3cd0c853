"""Rollouts: which tasks, in which order, with which seeds; what a policy sees and may answer."""

import asyncio
import contextlib
import functools
import inspect
import json
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import paddock
from paddock.agentic import CallTool, ListTools, Observation, Say, rollout
from paddock.errors import InvalidTask, PlanError
from paddock.record.trace import TraceReader, replay
from tests.agentic.rollout_envs import Guess, Parlour, Watched
from tests.case_names import case_name
from tests.serving import serving


def at_random(turn):
    return CallTool("guess", {"number": int(turn.np_random.integers(1, 11))})


def by_halves(turn):
    """Always finds it."""
    low, high = 1, 10
    for message, answer in zip(turn.messages[1::2], turn.messages[2::2], strict=True):
        number = json.loads(message["tool_calls"][0]["function"]["arguments"])["number"]
        low, high = (number + 1, high) if answer["content"] == "Higher." else (low, number - 1)
    return CallTool("guess", {"number": (low + high) // 2})


@pytest.mark.parametrize(
    ("tasks", "places"),
    [
        ("test", [("test", 0), ("test", 1), ("test", 2)]),
        (3, [("train", 0), ("train", 1), ("train", 2)]),
        ([4, 2], [("train", 4), ("train", 2)]),
        ([("test", 2), ("train", 9), ("test", 2)], [("test", 2), ("train", 9), ("test", 2)]),
        ([{"split": "test", "index": 1}, {"index": np.int64(3)}], [("test", 1), ("train", 3)]),
        (range(2), [("train", 0), ("train", 1)]),
        ([], []),
        (0, []),
    ],
    ids=case_name,
)
def test_tasks_are_named_in_many_ways_and_results_keep_their_order(tasks, places):
    done = rollout(Guess, by_halves, tasks, concurrency=3)
    assert [(one.task["split"], one.task["index"]) for one in done] == places
    assert all(one.total_return == 1.0 and one.error is None for one in done)


def test_none_is_all_of_the_first_split():
    assert [one.name for one in rollout(Parlour, lambda turn: "Tea, please.")] == ["train[0]"]


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (None, "endless"),
        ("train", "endless"),
        ("nope", "no split 'nope'"),
        ([("test", 3)], "no task 3"),
        ([-1], "no task -1"),
        (["test"], "does not name a task"),
        ([{"seed": 3}], "no 'index'"),
        ([paddock.agentic.Task()], "has no place in a split"),
        ({"split": "test"}, "expected the name of a split"),
        (1.5, "expected the name of a split"),
        (-1, "a count of 0"),
    ],
    ids=case_name,
)
def test_tasks_that_are_none_are_a_mistake_of_the_caller(tasks, said):
    with pytest.raises(InvalidTask, match=said):
        rollout(Guess, by_halves, tasks)


def test_more_tasks_than_a_split_has_is_a_mistake():
    with pytest.raises(InvalidTask, match="has 1. Use attempts="):
        rollout(Parlour, by_halves, 2)


def test_an_environment_without_tasks_is_given_seeds():
    def left(turn):
        return 0

    env = paddock.make("CartPole-v1")
    lengths = []
    for seed in (5, 6, 9):
        env.reset(seed=seed)
        lengths.append(next(n for n in range(1, 99) if env.step(0)[2]))
    assert [one.steps for one in rollout("CartPole-v1", left, [5, 6, 9])] == lengths
    assert [one.steps for one in rollout("CartPole-v1", left, 2, seed=5)] == lengths[:2]
    assert [one.seed for one in rollout("CartPole-v1", left)] == [0]
    assert [one.steps for one in rollout("CartPole-v1", left, [{"seed": 9, "options": {"low": -0.05}}])] == lengths[2:]
    with pytest.raises(InvalidTask, match="has no tasks"):
        rollout("CartPole-v1", left, "train")


@pytest.mark.parametrize("concurrency", [1, 2, 7])
def test_the_same_seed_gives_the_same_rollouts_at_any_concurrency(concurrency):
    def played(n):
        done = rollout(Guess, at_random, [("test", 1), ("test", 2), *range(6)], attempts=3, max_turns=6, concurrency=n)
        return [(one.name, one.attempt, one.seed, one.rewards, one.messages) for one in done]

    assert played(concurrency) == played(3)


def test_a_task_has_its_own_seed_in_any_list_and_attempt():
    one = rollout(Guess, by_halves, "test", attempts=2)
    other = rollout(Guess, by_halves, [("test", 2), ("test", 0)])
    assert [r.seed for r in one][:2] == [7, 7]
    assert (one[4].seed, one[5].seed) == (other[0].seed, other[0].seed)
    assert other[1].seed == 7
    assert rollout(Guess, by_halves, [("test", 2)], seed=1)[0].seed != other[0].seed


def test_attempts_at_a_task_differ_in_the_policys_chance_alone():
    done = rollout(Guess, at_random, 1, attempts=8, max_turns=3)
    assert len({json.dumps(one.messages) for one in done}) > 1
    assert [one.attempt for one in done] == list(range(8))


def test_sampling_the_action_space_repeats_too():
    def sampled(turn):
        return turn.action_space.sample()

    first = [one.steps for one in rollout("CartPole-v1", sampled, 6, concurrency=1)]
    assert [one.steps for one in rollout("CartPole-v1", sampled, 6, concurrency=4)] == first
    assert len(set(first)) > 1


def test_what_a_policy_sees():
    seen = []

    def policy(turn):
        seen.append(turn)
        return CallTool("guess", {"number": turn.number + 1})

    (done,) = rollout(Guess, policy, [("test", 0)], concurrency=1)
    first, second = seen[:2]
    assert isinstance(first.observation, Observation) and first.observation.tools[0].name == "guess"
    assert first.messages == [{"role": "user", "content": "Guess."}]
    assert [tool["function"]["name"] for tool in first.tools] == ["guess", "fall", "hang"]
    assert first.tools[0]["function"]["parameters"]["properties"]["number"]["type"] == "integer"
    assert (first.number, first.step, first.reward, first.attempt) == (0, 0, None, 0)
    assert first.task == {"split": "test", "index": 0, "seed": 7, "prompt": "Guess.", "metadata": {}}
    assert (second.number, second.step, second.reward) == (1, 1, 0.0)
    assert second.observation.tool_name == "guess"
    assert done.turns == len(seen) == done.steps


def test_a_message_with_several_calls_is_several_steps_in_order():
    def policy(turn):
        calls = [
            {"id": f"c{n}", "type": "function", "function": {"name": "guess", "arguments": json.dumps({"number": n})}}
            for n in range(1, 11)
        ]
        return {"role": "assistant", "content": "All of them.", "tool_calls": calls}

    (done,) = rollout(Guess, policy, [("train", 1)])
    secret = done.steps
    assert 1 < secret < 10
    assert (done.turns, done.total_return) == (1, 1.0)
    tools = [message for message in done.messages if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in tools] == [f"c{n}" for n in range(1, 11)]
    assert tools[secret - 1]["content"] == "Right!"
    assert {message["content"] for message in tools[secret:]} == {"The episode is over."}


def test_calls_that_are_none_are_told_to_the_model_and_are_no_steps():
    def policy(turn):
        if turn.number == 0:
            functions = [{"name": "guess", "arguments": "{not json"}, {"name": "", "arguments": "{}"}]
            return {"tool_calls": [{"id": str(i), "function": f} for i, f in enumerate(functions)]}
        if turn.number == 1:
            return {"tool_calls": [{"id": "2", "function": {"name": "guess", "arguments": {"number": "x"}}}]}
        return by_halves(SimpleNamespace(messages=turn.messages[6:] and turn.messages[5:]))

    (done,) = rollout(Guess, policy, [("test", 0)])
    told = [message["content"] for message in done.messages if message["role"] == "tool"]
    assert "are not JSON" in told[0] and "name a tool" in told[1] and "expected int" in told[2]
    assert done.total_return == 1.0
    assert done.steps == done.turns - 1


@pytest.mark.parametrize(
    "answer",
    [
        "Tea, please.",
        Say("Tea, please."),
        {"type": "say", "text": "Tea, please."},
        {"role": "assistant", "content": "Tea, please."},
        SimpleNamespace(content="Tea, please.", tool_calls=None),
    ],
    ids=case_name,
)
def test_words_are_said(answer):
    (done,) = rollout(Parlour, lambda turn: answer)
    assert (done.total_return, done.steps) == (1.0, 1)
    assert done.messages[-1] == {"role": "assistant", "content": "Tea, please."}


def test_what_an_environment_answers_is_the_users_part():
    done = rollout(Parlour, lambda turn: "Tea!" if turn.number == 0 else "Tea, please!")
    assert done[0].messages == [
        {"role": "user", "content": "Ask for tea."},
        {"role": "assistant", "content": "Tea!"},
        {"role": "user", "content": "What do you say?"},
        {"role": "assistant", "content": "Tea, please!"},
    ]


def test_a_list_of_actions_is_carried_out_in_order():
    (done,) = rollout(Parlour, lambda turn: [ListTools(), Say("Tea"), Say("Tea, please")])
    assert (done.turns, done.steps, done.total_return) == (1, 3, 1.0)


def test_turns_that_are_used_up_end_a_rollout_without_an_error():
    (done,) = rollout(Guess, lambda turn: CallTool("guess", {"number": 99}), 1, max_turns=4)
    assert (done.turns, done.steps, done.ended, done.error, done.total_return) == (4, 4, "turns", None, 0.0)


def test_async_policies_share_one_loop_and_overlap():
    loops, inside, most = set(), 0, 0
    meeting = None

    async def policy(turn):
        nonlocal inside, most, meeting
        loops.add(asyncio.get_running_loop())
        meeting = meeting or asyncio.Event()
        inside += 1
        most = max(most, inside)
        if inside == 4:
            meeting.set()
        await meeting.wait()
        inside -= 1
        return "Tea, please."

    done = rollout(Parlour, policy, attempts=4, concurrency=4)
    assert [one.total_return for one in done] == [1.0] * 4
    assert (len(loops), most) == (1, 4)
    assert loops.pop().is_closed()


def test_a_printed_turn_has_what_a_policy_looks_at():
    printed = []
    rollout("CartPole-v1", lambda turn: printed.append(repr(turn)) or 0, tasks=1, max_turns=1, progress=False)
    assert printed[0].startswith("Turn(observation=array(")
    assert printed[0].endswith("reward=None, attempt=0)")


def test_a_policy_may_be_an_object_that_returns_awaitables():
    class Client:
        def __call__(self, turn):
            async def later():
                return "Tea, please."

            return later()

    assert rollout(Parlour, Client())[0].total_return == 1.0


def test_one_environment_for_each_thread_is_used_again_and_closed():
    Watched.begin_anew()
    done = rollout(Watched, lambda turn: 0, 40, concurrency=4)
    assert [one.total_return for one in done] == [6.0] * 40
    assert 1 <= len(Watched.made) <= 4
    assert Watched.open == []
    assert {len(threads) for threads in Watched.threads.values()} == {1}
    assert threading.get_ident() not in {thread for threads in Watched.threads.values() for thread in threads}


def test_an_environment_of_the_callers_own_is_played_one_by_one_and_left_open():
    Watched.begin_anew()
    env = Watched()
    done = rollout(env, lambda turn: 0, 5)
    assert [one.steps for one in done] == [3] * 5
    assert Watched.made == Watched.open == [env]
    with pytest.raises(PlanError, match="one rollout at a time"):
        rollout(env, lambda turn: 0, 5, concurrency=2)


def test_make_env_takes_the_place_of_make():
    targets = []

    def make(target):
        targets.append(target)
        return Watched()

    Watched.begin_anew()
    rollout("any/name", lambda turn: 0, 2, concurrency=1, make_env=make)
    assert targets == ["any/name"]
    assert Watched.open == []


def test_specs_are_targets():
    spec = paddock.spec("CartPole-v1")
    assert rollout(spec, lambda turn: 0, 1)[0].steps == rollout("CartPole-v1", lambda turn: 0, 1)[0].steps


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 0}, "concurrency=0"),
        ({"concurrency": 2.0}, "concurrency=2.0"),
        ({"attempts": 0}, "attempts=0"),
        ({"max_turns": -1}, "max_turns=-1"),
        ({"timeout_s": 0}, "timeout_s=0"),
        ({"timeout_s": "5"}, "timeout_s='5'"),
        ({"policy": None}, "a function that takes a turn"),
        ({"env_or_id": 5}, "int is not an environment"),
        ({"env_or_id": lambda: 5}, "returned an int"),
    ],
    ids=case_name,
)
def test_mistakes_are_told_before_anything_is_played(options, said):
    with pytest.raises(PlanError, match=said):
        rollout(**{"env_or_id": Guess, "policy": by_halves, "tasks": 1, **options})


def test_an_unknown_id_is_raised_not_kept():
    with pytest.raises(paddock.errors.NameNotFound):
        rollout("Cartpol-v1", lambda turn: 0, 3)


def test_a_trace_has_every_rollout_and_replays(tmp_path):
    done = rollout(Guess, at_random, "test", attempts=2, max_turns=5, trace=tmp_path / "t.jsonl", concurrency=3)
    episodes = sorted(TraceReader(tmp_path / "t.jsonl"), key=lambda episode: episode.number)
    assert [e.number for e in episodes] == list(range(6))
    assert [e.total_return for e in episodes] == [one.total_return for one in done]
    assert [(e.task["split"], e.task["index"]) for e in episodes] == [(r.task["split"], r.task["index"]) for r in done]
    assert [e.about["attempt"] for e in episodes] == [0, 1] * 3
    assert all(e.options == {"split": "test", "index": e.task["index"]} for e in episodes)
    assert replay(episodes, Guess(), infos=True).same


def test_a_trace_that_is_there_is_refused_before_anything_is_played(tmp_path):
    (tmp_path / "t.jsonl").write_text("")
    with pytest.raises(FileExistsError, match=r"Name another, or remove it\.$"):  # rollout has no overwrite=
        rollout(lambda: pytest.fail("made"), at_random, 1, trace=tmp_path / "t.jsonl")


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("CartPole-v1", "CartPole-v1"),
        ("https://user:token@host:8000/Maze-v0?x=1", "https://host:8000/Maze-v0"),
        ("/home/me/secret-client/maze", "maze"),
    ],
)
def test_a_trace_names_the_target_without_secrets(tmp_path, target, name):
    rollout(target, lambda turn: 0, 1, make_env=lambda target: Watched(), trace=tmp_path / "t.jsonl")
    (episode,) = TraceReader(tmp_path / "t.jsonl")
    assert episode.env == name


FOLDER = """
[package]
name = "guess"
version = "0.1.0"

[[env]]
id = "me/Guess-v0"
entry = "guess:Guess"
"""


def guess_folder(path):
    """``Guess`` as a package of its own: a folder that runs behind the wall."""
    path.mkdir()
    (path / "paddock.toml").write_text(FOLDER)
    source = inspect.getsource(Guess)
    (path / "guess.py").write_text(f"from paddock.agentic import Task, Tasks, ToolEnv, tool\n\n\n{source}")
    return path


@pytest.mark.process
@pytest.mark.parametrize("distance", ["process", "sandbox", "server"])
def test_the_same_rollouts_at_every_distance(tmp_path, fresh_registry, distance):
    paddock.register("me/Guess-v0", "tests.agentic.rollout_envs:Guess")
    here = rollout("me/Guess-v0", at_random, "test", attempts=2, max_turns=4, concurrency=1)
    with contextlib.ExitStack() as stack:
        target, make = "me/Guess-v0", functools.partial(paddock.make, isolation="process")
        if distance != "process":
            target, make = guess_folder(tmp_path / "guess"), None
        if distance == "server":
            target = stack.enter_context(serving(target)).with_token()
        trace = tmp_path / "t.jsonl"
        far = rollout(target, at_random, "test", attempts=2, max_turns=4, concurrency=2, make_env=make, trace=trace)
        with pytest.raises(InvalidTask, match="endless"):
            rollout(target, at_random, "train", make_env=make)
    assert [one.error for one in far] == [None] * 6
    assert [(one.rewards, one.messages, one.seed) for one in far] == [(r.rewards, r.messages, r.seed) for r in here]
    assert "$outside" not in trace.read_text()
    assert replay(trace, Guess()).same
