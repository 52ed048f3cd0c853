"""Every way to falsify a result that is in the catalogue, BV-1 to BV-25, is noticed, with the right reason."""

import struct

import msgspec
import numpy as np
import pytest

import paddock.bench.verify as verifying
from paddock.agentic import Rubric, Task, Tasks, ToolEnv
from paddock.bench.bundle import read_bundle
from paddock.bench.gates import check_gates
from paddock.bench.log import FRAME
from paddock.bench.policies import find_policy
from paddock.bench.suites import Suite, SuiteTask
from paddock.core.spec import EnvSpec
from paddock.errors import InvalidSuite, Untrusted
from paddock.trust.keys import SigningKey
from tests.bench.forging import CARTPOLE, KEY, copy, forge, run, trust_only, verify


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return run(tmp_path_factory.mktemp("honest") / "bundle")


def with_reward(at, value):
    def change(number, rows):
        if number == 3:
            rows["reward"][at] = value
        return rows

    return change


def frames(text):
    """(number, kind, bytes) of each frame of a log."""
    at, found = 0, []
    while at < len(text):
        size, number, kind = FRAME.unpack_from(text, at)
        end = at + FRAME.size + size
        found.append((number, kind, text[at:end]))
        at = end
    return found


def test_honest_bundle_verifies_and_says_what_it_does_not_show(honest):
    verdict = verify(honest.path)
    assert (verdict.level, verdict.reason, verdict.replayed) == ("L2", None, 4)
    assert any("not attributed" in note for note in verdict.notes)
    assert any("discarded" in note for note in verdict.notes)


def test_bv1_reward_edited_in_the_log(honest, tmp_path):
    log = copy(honest, tmp_path / "b") / "episodes.log"
    text = log.read_bytes()
    log.write_bytes(text.replace(struct.pack("<d", 1.0), struct.pack("<d", 2.0), 1))
    assert verify(log.parent).reason == "tampered"


def test_bv2_reward_edited_by_the_key_holder_is_found_at_its_step(honest, tmp_path):
    verdict = verify(forge(honest, tmp_path / "b", rows=with_reward(5, 2.0)))
    assert (verdict.reason, verdict.episode, verdict.step) == ("tampered", 3, 6)
    assert verdict.message == "episode 3, step 6: the environment gives reward 1.0, the record says 2.0."


@pytest.mark.parametrize("way", ["dropped", "swapped", "duplicated", "truncated"])
def test_bv3_episodes_of_the_log(honest, tmp_path, way):
    log = copy(honest, tmp_path / "b") / "episodes.log"
    parts = frames(log.read_bytes())
    of = {number: [text for one, _, text in parts if one == number] for number in range(4)}
    order = {
        "dropped": [of[0], of[1], of[2]],
        "swapped": [of[0], of[1], of[3], [b"".join(of[2])]],
        "duplicated": [of[0], of[1], of[2], of[3], of[3]],
        "truncated": [of[0], of[1], of[2], of[3][:-2], of[3][-1:]],
    }[way]
    log.write_bytes(b"".join(text for episode in order for text in episode))
    expected = {"dropped": "incomplete"}.get(way, "tampered")
    assert verify(log.parent).reason == expected


@pytest.mark.parametrize(("numbers", "reason"), [([0, 1, 2], "incomplete"), ([0, 1, 3, 2], "tampered")])
def test_bv3_episodes_dropped_or_swapped_by_the_key_holder(honest, tmp_path, numbers, reason):
    assert verify(forge(honest, tmp_path / "b", numbers=numbers)).reason == reason


def test_bv4_plan_shrunk_around_a_bad_episode(honest, tmp_path):
    def shrink(plan):
        return msgspec.structs.replace(plan, tasks=(msgspec.structs.replace(plan.tasks[0], episodes=3),))

    kept = forge(honest, tmp_path / "a", plan=shrink, numbers=[0, 1, 2], seed=lambda number, seed: seed)
    assert verify(kept).reason == "tampered"  # seeds follow from the plan
    assert verify(forge(honest, tmp_path / "b", plan=shrink, numbers=[0, 1, 2])).reason == "tampered"
    again = run(tmp_path / "c", episodes=3)
    assert verify(again.path, plan=honest.plan_digest).reason == "tampered"


def test_bv5_lucky_seed(honest, tmp_path):
    lucky = forge(honest, tmp_path / "b", seed=lambda number, seed: seed + (number == 2))
    verdict = verify(lucky)
    assert (verdict.reason, verdict.episode) == ("tampered", 2)


