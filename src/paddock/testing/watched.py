"""Watched: stands around an environment while probes drive it, and notes what no single probe sees.

The methods are replaced on the instance, so that their signatures still read as the environment's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import wraps
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.core.problem import Problem
from paddock.core.spec import EnvSpec
from paddock.core.wrapper import Wrapper
from paddock.hosting.client import HostedEnv
from paddock.testing.equivalence import data_equivalence, own_copy


class Watched(Wrapper[Any, Any, Any, Any]):
    """Notes which call runs, what steps print, who draws from global random streams, who changes data of before."""

    def __init__(self, env: Env[Any, Any]) -> None:
        super().__init__(env)
        self.calling = "nothing"
        self._printed = 0  # lines, by the step that printed most
        self._drawn: dict[str, str] = {}
        self._changed: tuple[str, str] | None = None
        self._returned: tuple[str, Any, Any] | None = None
        for name in ("reset", "step", "render", "close"):
            setattr(self, name, self._watching(name, getattr(env, name)))

    def problems(self) -> Iterator[Problem]:
        """What was noted so far."""
        for stream, call in self._drawn.items():
            yield Problem("global-random", f"`env.{call}()` changed the state of the global stream `{stream}`.")
        if self._printed:
            yield Problem("prints", f"`env.step()` prints {self._printed} line{'s' * (self._printed > 1)} per step.")
        if self._changed is not None:
            earlier, later = self._changed
            text = f"`env.{later}()` changed an observation or info that `env.{earlier}()` had returned."
            yield Problem("data-changed", text)

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        """The environment's own: watching is no part of it."""
        return self.env.spec

    def _watching(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calling = name
            before = _global_states()
            with self._count_lines(name):
                result = method(*args, **kwargs)
            for stream, state in _global_states().items():
                if stream in before and before[stream] != state:
                    self._drawn.setdefault(stream, name)
            self._compare(name)
            if name in ("reset", "step"):
                self._returned = name, result, own_copy(result)
            return result

        return call

    @contextmanager
    def _count_lines(self, name: str) -> Iterator[None]:
        """What a step prints: here by standing before the streams, behind a wall from what its worker wrote."""
        if name != "step":
            yield
            return
        inner = self.unwrapped
        if isinstance(inner, HostedEnv):
            before = len(inner.printed())
            yield
            text = inner.printed()[before:]
        else:
            out, err = _Copy(sys.stdout), _Copy(sys.stderr)
            with redirect_stdout(out), redirect_stderr(err):
                yield
            text = out.text + err.text
        self._printed = max(self._printed, len(text.splitlines()))

    def _compare(self, name: str) -> None:
        if self._returned is not None and self._changed is None:
            earlier, value, copy = self._returned
            if not data_equivalence(value, copy, exact=True):
                self._changed = earlier, name


class _Copy:
    """A stream that keeps what is written to it, and passes it on."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.text = stream, ""

    def write(self, text: str) -> int:
        self.text += text
        written: int = self._stream.write(text)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _global_states() -> dict[str, Any]:
    # By sys.modules: a module that nobody has imported is a stream that nobody draws from.
    states: dict[str, Any] = {}
    if "numpy.random" in sys.modules:  # NumPy itself loads it only when asked
        states["numpy.random"] = _comparable(sys.modules["numpy.random"].get_state(legacy=False))
    if "random" in sys.modules:
        states["random"] = sys.modules["random"].getstate()
    return states


def _comparable(state: dict[str, Any]) -> tuple[Any, ...]:
    """NumPy's state as something that compares quickly with ``==``."""
    return tuple(
        _comparable(part) if isinstance(part, dict) else part.tobytes() if isinstance(part, np.ndarray) else part
        for part in state.values()
    )
