"""`paddock rescore`: new scores of old steps, what can't be scored, and no code that a trace chooses."""

import json
import sys

import pytest

import paddock as package
from paddock.agentic import CallTool, ListTools, Task, Tasks, ToolEnv, rollout, tool
from paddock.record.trace import Recorder, TraceReader
from tests.traces import unchained

RUBRICS = """
from paddock.agentic import Rubric, TrajectoryRubric, WeightedSum
from paddock.errors import EpisodeFailed

class Short(Rubric):
    '''A tenth for each step, and one for the right answer.'''
    def forward(self, action, observation):
        return 0.1 + (observation.result == "right")

class Hidden(Rubric):
    def forward(self, action, observation):
        return float(action.arguments["word"] == observation.task.hidden["answer"])

class Told(Rubric):
    def forward(self, action, observation):
        assert "rubric" not in observation.info
        return observation.info["length"]

class Final(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        return float(len(trajectory))
    def compute_step_rewards(self):
        return [0.0] * len(self.trajectory)

class Async(Rubric):
    async def forward(self, action, observation):
        return 0.5

class Faulty(Rubric):
    def forward(self, action, observation):
        if observation.task.prompt == "Second.":
            raise ValueError("secret words")
        return float("nan") if observation.task.prompt == "Third." else 1.0

class Leaving(Rubric):
    def forward(self, action, observation):
        raise SystemExit(3)

def make():
    return WeightedSum([Short(), Async()], [0.5, 0.5])

ready = Short()
number = 5

class Picky(Short):
    def __init__(self, needed):
        super().__init__()
"""


class Words(ToolEnv):
    """Say the word."""

    tasks = Tasks(
        train=[Task(seed=i, prompt=p, hidden={"answer": p[0]}) for i, p in enumerate(["First.", "Second.", "Third."])]
    )

    @tool
    def answer(self, word: str) -> str:
        """Answer.

        Args:
            word: the word.
        """
        self.info["length"] = len(word)
        if word == self.task.hidden["answer"]:
            self.award(5.0)
            self.finish()
            return "right"
        return "wrong"


def policy(turn):
    return [CallTool("answer", {"word": "no"}), ListTools(), CallTool("answer", {"word": turn.task["prompt"][0]})]


