"""Evaluations while training: episodes in a trace, and the curve that `paddock bench plot` draws from it."""

from xml.etree import ElementTree

import pytest

import paddock as package
from paddock.adapters.evaluation import Evaluations
from paddock.record.trace import TraceReader
from tests.toys import Counter


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def balance(observation):
    return int(observation[2] + observation[3] > 0)


def train(path, policies=(lambda observation: 0, balance), **more):
    with Evaluations("CartPole-v1", path, episodes=4, **more) as evaluations:
        return [evaluations.evaluate(policy, 1000 * at) for at, policy in enumerate(policies)]


def test_evaluations_are_episodes_of_a_sealed_trace_that_replays(paddock):
    returns = train("t.jsonl", seed=5)
    reader = TraceReader("t.jsonl")
    episodes = list(reader)
    assert reader.sealed
    assert [episode.seed for episode in episodes] == list(range(5, 13))
    assert [episode.about["training_steps"] for episode in episodes] == [0] * 4 + [1000] * 4
    assert [episode.total_return for episode in episodes] == returns[0] + returns[1]
    assert paddock("replay", "t.jsonl").code == 0


def test_plot_has_a_point_per_evaluation(paddock):
    returns = train("t.jsonl")
    found = paddock("bench", "plot", "t.jsonl", "--svg", "t.svg", "--json").document["curves"]["t"]
    assert [one["training_steps"] for one in found] == [0, 1000]
    assert [one["mean"]["value"] for one in found] == [sum(one) / 4 for one in returns]
    assert found[1]["iqm"]["low"] <= found[1]["iqm"]["value"] <= found[1]["iqm"]["high"]
    assert len(ElementTree.parse("t.svg").findall(".//{*}polyline")) == 1
    assert "1,000" in paddock("bench", "plot", "t.jsonl").out


def test_curves_of_several_trainings_are_in_one_picture(paddock):
    train("a.jsonl"), train("b.jsonl", seed=100)
    assert paddock("bench", "plot", "a.jsonl", "b.jsonl", "--svg", "both.svg").code == 0
    assert len(ElementTree.parse("both.svg").findall(".//{*}polyline")) == 2


def test_an_evaluation_that_failed_is_counted(paddock):
    class Faulty(Counter):
        def step(self, action):
            raise RuntimeError("broken")

    evaluations = Evaluations(Faulty(), "f.jsonl", episodes=2)
    with pytest.raises(RuntimeError):
        evaluations.evaluate(lambda observation: 0, 10)
    evaluations.close()
    (episode,) = TraceReader("f.jsonl")
    assert episode.error is not None
    found = paddock("bench", "plot", "f.jsonl")
    assert (found.code, found.err) == (1, "paddock: error: there are no episodes to plot.\n")


def test_an_environment_of_yours_stays_open():
    env = package.make("CartPole-v1")
    with Evaluations(env, "t.jsonl", episodes=1) as evaluations:
        evaluations.evaluate(balance, 0)
    env.reset(seed=1)
    env.close()


def test_a_training_that_broke_off_is_plotted_with_a_warning(paddock):
    evaluations = Evaluations("CartPole-v1", "t.jsonl", episodes=2)
    evaluations.evaluate(balance, 0)
    assert "evaluations may be missing" in paddock("bench", "plot", "t.jsonl").err
    evaluations.close()


def test_other_traces_are_refused(paddock):
    paddock("record", "CartPole-v1", "--out", "r.jsonl")
    found = paddock("bench", "plot", "r.jsonl")
    assert found.code == 2
    assert "does not say after how many training steps" in found.err
