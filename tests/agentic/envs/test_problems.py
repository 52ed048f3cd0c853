"""The problems of PythonCode: many, different, each in one split, with answers that are right and tests that tell."""

import json
from itertools import chain

import pytest

from paddock.agentic.envs.coding.families import FAMILIES, Family
from paddock.agentic.envs.coding.inside import encoded
from paddock.agentic.envs.python_code import EXAMPLES, PROBLEMS, TESTS, Problem, TasksOf, compare, train_task
from tests.agentic.envs.solutions import nearly, solution

ALL = list(chain.from_iterable(PROBLEMS.values()))
BY_NAME = {family.name: family for family in FAMILIES}

# Worked out by hand, not by the code under test.
KNOWN = [
    ("digit_sum", {"base": 2}, (7,), 3),
    ("in_base", {"base": 16}, (255,), "ff"),
    ("recurrence", {"a": 1, "b": 1, "modulus": 997}, (10,), 55),
    ("hailstone", {"factor": 3, "addend": 1}, (7, 3), 34),
    ("primes_of_kind", {"modulus": 4, "rest": 1}, (30,), 4),
    ("last_in_circle", {"step": 2}, (7,), 7),
    ("fewest_coins", {"coins": [1, 3, 4]}, (6,), 2),
    ("divisor_powers", {"power": 1, "last": "n itself left out"}, (28,), 28),
    ("shifted", {"shift": 3}, ("xyZ!",), "abC!"),
    ("shortened", {"least": 3, "order": "the count, then the letter"}, ("aaabbc",), "3abbc"),
    ("top_words", {"count": 2, "order": "most frequent"}, ("b a B c",), ["b", "a"]),
    ("wrapped", {"width": 5}, ("a bc de fgh",), ["a bc", "de", "fgh"]),
    ("first_unmatched", {"pairs": "()[]"}, ("(])",), 1),
    ("turned_words", {"divisor": 2}, ("ab abc",), "ba abc"),
    ("distance", {"insert": 1, "delete": 1, "replace": 1}, ("kitten", "sitting"), 3),
    ("table_query", {"column": "city", "result": "sum of the amounts"}, ("A,1,X\nB,2,Y\nC,3,X", "X"), 4),
    ("windows", {"width": 2, "what": "sum"}, ([1, 2, 3],), [3, 5]),
    ("merged", {"gap": 1}, ([[3, 4], [0, 2], [6, 7]],), [[0, 4], [6, 7]]),
    ("longest_stretch", {"relation": "is greater than"}, ([1, 2, 2, 3, 4],), 3),
    ("pairs_apart", {"difference": 1}, ([1, 2, 3, 2],), 4),
    ("with_bits", {"bits": 2, "what": "their sum"}, ([3, 4, 5, 7],), 8),
    ("finishing_order", {"quantum": 2}, ([5, 2, 3],), [1, 2, 0]),
    ("calculated", {"modulus": 7}, (["2", "3", "-"],), 6),
    ("moved", {"places": 1, "direction": "left"}, ([1, 2, 3],), [2, 3, 1]),
    ("ways_through", {"moves": "one cell to the right or one cell down"}, (["...", "...", "..."],), 6),
    ("generations", {"born": [3], "stays": [2, 3], "steps": 1}, (["...", "###", "..."],), [".#.", ".#.", ".#."]),
    ("spiral", {"turning": "clockwise", "direction": "from the outside in"}, (["abc", "def", "ghi"],), "abcfihgde"),
    ("turned", {"how": "a quarter clockwise"}, (["ab", "cd"],), ["ca", "db"]),
    ("regions", {"near": "a side", "result": "how many regions there are"}, (["#.", ".#"],), 2),
    ("fewest_steps", {"near": "left, right, up or down"}, ([".#.", ".#.", "..."],), 4),
]


@pytest.mark.parametrize(("name", "parameters", "arguments", "expected"), KNOWN, ids=[one[0] for one in KNOWN])
def test_answers_are_those_worked_out_by_hand(name, parameters, arguments, expected):
    assert Problem(BY_NAME[name], parameters).answer(arguments) == expected


def test_every_family_was_worked_out_by_hand():
    assert {one[0] for one in KNOWN} == set(BY_NAME)


def test_there_are_many_problems_and_no_two_are_the_same():
    assert len(FAMILIES) >= 15
    assert len(ALL) == len({problem.name for problem in ALL}) == len({problem.task(0).prompt for problem in ALL})
    assert len(ALL) >= 200


def test_no_problem_is_in_two_splits():
    names = [problem.name for split in PROBLEMS for problem in PROBLEMS[split]]
    assert len(names) == len(set(names))
    assert all(len(PROBLEMS[split]) >= 20 for split in ("train", "validation", "test"))


@pytest.mark.slow
@pytest.mark.parametrize("problem", ALL, ids=lambda problem: problem.name)
def test_a_right_solution_passes_and_one_wrong_answer_shows(problem):
    tests = problem.task(seed=3).hidden["tests"]
    expected = [wanted for _, wanted in tests]
    assert len(tests) == TESTS
    assert compare(_answers(solution(problem), tests), expected) == [True] * TESTS
    hardest = max(range(TESTS), key=lambda at: len(json.dumps(tests[at])))
    assert compare(_answers(nearly(problem, tests[hardest][0]), tests), expected).count(False) == 1


@pytest.mark.parametrize("problem", ALL, ids=lambda problem: problem.name)
def test_no_constant_answer_passes_often(problem):
    answers = [json.dumps(wanted) for _, wanted in problem.task(seed=5).hidden["tests"]]
    assert max(answers.count(one) for one in answers) <= TESTS - 2


def test_tests_come_from_the_seed_and_are_not_the_examples():
    problem = ALL[0]
    assert problem.task(1) == problem.task(1)
    assert problem.task(1).hidden != problem.task(2).hidden
    for problem in ALL[:40]:
        task = problem.task(4)
        shown = [line for line in task.prompt.splitlines() if line.startswith("  solve(")]
        assert len(shown) == EXAMPLES
        for arguments, _ in task.hidden["tests"]:
            assert not any(line.startswith(f"  solve({', '.join(map(repr, arguments))}) ==") for line in shown)


def test_training_goes_on_with_other_tests():
    count = len(PROBLEMS["train"])
    assert train_task(2).metadata == train_task(2 + count).metadata
    assert train_task(2).hidden != train_task(2 + count).hidden


def test_a_public_row_has_no_answers():
    task = TasksOf("test")[0]
    assert task.hidden["tests"]
    assert set(task.public()) == {"prompt", "seed", "metadata"}


def test_tasks_of_a_split_are_a_sequence():
    tasks = TasksOf("validation")
    assert len(tasks) == len(PROBLEMS["validation"])
    assert tasks[-1] == tasks[len(tasks) - 1]
    assert [task.seed for task in tasks[1:3]] == [1, 2]
    with pytest.raises(IndexError):
        tasks[len(tasks)]


def test_a_family_is_told_with_its_parameters():
    family = Family(
        "twice",
        "n: int) -> int",
        "Return {times} times n.",
        [{"times": 2}],
        lambda n, times: n * times,
        lambda draws: (draws.number(0, 99),),
    )
    task = Problem(family, {"times": 2}).task(0)
    assert task.prompt.startswith("Write a Python function: def solve(n: int) -> int\n\nReturn 2 times n.")


def _answers(program, tests):
    names = {}
    exec(program, names)
    return [b"=" + encoded(names["solve"](*arguments)).encode() for arguments, _ in tests]
