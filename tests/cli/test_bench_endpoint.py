"""`paddock bench run agentic-text --policy http://…#model`: a model's endpoint as the policy, from run to verify."""

import hashlib
import json
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from paddock.bench.bundle import read_bundle
from paddock.cli.output import Output
from tests.agentic.model_server import model_server, reply
from tests.cli.terminal import Terminal

KEY = "sk-4711-of-the-test"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def play(paddock):
    def play(url, *words):
        return paddock("bench", "run", "agentic-text", "--policy", url, "--episodes", "2", "--out", "run", *words)

    return play


def answer(request):
    """A model that says hello, or guesses one word for ever with other thoughts each time."""
    names = [tool["function"]["name"] for tool in request.get("tools", ())]
    return reply(f"{uuid4()}", calls=[("guess", {"word": "crane"})]) if "guess" in names else reply("hello")


def refuse(request):
    return 500, {}, {"error": {"message": f"no such key: {KEY}"}}


def test_run_of_a_model_completes_and_its_policy_never_counts_as_proved(paddock, play):
    nonce = "ab" * 32
    with model_server(answer) as server:
        url = f"{server.url}#toy"
        done = play(url, "--nonce", nonce, "--json")
        assert (done.code, done.err) == (0, "")
        assert done.document["policy"] == "model toy"
        assert [task["failed"] < task["episodes"] for task in done.document["tasks"]] == [True, True], done.document
        assert all(f"Bearer {KEY}" in head for head in server.headers)
        assert {request["model"] for request in server.requests} == {"toy"}

        bundle = read_bundle("run")
        calls = [call for episode in bundle.episodes for call in bundle.log.calls(episode)]
        assert len(calls) == len(server.requests)
        assert calls[0].settings == '{"model":"toy","temperature":0}'
        assert json.loads(calls[0].reply)["content"] == "hello"
        sent = {name: server.requests[0].get(name, []) for name in ("messages", "tools")}
        text = json.dumps(sent, sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest() in {call.request for call in calls}

        verdict = paddock("bench", "verify", "run", "--nonce", nonce, "--json").document
        assert any("calls of a model" in note for note in verdict["notes"])
        assert (verdict["level"], verdict["replayed"]) == ("L2+", 4)
        verdict = paddock("bench", "verify", "run", "--nonce", nonce, "--policy", url, "--json").document
        assert (verdict["level"], verdict["reason"]) == ("L2+", None)  # the same actions, but from whom?
        assert any("no digest" in note for note in verdict["notes"])
        other = paddock("bench", "verify", "run", "--policy", f"{server.url}#other", "--json")
        assert (other.code, other.document["reason"]) == (1, "tampered")
    written = b"".join(path.read_bytes() for path in Path("run").iterdir())
    assert KEY.encode() not in written
    assert server.url.encode() not in written


def test_endpoint_that_fails_is_in_the_record_and_in_the_exit_code(paddock, play):
    with model_server(refuse) as server:
        done = play(f"{server.url}#toy", "--json")
    assert done.code == 1
    assert [task["failed"] for task in done.document["tasks"]] == [2, 2]
    assert [task["mean"] for task in done.document["tasks"]] == [0.0, 0.0]
    assert "status 500" in done.err
    assert "and 1 more episodes" in done.err
    assert KEY not in done.out + done.err
    bundle = read_bundle("run")
    assert {episode.status for episode in bundle.episodes} == {"failed"}
    assert {call.error for episode in bundle.episodes for call in bundle.log.calls(episode)} == {"MODEL_UNAVAILABLE"}
    verdict = paddock("bench", "verify", "run", "--json")
    assert (verdict.code, verdict.document["level"]) == (0, "L2")
    assert any("4 episodes failed" in note for note in verdict.document["notes"])


def test_endpoint_that_fails_for_a_while_fails_those_episodes_only(play):
    lock, left = threading.Lock(), iter([True])

    def flaky(request):
        with lock:
            return refuse(request) if next(left, False) else answer(request)

    with model_server(flaky) as server:
        done = play(f"{server.url}#toy", "--json")
    assert done.code == 0
    assert sum(episode.status == "failed" for episode in read_bundle("run").episodes) == 1


def test_policy_that_answers_otherwise_or_not_at_all_proves_nothing_either_way(paddock, play):
    with model_server(answer) as server:
        play(f"{server.url}#toy")
    for other, words in ((lambda request: reply("other words"), "acts otherwise"), (refuse, "can't be played again")):
        with model_server(other) as server:
            verdict = paddock("bench", "verify", "run", "--policy", f"{server.url}#toy", "--json")
        assert (verdict.code, verdict.document["reason"]) == (1, "irreproducible")
        assert words in verdict.document["message"]


@pytest.mark.parametrize(
    ("suite", "policy", "words"),
    [
        ("agentic-text", "http://127.0.0.1:9/v1", "names no model"),
        ("smoke", "http://127.0.0.1:9/v1#toy", "environments of tools only"),
        ("agentic-text", "http://192.0.2.1/v1#toy", "http would show the key"),
    ],
)
def test_endpoint_that_can_be_no_policy_is_refused_before_the_run(paddock, suite, policy, words):
    done = paddock("bench", "run", suite, "--policy", policy, "--out", "run")
    assert done.code != 0
    assert words in done.err
    assert not Path("run").exists()


def test_verify_shows_on_a_terminal_how_far_the_replay_is(paddock, monkeypatch):
    assert paddock("bench", "run", "smoke", "--policy", "random", "--out", "run").code == 0
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    progress = Output.progress

    def seen(self, label, total):
        self.stderr = screen
        return progress(self, label, total)

    monkeypatch.setattr(Output, "progress", seen)
    assert paddock("bench", "verify", "run", "--policy", "random").code == 0
    assert "replay" in screen.getvalue()
    assert "12/12" in screen.getvalue()  # six episodes, and once more with their policy
