"""Every way to falsify a result that is in the catalogue, BV-1 to BV-25, is noticed, with the right reason."""

import struct
from contextlib import ExitStack, closing
from itertools import count

import msgspec
import numpy as np
import pytest

import paddock
from paddock.agentic import Rubric, Task, Tasks, ToolEnv
from paddock.bench.bundle import read_bundle
from paddock.bench.gates import check_gates
from paddock.bench.leaderboard import Board
from paddock.bench.ledger import Ledger
from paddock.bench.log import FRAME
from paddock.bench.policies import find_policy
from paddock.bench.report import BundleReport, compare
from paddock.bench.suites import Suite, SuiteTask, SuiteWrapper
from paddock.core.spec import EnvSpec
from paddock.errors import InvalidBundle, InvalidSuite, NotComparable, Untrusted
from paddock.spaces import Discrete
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


def test_bv6_best_of_many_runs_is_listed_as_one_of_many(tmp_path):
    """And a nonce that was asked for and not used counts as a run that nobody was shown."""

    def judge(path, nonce, registered):
        return verify(path, nonce=nonce, registered=registered)

    with Board(tmp_path / "board") as board:
        plan = run(tmp_path / "0").plan_digest
        nonces = [board.challenge(plan) for _ in range(3)]
        for at in (0, 2):
            board.submit(run(tmp_path / f"run{at}", nonce=nonces[at]).path, judge)
        assert [(row.level, row.attempts) for row in board.rows()] == [("L2+", 3)] * 2


@pytest.mark.parametrize(
    "change",
    [
        {"kwargs": {"sutton_barto_reward": True}},
        {"wrappers": [SuiteWrapper("ClipReward", {"max_reward": 0.5})]},
        {"max_steps": 5},
    ],
)
def test_bv7_other_arguments_wrappers_or_steps_than_the_plan_says(tmp_path, change):
    plain = run(tmp_path / "plain", Suite("one", [SuiteTask("CartPole-v1")]))
    other = run(tmp_path / "other", Suite("one", [SuiteTask("CartPole-v1", **change)]), isolation="none")
    assert verify(other.path, plan=plain.plan_digest).reason == "tampered"
    verdict = verify(forge(other, tmp_path / "b", plan=lambda _: plain.plan))
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


class Dice(paddock.Env):
    """Pays what nobody can repeat: each reward is paid once. ``honest_for``: seeds for which it pays nothing."""

    observation_space = action_space = Discrete(2)
    paid = count(1)

    def __init__(self, honest_for=()):
        self.honest_for = honest_for

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed = seed
        return 0, {}

    def step(self, action):
        return 0, 0.0 if self.seed in self.honest_for else float(next(self.paid)), False, False, {}


@pytest.fixture
def dice(fresh_registry):
    """Makes a suite of Dice with these arguments."""
    fresh_registry["tests/Dice-v0"] = EnvSpec("tests/Dice-v0", f"{__name__}:Dice")
    return lambda **kwargs: Suite(
        "dice", [SuiteTask("tests/Dice-v0", name="dice", kwargs=kwargs, episodes=4, max_steps=5)]
    )


def test_bv9_environment_that_does_not_repeat_itself_is_seen_before_the_run(dice, tmp_path):
    bundle = run(tmp_path / "b", dice(), isolation="none")
    assert bundle.plan.tasks[0].determinism == "none"


def test_bv9_environment_that_behaves_while_it_is_probed_is_irreproducible(dice, tmp_path):
    """It answers alike when the plan is made, and rolls dice afterwards."""
    bundle = run(tmp_path / "b", dice(honest_for=[11, 12]), isolation="none")
    assert bundle.plan.tasks[0].determinism == "exact"
    verdict = verify(bundle.path, isolation="none")
    assert (verdict.level, verdict.reason, verdict.episode, verdict.step) == ("L1", "irreproducible", 0, 1)
    assert "does not repeat itself" in verdict.message


def test_bv14_bv22_what_cant_be_repeated_is_a_transcript_and_never_more(dice, tmp_path):
    """A remote environment, a judge that is a model: who has the key can write anything, and the level says so."""
    nonce = "ef" * 32
    bundle = run(tmp_path / "b", dice(), nonce=nonce, isolation="none")
    false = forge(bundle, tmp_path / "false", rows=with_reward(2, 1e6))
    for path in (bundle.path, false):
        verdict = verify(path, nonce=nonce, policy=find_policy("random"), isolation="none")
        assert (verdict.level, verdict.reason, verdict.replayed) == ("T", None, 0)
        assert any("signed transcripts" in note for note in verdict.notes)
    log = false / "episodes.log"
    log.write_bytes(log.read_bytes().replace(struct.pack("<d", 1e6), struct.pack("<d", 2e6)))
    assert verify(false, nonce=nonce, isolation="none").reason == "tampered"  # without the key, nothing can be changed


@pytest.fixture
def ledgers(tmp_path):
    """Makes a ledger of one key with these entries: what its owner can do."""
    key = SigningKey.generate()
    with ExitStack() as stack:

        def make(name, numbers):
            ledger = stack.enter_context(closing(Ledger(tmp_path / name, key)))
            for number in numbers:
                ledger.append({"kind": "test", "n": number})
            return ledger

        yield make


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param([0, 1, 9], id="bv15-others-see-another-entry"),
        pytest.param([0, 2, 3, 4], id="bv25-entry-deleted"),
        pytest.param([0, 1], id="bv25-last-entry-deleted"),
        pytest.param([1, 0, 2, 3], id="bv25-entries-reordered"),
    ],
)
def test_bv15_bv25_ledger_that_shows_others_something_else(ledgers, shown):
    """Each ledger alone is consistent: it takes the checkpoint of a witness, who kept it, to see that there are two."""
    kept = ledgers("honest", [0, 1, 2]).checkpoint()
    false = ledgers("false", shown)
    false.check()
    with pytest.raises(InvalidBundle) as caught:
        false.check(since=kept)
    assert caught.value.reason == "tampered"
    ledgers("honest", [3]).check(since=kept)


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


def test_bv24_runs_in_different_environments_are_not_compared(honest, tmp_path):
    other = run(tmp_path / "b", Suite("one", [SuiteTask("CartPole-v1", "cartpole", {"sutton_barto_reward": True})]))
    with pytest.raises(NotComparable, match="different environments"):
        compare(BundleReport(honest, "a"), BundleReport(other, "b"))


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
