"""TorchRL and Tianshou take our lanes. Their trials run where they are installed, in one process: imports are slow."""

import subprocess
import sys

import pytest

from paddock.adapters import rllib, tianshou, torchrl
from paddock.errors import DependencyNotInstalled
from tests.peers import ROOT, pytest_with_peer


def test_torchrl_and_tianshou_take_lanes(tmp_path):
    files = (ROOT / "tests" / "adapters" / f"{name}_trials.py" for name in ("torchrl", "tianshou"))
    assert "passed" in pytest_with_peer("sb3", *files, cwd=tmp_path)


@pytest.mark.parametrize(
    ("module", "call", "command"),
    [
        (torchrl, lambda: torchrl.batched_env("CartPole-v1", 2), 'pip install "paddock[torchrl]"'),
        (torchrl, lambda: torchrl.as_batched_env(None), 'pip install "paddock[torchrl]"'),
        (tianshou, lambda: tianshou.vector_env("CartPole-v1", 2), 'pip install "paddock[tianshou]"'),
        (tianshou, lambda: tianshou.as_vector_env(None), 'pip install "paddock[tianshou]"'),
        (rllib, lambda: rllib.register("CartPole-v1"), 'pip install "paddock[rllib]"'),
    ],
    ids=["TorchRL", "TorchRL's lanes", "Tianshou", "Tianshou's lanes", "RLlib"],
)
def test_a_missing_package_is_named_with_its_command(monkeypatch, module, call, command):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(DependencyNotInstalled) as raised:
        call()
    assert str(raised.value).endswith(f"To install: {command}")


def test_looking_at_the_adapters_imports_no_framework():
    program = """
import sys
import paddock.adapters.rllib, paddock.adapters.tianshou, paddock.adapters.torchrl
print(sorted({"torch", "torchrl", "tensordict", "tianshou", "ray", "gymnasium"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")
