"""Borrowed: what environments of other libraries have in common, however they step: seeds, copies, closing.

Their random streams are their own and of many kinds. So a generator that is assigned to ``np_random`` is not handed to
them: it gives the seed of the next episode that nobody seeds.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.errors import SnapshotUnsupported

# What paddock looks for on an environment: it is not to be found by accident among the attributes of another library.
_OURS = frozenset(("env", "episode", "name_episodes", "public_state", "state_space", "inner"))


class Borrowed(Env[Any, Any]):
    """Around ``inner``. Attributes that an Env has not are those of the environment inside."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self._closed = False
        self._seed_is_due = False

    def render(self) -> Any:
        return self.inner.render()

    def close(self) -> None:
        if not self._closed:  # not all of them can be closed twice
            self._closed = True
            self.inner.close()

    @property
    def np_random(self) -> np.random.Generator:
        """A stream beside that of the environment inside, which keeps its own."""
        return super().np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self._np_random, self._np_random_seed = value, -1
        self._seed_is_due = True

    def _seed_now(self, seed: int | None) -> int | None:
        """The seed for the environment inside at this reset; None where its stream goes on."""
        super().reset(seed=seed)
        due, self._seed_is_due = self._seed_is_due, False
        if seed is not None:
            return int(seed)  # a plain one: some refuse NumPy's integers
        return int(self.np_random.integers(1 << 31)) if due else None

    def snapshot(self) -> bytes:
        raise SnapshotUnsupported(
            f"{_name(self)} can't save its state: its library has no form for it. Repeat the actions from the seed, or "
            f"try copy.deepcopy(env)."
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Borrowed:
        from paddock.sources.gymnasium_snapshot import copied

        other = type(self).__new__(type(self))
        memo[id(self)] = other
        inner = self.inner
        memo[id(inner)] = other.inner = copied(inner) if hasattr(inner, "unwrapped") else deepcopy(inner, memo)
        vars(other).update({name: deepcopy(value, memo) for name, value in vars(self).items() if name != "inner"})
        return other

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set the attribute where it exists; a new one is the environment's inside."""
        mine = name in vars(self) or hasattr(type(self), name)
        if not (mine or force or hasattr(self.inner, name)):
            return False
        setattr(self if mine else self.inner, name, value)
        return True

    def __getattr__(self, name: str) -> Any:
        if name in _OURS or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.inner, name)


def _name(env: Borrowed) -> str:
    return type(getattr(env.inner, "unwrapped", env.inner)).__name__ if env.spec is None else env.spec.id
