"""``paddock eval`` and ``paddock compare``: results in a folder and on the screen, going on, mistakes, and no key."""

import json
from pathlib import Path

import pytest

from paddock.agentic import Rollouts
from tests.agentic.model_server import model_server, reply

KEY = "sk-not-to-be-seen-42"
RUBRIC = """
from paddock.agentic import LLMJudge, Rubric


class Half(Rubric):
    def forward(self, action, observation):
        return 0.5


def judged(client):
    return LLMJudge("Rate: {action}", client)
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def echo(request):
    """Repeat the last word, as paddock/Echo wants it."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    return reply(request["messages"][-1]["content"].split()[-1], usage=usage)


def command(server, *more):
    return ("eval", "paddock/Echo", "--model", "toy", "--base-url", server.url, "--split", "test", *more)


def test_a_model_is_evaluated_and_its_results_are_in_a_folder(paddock, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    with model_server(echo) as server:
        more = ("--api-key-env", "MY_KEY", "--tasks", "0:3", "--attempts", "2", "--prices", "1,2", "--out", "run")
        found = paddock(*command(server, *more, "--sampling", '{"temperature": 0.5}', "--json"))
    assert found.code == 0
    summary = found.document["summary"]
    assert (summary["rollouts"], summary["tasks"], summary["mean_return"]["value"]) == (6, 3, 1.0)
    assert (summary["calls"], summary["cost"]) == (6, pytest.approx(6 * 20e-6))
    assert [row["task"] for row in found.document["tasks"]] == ["test[0]", "test[1]", "test[2]"]
    assert all(request["temperature"] == 0.5 for request in server.requests)
    assert f"Bearer {KEY}" in server.headers[0]
    files = {path.name: path.read_text() for path in (Path("run")).iterdir()}
    assert set(files) == {"run.jsonl", "results.json", "eval.json"}
    assert KEY not in found.out + found.err + "".join(files.values())
    assert json.loads(files["results.json"]) == found.document
    assert len(Rollouts.load(Path("run"))) == 6


def test_the_table_says_what_there_is_to_know(paddock):
    with model_server(lambda request: reply("nonsense", usage={"prompt_tokens": 3})) as server:
        shown = paddock(*command(server, "--tasks", "2", "--out", "run"))
    assert shown.code == 0
    for words in ("test[0]", "mean return", "0.000 [0.000", "pass@1", "errors", "model calls", "6 prompt", "results"):
        assert words in shown.out, words


def test_a_run_goes_on_where_it_failed(paddock):
    down = True

    def answer(request):
        return (500, {}, "down") if down and len(server.requests) > 3 else echo(request)

    with model_server(answer) as server:
        first = paddock(
            *command(server, "--tasks", "5", "--retries", "0", "--concurrency", "1", "--out", "run", "--json")
        )
        assert first.document["summary"]["errors"] == {"MODEL_UNAVAILABLE": 2}
        assert "500" in first.document["error_examples"]["MODEL_UNAVAILABLE"]
        down = False
        again = paddock(*command(server, "--tasks", "5", "--out", "run", "--json"))
        assert (again.code, "--resume" in again.err) == (2, True)
        second = paddock(*command(server, "--tasks", "5", "--out", "run", "--resume", "--json"))
        other = paddock("eval", "paddock/Wordle", *command(server)[2:], "--out", "run", "--resume")
    assert second.document["summary"]["mean_return"]["value"] == 1.0
    assert second.document["summary"]["rollouts"] == 5
    assert len(server.requests) == 3 + 2 + 2
    assert (other.code, "another target" in other.err) == (2, True)


def test_another_rubric_grades_and_may_ask_a_judge(paddock):
    Path("own_rubrics.py").write_text(RUBRIC)

    def answer(request):
        return reply("0.75") if request["model"] == "judge" else echo(request)

    with model_server(answer) as server:
        half = paddock(*command(server, "--tasks", "2", "--rubric", "own_rubrics:Half", "--out", "a", "--json"))
        judge = ("--rubric", "own_rubrics:judged", "--judge-model", "judge")
        judged = paddock(*command(server, "--tasks", "2", *judge, "--out", "b", "--json"))
    assert half.document["summary"]["mean_return"]["value"] == 0.5
    assert judged.document["summary"]["mean_return"]["value"] == 0.75
    compared = paddock("compare", "a", "b", "--json").document
    assert (compared["difference"]["value"], compared["better"], compared["tasks"]) == (0.25, 2, 2)
    shown = paddock("compare", "a", "b")
    assert "B - A" in shown.out and "0.250" in shown.out and "2, 0, 0" in shown.out
    assert shown.err == ""


def test_the_table_says_why_rollouts_failed(paddock):
    with model_server(lambda request: (404, {}, "no such model")) as server:
        shown = paddock(*command(server, "--tasks", "2", "--out", "run"))
    assert shown.code == 1
    assert [line.partition(":")[0] for line in shown.out.splitlines()].count("MODEL_CALL_FAILED") == 1
    assert "no such model" in shown.out


def test_runs_of_other_environments_are_compared_with_a_warning(paddock):
    with model_server(echo) as server:
        assert paddock(*command(server, "--tasks", "2", "--out", "a")).code == 0
        wordle = ("eval", "paddock/Wordle", *command(server)[2:], "--tasks", "2", "--max-turns", "1", "--out", "b")
        assert paddock(*wordle).code == 0
    assert "A is of paddock/Echo, and B of paddock/Wordle" in paddock("compare", "a", "b").err


def test_a_run_compared_with_itself_shows_no_difference_either_way(paddock):
    with model_server(echo) as server:
        assert paddock(*command(server, "--tasks", "3", "--out", "a")).code == 0
    difference = paddock("compare", "a", "a", "--json").document["difference"]
    assert (difference["low"], difference["value"], difference["high"]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--tasks", "5:2"), "names no tasks"),
        (("--prices", "1"), "not two prices"),
        (("--sampling", "[]"), "not a JSON object"),
        (("--resume",), "--resume needs --out"),
        (("--max-cost", "1"), "--max-cost needs --prices"),
        (("--judge-model", "m"), "--judge-model needs --rubric"),
        (("--base-url", "127.0.0.1:8000/v1"), "--base-url: This URL has no scheme. Begin it with https://"),
        (("--base-url", "http://far.example/v1", "--api-key-env", "PATH"), "or allow it with --insecure"),
        (("--api-key-env", "NO_SUCH_KEY"), "--api-key-env: the variable NO_SUCH_KEY is not set"),
    ],
)
def test_mistakes_are_told_before_anything_is_played(paddock, more, words):
    with model_server(echo) as server:
        found = paddock(*command(server, *more))
    assert found.code == 2 and words in found.err
    assert server.requests == []


def test_a_folder_without_a_run_can_be_used_after_a_mistake(paddock):
    with model_server(echo) as server:
        assert paddock(*command(server, "--out", "run", "--split", "tset")).code == 2
        assert paddock(*command(server, "--out", "run", "--tasks", "1")).code == 0
        again = paddock(*command(server, "--out", "run", "--tasks", "1"))
        other = paddock(*command(server, "--out", "run", "--tasks", "1", "--model", "another", "--resume"))
    assert again.code == 2 and "has a run already" in again.err
    assert other.code == 2 and "is of another target, model or sampling" in other.err


def test_a_run_that_is_not_there_can_not_be_compared(paddock):
    found = paddock("compare", "nowhere", "there")
    assert found.code == 2 and "nowhere does not exist" in found.err
