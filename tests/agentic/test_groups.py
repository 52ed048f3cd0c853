"""Groups of attempts: advantages, members that failed, rubrics over a group; samples for trainers, token by token."""

import math
import statistics

import numpy as np
import pytest

from paddock.agentic import Budget, ModelCall, ModelEndpoint, Rollout, Rollouts, rollout
from paddock.agentic.rollouts import Failure
from paddock.errors import PlanError
from tests.agentic.model_server import model_server, reply
from tests.agentic.rollout_envs import Guess

BROKEN = Failure("ENV_LOST", "gone", "step", 1)


def attempts(*rewards, place=0):
    return [
        Rollout(
            place,
            f"train[{place}]",
            {},
            at,
            0,
            () if reward is None else (reward,),
            error=BROKEN if reward is None else None,
        )
        for at, reward in enumerate(rewards)
    ]


def test_advantages_are_as_published_and_failed_members_are_left_out_and_counted():
    (group,) = Rollouts(attempts(1.0, None, 0.0, 0.5)).groups()
    assert (group.rewards, [one.attempt for one in group.failed]) == ([1.0, 0.0, 0.5], [1])
    assert "1 failed and left out" in repr(group)
    assert group.advantages("dr_grpo") == [0.5, -0.5, 0.0]
    assert group.advantages("rloo") == [0.75, -0.75, 0.0]
    deviation = statistics.stdev([1.0, 0.0, 0.5])
    assert group.advantages() == pytest.approx([0.5 / deviation, -0.5 / deviation, 0.0], rel=1e-5)
    assert math.fsum(group.advantages()) == pytest.approx(0.0)
    with pytest.raises(PlanError, match="'grpo', 'rloo' or 'dr_grpo'"):
        group.advantages("ppo")


@pytest.mark.parametrize("rewards", [(1.0, 1.0), (0.0,), (None, 0.5), (None, None)])
def test_a_group_without_differences_teaches_nothing(rewards):
    rollouts = Rollouts(attempts(*rewards))
    (group,) = rollouts.groups()
    assert not group.varies
    assert set(group.advantages()) <= {0.0}
    assert list(rollouts.samples(drop_equal=True)) == []


def test_a_rubric_sees_a_whole_group_and_its_failure_is_no_reward():
    rollouts = Rollouts([*attempts(3.0, None, 1.0), *attempts(5.0, 6.0, place=1)])

    def rank(group):
        best = max(group.rewards)
        return [float(reward == best) for reward in group.rewards] if group.place == 0 else [1.0]

    graded = rollouts.grade_groups(rank)
    assert [one.reward for one in graded] == [1.0, None, 0.0, None, None]
    assert [one.error and one.error.code for one in graded] == [None, "ENV_LOST", None, *["GRADING_FAILED"] * 2]
    assert "1 scores for 2 members" in graded[3].error.message
    assert [one.reward for one in rollouts] == [3.0, None, 1.0, 5.0, 6.0]


# ── A tiny model: a recurrent network of random weights, so each token depends on all before it ──

VOCABULARY, WIDTH = 356, 16  # 1 and 2 begin and end a message, 100 and on are bytes
_WEIGHTS = np.random.default_rng(22)
EMBED, RECUR, HEAD = (_WEIGHTS.normal(size=size) for size in ((VOCABULARY, WIDTH), (WIDTH, WIDTH), (WIDTH, VOCABULARY)))


def tokens_of(messages):
    """A template that only appends: what the model wrote comes back as the ids that it wrote."""
    ids = []
    for message in messages:
        if message["role"] == "assistant":
            ids += message["ids"]
        else:
            ids += [1, *(100 + byte for byte in message["content"].encode()), 2]
    return ids


def tiny_model(request):
    prompt = tokens_of(request["messages"])
    state, draws, ids, logprobs = np.zeros(WIDTH), np.random.default_rng(len(prompt)), [], []
    for token in prompt:
        state = np.tanh(EMBED[token] + state @ RECUR)
    while len(ids) < 6 and (not ids or ids[-1] % 4):
        logits = state @ HEAD
        chances = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        ids.append(int(draws.choice(VOCABULARY, p=np.exp(chances))))
        logprobs.append(float(chances[ids[-1]]))
        state = np.tanh(EMBED[ids[-1]] + state @ RECUR)
    choice = {"token_ids": ids, "logprobs": {"content": [{"token": "x", "logprob": one} for one in logprobs]}}
    calls = [("guess", {"number": sum(ids) % 10 + 1})]
    return reply(calls=calls, message={"ids": ids}, choice=choice, prompt_token_ids=prompt)