@pytest.fixture
def here(tmp_path, monkeypatch, fresh_registry):
    """A working folder with rubrics and a trace of three tasks."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rubrics.py").write_text(RUBRICS)
    package.register("me/Words-v0", Words)
    rollout("me/Words-v0", policy, trace="t.jsonl", concurrency=1)
    (tmp_path / "t.jsonl").write_text(unchained((tmp_path / "t.jsonl").read_text()))
    yield tmp_path
    sys.modules.pop("my_rubrics", None)
    if str(tmp_path) in sys.path:
        sys.path.remove(str(tmp_path))


def test_old_and_new_scores_stand_side_by_side(paddock, here):
    shown = paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Short")
    assert (shown.code, shown.err) == (0, "")
    rows = [line.split() for line in shown.out.splitlines()]
    assert ["0", "train[0]", "5.00", "1.20", "yes"] in rows
    assert ["scored", "3", "of", "3"] in rows
    assert "old mean  5.000 [5.000, 5.000]" in shown.out
    assert "new mean  1.200 [1.200, 1.200]" in shown.out


@pytest.mark.parametrize(
    ("name", "each"),
    [("Short", 1.2), ("Hidden", 1.0), ("Told", 3.0), ("Final", 2.0), ("Async", 1.0), ("make", 1.1), ("ready", 1.2)],
)
def test_rubrics_of_every_kind(paddock, here, name, each):
    found = paddock("rescore", "t.jsonl", "--rubric", f"my_rubrics:{name}", "--json")
    assert found.code == 0
    assert [row["new"] for row in found.document["episodes"]] == pytest.approx([each] * 3)
    assert found.document["new_mean"]["value"] == pytest.approx(each)
    assert [row["hidden"] for row in found.document["episodes"]] == [True] * 3


def test_the_new_trace_has_the_new_scores_and_says_whose(paddock, here):
    assert paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Short", "--out", "new.jsonl").code == 0
    old, new = list(TraceReader("t.jsonl")), list(TraceReader("new.jsonl"))
    assert [e.total_return for e in new] == pytest.approx([1.2] * 3)
    assert [[s.reward for s in e.steps] for e in new] == [pytest.approx([0.1, 0.0, 1.1])] * 3
    assert [[s.action for s in e.steps] for e in new] == [[s.action for s in e.steps] for e in old]
    assert [e.seed for e in new] == [0, 1, 2]
    last = new[0].steps[-1].info
    assert last["length"] == 1
    assert (last["rubric"]["score"], last["rubric"]["replayable"]) == (1.1, True)
    assert "rubric" not in new[0].steps[1].info  # to ask for the tools is no work
    assert new[0].about["rescored"] == {"rubric": "my_rubrics:Short", "return": 5.0, "hidden": True}
    again = paddock("rescore", "new.jsonl", "--rubric", "my_rubrics:Told", "--json").document
    assert [(row["old"], row["new"]) for row in again["episodes"]] == [(pytest.approx(1.2), 3.0)] * 3


def test_rows_that_can_not_be_scored_are_named_and_count_in_no_mean(paddock, here):
    found = paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Faulty", "--out", "new.jsonl", "--json")
    assert found.code == 1
    document = found.document
    assert (document["scored"], document["not_scored"]) == (1, 2)
    reasons = [row["reason"] for row in document["episodes"]]
    assert reasons[0] is None
    assert "ValueError" in reasons[1] and "secret words" not in reasons[1]
    assert "finite number" in reasons[2]
    assert (document["old_mean"]["tasks"], document["new_mean"]["value"]) == (1, 2.0)
    assert [e.seed for e in TraceReader("new.jsonl")] == [0]
    text = paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Faulty").out
    assert "hidden: whether the rubric had the hidden fields of the task" in text
    assert "episode 1 (train[1]) can't be scored: " in text
    assert "scored    1 of 3" in text


def test_episodes_that_failed_or_broke_off_stay_what_they_are(paddock, here):
    lines = (here / "t.jsonl").read_text().splitlines(keepends=True)
    ends = [at for at, line in enumerate(lines) if '"type":"end"' in line]
    failed = json.loads(lines[ends[0]])
    failed.update({"error": {"code": "DEADLINE", "message": "late"}, "return": None})
    lines[ends[0]] = json.dumps(failed) + "\n"
    (here / "t.jsonl").write_text("".join(lines[: ends[2]]) + lines[ends[2]][:9])
    found = paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Short", "--out", "new.jsonl", "--json")
    assert [row["reason"] for row in found.document["episodes"]] == [
        "it ended with the error DEADLINE",
        None,
        "its recording broke off",
    ]
    assert found.code == 1
    assert "has no end: the recording broke off" in found.err
    first, second = TraceReader("new.jsonl")
    assert (first.error.code, first.total_return) == ("DEADLINE", None)
    assert "rescored" not in first.about
    assert second.total_return == pytest.approx(1.2)


def test_a_trace_of_another_kind_of_environment_can_not_be_scored(paddock, here):
    with Recorder(package.make("CartPole-v1"), "c.jsonl") as env:
        env.reset(seed=1)
        env.step(0)
    found = paddock("rescore", "c.jsonl", "--rubric", "my_rubrics:Short", "--json")
    assert found.code == 1
    assert "is not one of an environment of tools" in found.document["episodes"][0]["reason"]
    assert found.document["new_mean"] is None


@pytest.mark.process
def test_a_trace_of_paddock_run_names_its_tasks_for_answers_to_be_found(paddock, here):
    """The seed draws the task, so the trace has to say which one it was."""
    assert paddock("init", "sums_env").code == 0
    options = ("--episodes", "2", "--seed", "1", "--isolation", "process")
    assert paddock("run", "./sums_env", *options, "--trace", "run.jsonl").code == 0
    episodes = list(TraceReader("run.jsonl"))
    assert [episode.task for episode in episodes] == [episode.info["task"] for episode in episodes]
    (here / "my_rubrics.py").write_text(
        "from paddock.agentic import Rubric\n"
        "class Strict(Rubric):\n"
        "    def forward(self, action, observation):\n"
        "        return float('answer' in observation.task.hidden)\n"
    )
    command = ("rescore", "run.jsonl", "--rubric", "my_rubrics:Strict", "--env", "./sums_env", "--isolation", "none")
    found = paddock(*command, "--json")
    assert (found.code, found.document["notes"]) == (0, [])
    assert all(row["hidden"] and row["new"] > 0 for row in found.document["episodes"])
    assert [row["task"][:6] for row in found.document["episodes"]] == ["train["] * 2
    sys.modules.pop("sums_env", None)


def rename(path, to):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["type"] == "header":
            line["env"] = to
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    "target", ["evil:Maze-v0", "./evil", "http://localhost:9/x", "../evil", "evil/Unknown-v0", None]
)
def test_a_trace_chooses_no_code_to_run(paddock, here, monkeypatch, target):
    (here / "evil.py").write_text("raise SystemExit('imported')\n")
    (here / "evil").mkdir()
    (here / "evil" / "paddock.toml").write_text("not even read")
    rename(here / "t.jsonl", target)
    found = paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Short", "--json")
    assert found.code == 0
    assert [row["hidden"] for row in found.document["episodes"]] == [False] * 3
    assert "is not a known id" in found.document["notes"][0]
    assert "evil" not in sys.modules
    needs = paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Hidden", "--json")
    assert needs.code == 1
    assert "the hidden fields of its task were not available" in needs.document["episodes"][0]["reason"]


def test_a_trace_brings_no_answers_of_its_own(paddock, here):
    rename(here / "t.jsonl", "evil/Unknown-v0")
    lines = [json.loads(line) for line in (here / "t.jsonl").read_text().splitlines()]
    for line in lines:
        if line.get("task"):
            line["task"]["hidden"] = {"word": "forged", "answer": "forged"}
    (here / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Hidden", "--json")
    assert found.code == 1
    assert "the hidden fields of its task were not available" in found.document["episodes"][0]["reason"]


def test_the_user_may_name_the_environment(paddock, here):
    rename(here / "t.jsonl", "somewhere else")
    found = paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Hidden", "--env", "me/Words-v0", "--json")
    assert (found.code, [row["new"] for row in found.document["episodes"]]) == (0, [1.0] * 3)
    other = paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Short", "--env", "CartPole-v1", "--json")
    assert "tasks of CartPole-v1 are not available" in other.document["notes"][0]
    assert paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Short", "--env", "No-v0").code == 2


@pytest.mark.parametrize("isolation", [None, "auto", "process"])
def test_a_wall_around_the_named_environment_is_told_at_once(paddock, here, isolation):
    options = [] if isolation is None else ["--isolation", isolation]
    (here / "mine").mkdir()  # without a manifest: nothing of it is read before the answer
    found = paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Hidden", "--env", "./mine", *options)
    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    assert "a wall keeps hidden fields in" in found.err
    assert "For a folder of your own add: --isolation none" in found.err


@pytest.mark.process
def test_a_folder_of_ones_own_is_looked_up_without_a_wall(paddock, here):
    assert paddock("init", "sums").code == 0
    task = {"split": "test", "index": 1}
    rollout(
        "./sums", lambda turn: CallTool("submit", {"answer": 1}), tasks=[("test", 1)], trace="s.jsonl", progress=False
    )
    assert next(iter(TraceReader("s.jsonl"))).task.items() >= task.items()
    (here / "sum_rubric.py").write_text(
        "from paddock.agentic import Rubric\n"
        "class Near(Rubric):\n"
        "    def forward(self, action, observation):\n"
        "        return float(observation.task.hidden is not None and len(observation.task.hidden) > 0)\n"
    )
    words = ["rescore", "s.jsonl", "--rubric", "sum_rubric:Near"]
    hint = paddock(*words)
    assert "for a folder of your own --env ./FOLDER --isolation none" in hint.err
    found = paddock(*words, "--env", "./sums", "--isolation", "none", "--json")
    assert (found.code, [row["new"] for row in found.document["episodes"]]) == (0, [1.0])


def test_rows_stand_in_the_order_of_their_numbers(paddock, here):
    lines = (here / "t.jsonl").read_text().splitlines(keepends=True)
    ends = [line for line in lines if '"type":"end"' in line]
    rest = [line for line in lines if line not in ends]
    (here / "t.jsonl").write_text("".join([*rest, *reversed(ends)]))  # as rollouts at once end
    assert [e.number for e in TraceReader("t.jsonl")] == [2, 1, 0]
    found = paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Short", "--json")
    assert [row["episode"] for row in found.document["episodes"]] == [0, 1, 2]


def test_equal_failures_are_one_line(paddock, here):
    rename(here / "t.jsonl", "somewhere else")
    found = paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Hidden")
    assert found.code == 1
    said = [line for line in found.out.splitlines() if "can't be scored" in line]
    assert len(said) == 1
    assert said[0].startswith("3 episodes, the first 0 (train[0]), can't be scored: ")


def test_a_task_that_has_changed_since_is_not_scored_with_the_wrong_answer(paddock, here, monkeypatch):
    monkeypatch.setattr(Words, "tasks", Tasks(train=[Task(seed=0, prompt="First.", hidden={"answer": "x"}), "Other."]))
    found = paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Hidden", "--json")
    reasons = [row["reason"] for row in found.document["episodes"]]
    assert reasons[0] is None
    assert "now has another task in this place" in reasons[1]
    assert "no longer has its task" in reasons[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.jsonl", "--rubric", "my_rubrics:Short"], "is not a file"),
        (["t.jsonl", "--rubric", "my_rubrics"], "expected module:Name"),
        (["t.jsonl", "--rubric", "../x:Short"], "expected module:Name"),
        (["t.jsonl", "--rubric", "my_rubrics:Nope"], "has no 'Nope'"),
        (["t.jsonl", "--rubric", "no_such_module:Short"], "no module 'no_such_module'"),
        (["t.jsonl", "--rubric", "my_rubrics:number"], "it is an int"),
        (["t.jsonl", "--rubric", "my_rubrics:Rubric"], "Rubric"),
        (["t.jsonl", "--rubric", "my_rubrics:Short", "--out", "t.jsonl"], "exists"),
        (["t.jsonl", "--rubric", "my_rubrics:Short", "--isolation", "none"], "--isolation needs --env"),
        (["my_rubrics.py", "--rubric", "my_rubrics:Short"], "line 1"),
        (["t.jsonl"], "--rubric"),
    ],
    ids=" ".join,
)
def test_mistakes_are_one_line(paddock, here, words, said):
    found = paddock("rescore", *words)
    assert found.code in (1, 2)
    assert said in found.err
    assert found.err.count("\n") == 1


def test_rubrics_that_fail_to_be_made_or_leave_are_no_crash_of_ours(paddock, here):
    found = paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Picky")
    assert found.code == 1
    assert "making my_rubrics:Picky raised TypeError" in found.err
    assert paddock("rescore", "t.jsonl", "--rubric", "my_rubrics:Leaving").code == 1


def test_an_empty_trace_has_nothing_to_score(paddock, here):
    (here / "empty.jsonl").write_text("")
    found = paddock("rescore", "empty.jsonl", "--rubric", "my_rubrics:Short")
    assert (found.code, "has no episodes" in found.err) == (1, True)