def test_bv6_best_of_many_runs_has_another_nonce_than_the_one_issued(tmp_path):
    nonce = "ab" * 32
    issued = run(tmp_path / "issued", nonce=nonce)
    assert verify(issued.path, nonce=nonce).level == "L2+"
    assert verify(issued.path).level == "L2"  # a verifier who issued no nonce can't tell
    lucky = run(tmp_path / "lucky", seed=99)
    assert verify(lucky.path, nonce=nonce).reason == "tampered"


def test_bv7_other_arguments_than_the_plan_says(tmp_path):
    other = run(tmp_path / "other", Suite("one", [SuiteTask("CartPole-v1", kwargs={"sutton_barto_reward": True})]))
    plain = run(tmp_path / "plain", Suite("one", [SuiteTask("CartPole-v1")]))
    forged = forge(other, tmp_path / "b", plan=lambda _: plain.plan)
    verdict = verify(forged)
    assert verdict.reason == "tampered"
    assert verdict.step is not None


def test_bv7_digest_in_the_plan_that_is_not_the_environments(honest, tmp_path):
    def lie(plan):
        return msgspec.structs.replace(plan, tasks=(msgspec.structs.replace(plan.tasks[0], environment="0" * 64),))

    assert verify(forge(honest, tmp_path / "b", plan=lie)).reason == "tampered"


def test_bv8_other_platform_than_here(honest, tmp_path):
    elsewhere = {**honest.start.platform, "numpy": "1.0", "class": "0" * 64}
    forged = forge(honest, tmp_path / "b", rows=with_reward(0, 7.0), start={"platform": elsewhere})
    verdict = verify(forged)
    assert verdict.reason == "irreproducible"
    assert "numpy 1.0" in verdict.message
    same = forge(honest, tmp_path / "c", start={"platform": elsewhere})
    assert verify(same).reason is None  # what replays bit for bit needs no excuse


def test_bv10_failed_episodes_hidden(honest, tmp_path):
    verdict = verify(forge(honest, tmp_path / "b", numbers=[0, 2, 3]))
    assert verdict.reason == "incomplete"


def test_bv11_actions_are_attributed_only_when_the_policy_is_replayed(tmp_path):
    nonce = "cd" * 32
    bundle = run(tmp_path / "b", nonce=nonce)
    assert any("not attributed" in note for note in verify(bundle.path, nonce=nonce).notes)
    assert verify(bundle.path, nonce=nonce, policy=find_policy("random")).level == "L3"


def test_bv11_actions_found_by_search_are_not_those_of_the_policy(honest, tmp_path):
    searched = run(tmp_path / "searched", policy="null")
    claimed = msgspec.structs.replace(searched.plan, policy=find_policy("random").plan)
    forged = forge(searched, tmp_path / "b", plan=lambda _: claimed, seed=None)
    verdict = verify(forged, policy=find_policy("random"))
    assert verdict.reason == "tampered"


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (SuiteTask("CartPole-v1", floor=1.0), "doing nothing"),
        (SuiteTask("CartPole-v1", ceiling=5.0), "random actions"),
        (SuiteTask("tests/Gullible-v0", floor=0.0, max_steps=5), "can be fooled"),
    ],
)
def test_bv12_and_bv13_suite_that_pays_for_nothing_is_refused(task, words, gullible):
    task.name = task.env
    with pytest.raises(InvalidSuite, match=words):
        check_gates(Suite("bad", [task]), isolation="none" if "/" in task.env else None)


class Believing(Rubric):
    def forward(self, action, observation):
        return float("reward" in getattr(action, "text", ""))


class Gullible(ToolEnv):
    """An environment of tools whose grader believes what an agent says of itself."""

    tasks = Tasks(train=[Task(seed=1, prompt="Win.")])
    timeout_s = begin_timeout_s = rubric_timeout_s = None

    def __init__(self):
        self.rubric = Believing()

    def begin(self, task):
        """Nothing to prepare."""

    def listen(self, text):
        self.finish()
        return "done"


@pytest.fixture
def gullible(fresh_registry):
    fresh_registry["tests/Gullible-v0"] = EnvSpec("tests/Gullible-v0", f"{__name__}:Gullible")