def test_samples_have_the_tokens_and_log_probabilities_of_the_model_bit_for_bit(tmp_path):
    trace = tmp_path / "run.jsonl"
    with model_server(tiny_model) as server:
        endpoint = ModelEndpoint("tiny", server.url, logprobs=True, return_token_ids=True)
        played = rollout(Guess, endpoint, 12, attempts=2, max_turns=6, trace=trace, progress=False)
    assert max(one.turns for one in played) > 2
    for rollouts in (played, Rollouts.load(trace)):
        samples = list(rollouts.samples("dr_grpo"))
        assert len(samples) == 24
        for sample in samples:
            replies = [tiny_model(call.request) for call in sample.rollout.calls]
            choices = [one["choices"][0] for one in replies]
            wrote = [token for one in choices for token in one["token_ids"]]
            chances = [entry["logprob"] for one in choices for entry in one["logprobs"]["content"]]
            assert sample.prompt_ids == replies[0]["prompt_token_ids"]
            assert sample.prompt_ids + sample.completion_ids == [
                *replies[-1]["prompt_token_ids"],
                *choices[-1]["token_ids"],
            ]
            masked = zip(sample.completion_ids, sample.logprobs, sample.loss_mask, strict=True)
            own = [(token, chance) for token, chance, mine in masked if mine]
            assert [token for token, _ in own] == wrote
            assert [chance.hex() for _, chance in own] == [chance.hex() for chance in chances]
            assert sample.reward == sample.rollout.reward


def call(prompt, written, logprobs=True):
    entries = {"content": [{"logprob": -0.5} for _ in written]} if logprobs else None
    choice = {"prompt_token_ids": prompt, "token_ids": written, "message": {"content": ""}, "logprobs": entries}
    return ModelCall({}, {"choices": [choice]})


def test_a_prompt_that_was_rewritten_begins_another_sample():
    (one,) = attempts(1.0)
    calls = (call([1, 2], [3]), call([1, 2, 3, 4], [5]), call([1, 2, 9], [6], logprobs=False))
    first, second = Rollouts([Rollout(**{**vars(one), "calls": calls})]).samples(None)
    assert (first.prompt_ids, first.completion_ids, first.loss_mask) == ([1, 2], [3, 4, 5], [1, 0, 1])
    assert first.logprobs == [-0.5, 0.0, -0.5]
    assert (second.prompt_ids, second.completion_ids, second.logprobs) == ([1, 2, 9], [6], None)


def test_rollouts_without_token_ids_are_an_error_that_says_how_to_get_them():
    rollouts = Rollouts(attempts(1.0, 0.0))
    with pytest.raises(PlanError, match="return_token_ids=True"):
        list(rollouts.samples())
    assert list(rollouts.samples(on_missing="skip")) == []


def test_a_budget_of_a_rollout_ends_it_and_one_of_the_run_ends_all():
    words = reply(calls=[("guess", {"number": 99})], usage={"prompt_tokens": 60, "completion_tokens": 40})
    with model_server(lambda request: words) as server:
        endpoint = ModelEndpoint("toy", server.url, prices=(1.0, 2.0))
        (one,) = rollout(Guess, endpoint, 1, budget=Budget(tokens=250), progress=False)
        played = rollout(Guess, endpoint, 50, run_budget=Budget(calls=20), concurrency=4, progress=False)
        (dear,) = rollout(Guess, endpoint, 1, budget=Budget(money=0.0002), progress=False)
    assert (one.turns, one.ended, one.total_return) == (3, "turns", 0.0)
    assert dear.turns == 2 and dear.calls[0].cost == pytest.approx(140e-6)
    assert {one.error.code for one in played} == {"BUDGET_EXCEEDED"} and len(played) <= 5
    assert "budget of 20 calls" in played[0].error.message
    assert played.summary()["calls"] <= 24
