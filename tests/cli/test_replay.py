"""`paddock record` and `paddock replay`: what was recorded happens again, and what was changed is found."""

from pathlib import Path

import pytest

import paddock as package
from paddock.core.env import isolation_of
from paddock.record.trace import Recorder, TraceReader, TraceWriter
from paddock.record.trace import replay as again
from paddock.wrappers import FrameStackObservation
from tests.toys import Counter
from tests.traces import unchained


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def trace(paddock):
    paddock("record", "CartPole-v1", "--out", "c.jsonl", "--episodes", "3", "--seed", "5")
    return "c.jsonl"


def rewrite(trace, old, new):
    """The trace with another text, as somebody who hides that writes it: without its chain and seal."""
    text = Path(trace).read_text()
    changed = text[: text.index('{"type":"seal"')].replace(old, new, 1)
    assert changed not in text
    Path(trace).write_text(unchained(changed))


def test_what_was_recorded_happens_again(paddock, trace):
    found = paddock("replay", trace)
    assert found.code == 0
    assert found.out.splitlines()[-1] == "3 of 3 episodes are the same"
    assert found.err == ""


def test_recorded_lanes_replay_in_one(paddock):
    words = ["--episodes", "5", "--num-envs", "3", "--env-kwargs", '{"sutton_barto_reward": true}']
    recorded = paddock("record", "CartPole-v1", "--out", "lanes.jsonl", *words, "--json").document
    again = paddock("replay", "lanes.jsonl", "--json").document
    assert again["same"]
    assert again["sealed"]
    assert [(one["seed"], one["steps"]) for one in again["episodes"]] == [
        (one["seed"], one["length"]) for one in recorded["episodes"]
    ]


def test_a_changed_observation_is_named_with_its_step(paddock, trace):
    first = next(iter(TraceReader(trace))).steps[0].observation[0].item()
    rewrite(trace, f'"observation":[{first!r}', '"observation":[0.5')
    found = paddock("replay", trace, "--json")
    assert found.code == 1
    assert "has no seal" in found.err
    wrong = [one["difference"] for one in found.document["episodes"] if not one["same"]]
    assert [text.split(" was ")[0] for text in wrong] == ["episode 0, step 1: observation[0]"]


def test_a_trace_does_not_choose_code(paddock):
    package.register("me/Counter-v0", "tests.toys:Counter")
    with Recorder(package.make("me/Counter-v0"), "mine.jsonl") as env:
        env.reset(seed=1)
        env.step(0)
    refused = paddock("replay", "mine.jsonl")
    assert refused.code == 2
    assert "not one of paddock's own" in refused.err
    assert paddock("replay", "mine.jsonl", "--env", "me/Counter-v0", "--isolation", "none").code == 0


@pytest.mark.process
def test_a_trace_may_name_wrappers_of_paddocks_behind_a_wall(paddock, monkeypatch):
    """They are no code of a stranger's, but may take all time or memory."""
    stack = FrameStackObservation.wrapper_spec(stack_size=2)
    with Recorder(package.make("CartPole-v1", wrappers=[stack]), "stacked.jsonl") as env:
        env.reset(seed=1)
        env.step(0)
    tiers = []

    def replay(episode, env, **options):
        tiers.append(isolation_of(env))
        return again(episode, env, **options)

    monkeypatch.setattr("paddock.record.trace.replay", replay)
    assert paddock("replay", "stacked.jsonl").code == 0
    assert tiers == ["sandbox"]


def test_an_episode_without_a_seed_can_not_be_repeated(paddock):
    with TraceWriter("s.jsonl", seal=True) as writer, Recorder(package.make("CartPole-v1"), writer) as env:
        env.reset()
        env.step(0)
    found = paddock("replay", "s.jsonl")
    assert found.code == 1
    assert "began without a seed" in found.out


def test_a_replay_can_be_filmed(paddock, trace, tmp_path):
    assert paddock("replay", trace, "--video", "films").code == 0
    films = sorted(path.name for path in (tmp_path / "films").iterdir())
    assert films == [f"c-episode-{number}.mp4" for number in range(3)]


def test_a_recorder_seals_its_trace():
    with Recorder(Counter(), "sealed.jsonl") as env:
        env.reset(seed=1)
    reader = TraceReader("sealed.jsonl")
    assert len(list(reader)) == 1
    assert reader.sealed


@pytest.mark.parametrize("lanes", ["1", "3"])
def test_run_gives_intervals(paddock, lanes):
    words = ["run", "CartPole-v1", "--episodes", "12", "--num-envs", lanes]
    found, again = paddock(*words, "--json").document, paddock(*words, "--json").document
    assert found["trajectory_digest"] == again["trajectory_digest"]
    assert found["statistics"] == again["statistics"]
    assert found["statistics"]["n"] == 12
    assert [one["seed"] for one in found["episodes"]] == list(range(12))
    mean = found["statistics"]["mean"]
    assert mean["low"] < found["mean_return"] == mean["value"] < mean["high"]
    assert "IQM" in paddock(*words).out


def test_lanes_play_the_same_episodes_as_one_environment(paddock):
    """The first episode of lane 0 has the policy's first stream, so it is that of one environment."""
    one = paddock("run", "CartPole-v1", "--json").document["episodes"][0]
    assert paddock("run", "CartPole-v1", "--num-envs", "4", "--episodes", "4", "--json").document["episodes"][0] == one


def test_run_films_its_episodes(paddock, tmp_path):
    assert paddock("run", "CartPole-v1", "--episodes", "2", "--video", "films").code == 0
    assert len(list((tmp_path / "films").iterdir())) == 2
    assert "one lane" in paddock("run", "CartPole-v1", "--num-envs", "2", "--video", "films").err
