"""Packages that adapters need and paddock does not bring. To find out whether one is here, none is imported."""

from __future__ import annotations

from importlib.util import find_spec

from paddock.errors import DependencyNotInstalled

# By module: its name for people, and the extra of ours that brings it.
_PACKAGES = {
    "gymnasium": ("Gymnasium", "gymnasium"),
    "ray.rllib": ("RLlib", "rllib"),
    "stable_baselines3": ("Stable-Baselines3", "sb3"),
    "tianshou": ("Tianshou", "tianshou"),
    "torch": ("PyTorch", "torch"),
    "torchrl": ("TorchRL", "torchrl"),
}


def need(module: str) -> None:
    """Raise DependencyNotInstalled with the command that helps, if the module is missing."""
    package, _, _ = module.partition(".")
    if find_spec(package) is None or find_spec(module) is None:
        name, extra = _PACKAGES[module]
        raise DependencyNotInstalled(f'{name} is not installed. To install: pip install "paddock[{extra}]"')
