"""``gymnasium.envs``."""

from paddock.gym.envs.registration import make, pprint_registry, register, registry, spec

__all__ = ["make", "pprint_registry", "register", "registry", "spec"]
