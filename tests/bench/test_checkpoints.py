"""Checkpoints as policies: a run with one is verified by playing it again."""

import pytest

from tests.peers import run_with_peer

PROGRAM = """
import json, tempfile
from pathlib import Path

import gymnasium
import stable_baselines3
import torch

from paddock.bench.policies import find_policy
from paddock.bench.suites import Suite, SuiteTask
from tests.bench.forging import run, verify

torch.set_num_threads(1)
folder = Path(tempfile.mkdtemp())
torch.jit.script(torch.nn.Linear(4, 2)).save(str(folder / "model.pt"))
stable_baselines3.PPO("MlpPolicy", gymnasium.make("CartPole-v1"), n_steps=64, device="cpu").save(folder / "ppo.zip")
found = []
for policy in (f"torch:{folder / 'model.pt'}", f"sb3:PPO:{folder / 'ppo.zip'}"):
    suite = Suite("one", [SuiteTask("CartPole-v1", name="cartpole", episodes=4)])
    bundle = run(folder / policy.partition(":")[0], suite, policy=policy, nonce="ab" * 32)
    verdict = verify(bundle.path, nonce="ab" * 32, policy=find_policy(policy))
    found.append([verdict.level, verdict.reason, {one.status for one in bundle.episodes} <= {"complete", "truncated"}])
print(json.dumps(found))
"""


@pytest.mark.peers
@pytest.mark.process
def test_runs_of_checkpoints_reach_the_highest_level():
    assert run_with_peer("sb3", PROGRAM) == [["L3", None, True]] * 2