def test_bv14_bv15_bv22_what_cant_be_repeated_is_a_transcript_and_never_more(tmp_path, monkeypatch):
    monkeypatch.setattr("paddock.bench.plan._agree", lambda one, other: False)
    bundle = run(tmp_path / "b", nonce="ef" * 32)
    verdict = verify(bundle.path, nonce="ef" * 32)
    assert (verdict.level, verdict.reason, verdict.replayed) == ("T", None, 0)
    assert any("signed transcripts" in note for note in verdict.notes)


def test_bv16_statistics_come_from_the_steps(honest, tmp_path):
    bundle = read_bundle(honest.path)
    totals = [
        np.frombuffer(b"".join(payloads), bundle.plan.tasks[0].row)["reward"].sum()
        for _, payloads in bundle.log.load(bundle.episodes)
    ]
    assert np.array_equal(bundle.values(0), totals)


def test_bv17_unknown_or_revoked_key(honest):
    assert verify(honest.path, judge=trust_only(SigningKey.generate())).reason == "untrusted"

    def revoked(signer):
        raise Untrusted("That key was revoked.", fingerprints=(signer.fingerprint,))

    assert verify(honest.path, judge=revoked).reason == "untrusted"


def test_bv18_bundle_shown_as_one_of_another_plan(honest, tmp_path):
    other = run(tmp_path / "other", episodes=3)
    mixed = copy(honest, tmp_path / "mixed")
    (mixed / "plan.json").write_bytes((other.path / "plan.json").read_bytes())
    assert verify(mixed).reason == "tampered"
    assert verify(honest.path, plan=other.plan_digest).reason == "tampered"


@pytest.mark.parametrize("value", [-0.0, float("nan"), np.nextafter(1.0, 2.0)])
def test_bv19_numbers_that_text_would_hide(honest, tmp_path, value):
    assert verify(forge(honest, tmp_path / "b", rows=with_reward(1, value))).reason == "tampered"


def test_bv20_half_a_record(honest, tmp_path):
    half = copy(honest, tmp_path / "b")
    (half / "statement.json").unlink()
    assert verify(half).reason == "incomplete"
    text = (half / "episodes.log").read_bytes()
    for size in range(0, len(text), 97):
        (half / "episodes.log").write_bytes(text[:size])
        assert verify(half).reason == "incomplete"


def test_bv21_longer_time_limit(honest, tmp_path):
    def stretch(number, rows):
        return np.concatenate([rows[:-1], rows[-2:-1], rows[-1:]])

    assert verify(forge(honest, tmp_path / "b", rows=stretch)).reason == "tampered"


def test_bv23_checkpoint_swapped(honest):
    verdict = verify(honest.path, policy=find_policy("null"))
    assert verdict.reason == "tampered"
    assert "digests differ" in verdict.message


def test_environment_that_does_not_repeat_itself_is_irreproducible(honest, tmp_path, monkeypatch):
    calls = iter(range(1000))
    monkeypatch.setattr(
        verifying,
        "_replay_one",
        lambda bundle, task, env, episode: verifying.Difference(episode.number, next(calls), "chance"),
    )
    verdict = verify(forge(honest, tmp_path / "b", rows=with_reward(5, 2.0)))
    assert verdict.reason == "irreproducible"
    assert "does not repeat itself" in verdict.message


def test_key_of_the_start_must_sign(honest, tmp_path):
    other = SigningKey.generate()
    swapped = copy(honest, tmp_path / "c")
    start = (swapped / "start.json").read_text().replace(str(KEY.public), str(other.public))
    (swapped / "start.json").write_text(start)
    assert verify(swapped, judge=lambda signer: None).reason == "tampered"


def test_bundle_of_a_stranger_runs_nothing_before_it_is_checked(honest, tmp_path):
    def name_code(plan):
        spec = plan.tasks[0].spec.replace("paddock.envs.classic_control.cartpole:CartPoleEnv", "antigravity:Env")
        task = msgspec.structs.replace(plan.tasks[0], spec=spec, target="antigravity:Env-v0")
        return msgspec.structs.replace(plan, tasks=(task,))

    import sys

    verdict = verify(forge(honest, tmp_path / "b", plan=name_code))
    assert verdict.reason in ("irreproducible", "tampered")
    assert "antigravity" not in sys.modules


def test_num_envs_changes_no_bit(honest, tmp_path):
    assert run(tmp_path / "b", CARTPOLE, num_envs=1).digest == honest.digest
