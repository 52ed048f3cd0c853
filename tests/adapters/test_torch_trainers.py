"""TorchRL and Tianshou take our lanes. Their trials run where they are installed, in one process: imports are slow."""

import subprocess
import sys

import pytest

import paddock
from paddock.adapters import rllib, tianshou, torchrl
from paddock.adapters.trainers import hand_over
from paddock.errors import DependencyNotInstalled, NoArrayForm
from tests.peers import ROOT, pytest_with_peer


@pytest.mark.peers
def test_torchrl_and_tianshou_take_lanes(tmp_path):
    files = (ROOT / "tests" / "adapters" / f"{name}_trials.py" for name in ("torchrl", "tianshou"))
    assert "passed" in pytest_with_peer("sb3", *files, cwd=tmp_path)


@pytest.mark.parametrize(
    ("call", "command"),
    [
        (lambda: torchrl.batched_env("CartPole-v1", 2), "pip install torchrl"),
        (lambda: torchrl.as_batched_env(None), "pip install torchrl"),
        (lambda: tianshou.vector_env("CartPole-v1", 2), "pip install tianshou"),
        (lambda: tianshou.as_vector_env(None), "pip install tianshou"),
        (lambda: rllib.register("CartPole-v1"), "pip install 'ray[rllib]' torch"),
    ],
    ids=["TorchRL", "TorchRL's lanes", "Tianshou", "Tianshou's lanes", "RLlib"],
)
def test_a_missing_package_is_named_with_its_command(monkeypatch, call, command):
    monkeypatch.setattr("paddock.adapters.find_spec", lambda name: None)
    with pytest.raises(DependencyNotInstalled) as raised:
        call()
    assert str(raised.value).endswith(f"To install: {command}")


def test_lanes_that_an_adapter_refuses_are_closed():
    def refuse(lanes):
        raise NoArrayForm("no tensors of this")

    lanes = paddock.make("CartPole-v1", num_envs=2)
    with pytest.raises(NoArrayForm):
        hand_over(lanes, refuse)
    assert lanes.closed


@pytest.mark.process
def test_looking_at_the_adapters_imports_no_framework():
    program = """
import sys
import paddock.adapters.rllib, paddock.adapters.tianshou, paddock.adapters.torchrl
print(sorted({"torch", "torchrl", "tensordict", "tianshou", "ray", "gymnasium"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")
