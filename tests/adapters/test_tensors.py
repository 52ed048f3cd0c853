"""Environments of tensors, where Torch is; and what is said where it is not."""

import sys

import pytest

import paddock
from paddock.adapters import tensors
from paddock.errors import DependencyNotInstalled
from tests.peers import ROOT, pytest_with_peer


@pytest.mark.peers
def test_environments_of_tensors():
    assert "passed" in pytest_with_peer("sb3", ROOT / "tests/adapters/tensor_cases.py")


@pytest.mark.parametrize("missing", [{}, {"num_envs": 2}])
def test_missing_torch_is_told_with_the_command_that_helps(missing, monkeypatch):
    monkeypatch.setattr("paddock.adapters.find_spec", lambda name: None)
    env = paddock.make("CartPole-v1", **missing)
    for ask in (lambda: tensors.make("CartPole-v1", **missing), lambda: tensors.as_tensors(env)):
        with pytest.raises(DependencyNotInstalled, match="pip install torch"):
            ask()


def test_missing_libraries_of_arrays_are_told_with_the_command_that_helps(monkeypatch):
    for library in ("torch", "jax.numpy"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(DependencyNotInstalled, match="pip install torch"):
        tensors.to_torch(1.0)
    with pytest.raises(DependencyNotInstalled, match="pip install jax"):
        tensors.to_jax(1.0)
