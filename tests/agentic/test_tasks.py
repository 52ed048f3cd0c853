"""Tasks: splits, rows, and OpenEnv's Task API over them."""

import numpy as np
import pytest

from paddock.agentic import Message, Task, Tasks, Text
from paddock.agentic.tasks import MAX_ROWS, answer
from paddock.errors import InvalidTask

TASKS = Tasks(
    train=lambda i: Task(seed=i, prompt=f"Do {i}.", hidden={"answer": i}),
    test=["One.", {"prompt": "Two.", "metadata": {"hard": True}}, Task(prompt=[Message("user", [Text("Three.")])])],
    spare=[Task()],
)


def test_rows_may_be_prompts_dicts_or_tasks():
    assert [TASKS.get("test", i).prompt for i in range(2)] == ["One.", "Two."]
    assert TASKS.get("test", 1).metadata == {"hard": True}
    assert TASKS.get("train", 10**6) == Task(seed=10**6, prompt="Do 1000000.", hidden={"answer": 10**6})


@pytest.mark.parametrize(
    ("split", "index", "words"),
    [
        ("nope", 0, "no split 'nope', expected one of 'train', 'test', 'spare'"),
        (None, 0, "no split None"),
        (["test"], 0, "no split a list"),
        ("test", 3, "no task 3 in the split 'test', expected 0 to 2"),
        ("test", -1, "no task -1"),
        ("test", True, "no task True"),
        ("train", "x", "no task 'x' in the split 'train', expected 0 or more"),
        ("train", -1, "no task -1"),
    ],
)
def test_what_is_not_there_is_told(split, index, words):
    with pytest.raises(InvalidTask, match=words):
        TASKS.get(split, index)


@pytest.mark.parametrize("splits", [{}, {"train": []}, {"train": "text"}, {"train": 3}, {"train": iter([])}])
def test_splits_that_are_none_are_refused(splits):
    with pytest.raises(InvalidTask, match="split"):
        Tasks(**splits)


@pytest.mark.parametrize("row", [3, {"promt": "Do."}, None, {"prompt": 3}])
def test_rows_that_are_none_are_refused_with_their_place(row):
    with pytest.raises(InvalidTask, match="task 0 of 'train'"):
        Tasks(train=[row]).get("train", 0)


def test_drawn_indices_are_tasks():
    random = np.random.default_rng(1)
    assert {TASKS.draw("test", random) for _ in range(50)} == {0, 1, 2}
    assert len({TASKS.draw("train", random) for _ in range(50)}) > 45


def test_the_task_api():
    assert answer(TASKS, "list_splits") == [
        {"name": "train", "type": "train"},
        {"name": "test", "type": "test"},
        {"name": "spare", "type": "validation"},
    ]
    assert answer(TASKS, "num_tasks", "test") == 3
    assert answer(TASKS, "list_tasks", "test")[1] == {"prompt": "Two.", "seed": None, "metadata": {"hard": True}}
    assert answer(TASKS, "get_task", "train", 2) == {"prompt": "Do 2.", "seed": 2, "metadata": {}}
    assert [row["seed"] for row in answer(TASKS, "get_task_range", "train", 2, 5)] == [2, 3, 4]
    assert [row["seed"] for row in answer(TASKS, "get_task_range", "train", None, 2)] == [0, 1]
    assert [row["prompt"] for row in answer(TASKS, "get_task_range", "test", -2, None)] == [
        "Two.",
        [{"role": "user", "content": [{"type": "text", "text": "Three."}]}],
    ]


@pytest.mark.parametrize("method", ["list_tasks", "num_tasks"])
def test_endlessly_many_have_no_list_and_no_count(method):
    with pytest.raises(NotImplementedError, match=f"^{method} is not supported for this environment"):
        answer(TASKS, method, "train")


@pytest.mark.parametrize(
    "call",
    [
        ("get_task", "test", 9),
        ("get_task_range", "train"),
        ("get_task_range", "train", 0, MAX_ROWS + 1),
        ("get_task_range", "train", -5, 5),
        ("get_task_range", "test", "a", None),
        ("get_task",),
        ("reset",),
    ],
)
def test_calls_that_are_none_are_refused(call):
    with pytest.raises(InvalidTask):
        answer(TASKS, *call)
