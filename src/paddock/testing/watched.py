"""The wrappers that check_env puts around an environment: Watched, and InNumpy for arrays of JAX or Torch.

Methods are replaced on the instance, so that their signatures stay the environment's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from copy import deepcopy
from functools import wraps
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.core.problem import Problem
from paddock.core.spec import EnvSpec
from paddock.core.wrapper import Wrapper
from paddock.hosting.client import HostedEnv


class Watched(Wrapper[Any, Any, Any, Any]):
    """Notes what no single probe sees: prints, draws from global random streams, changes to data returned before."""

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
        """Yield the problems so far."""
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
        """The environment's own: watching is not part of it."""
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
        """Count the lines that a step prints: here on the streams, behind a wall in its worker's output."""
        if name != "step":
            yield
            return
        inner = self.unwrapped
        if isinstance(inner, HostedEnv):
            before = len(inner.worker_output())
            yield
            text = inner.worker_output()[before:]
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
    """A stream that stores the text written to it, and passes it on."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.text = stream, ""

    def write(self, text: str) -> int:
        self.text += text
        written: int = self._stream.write(text)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _global_states() -> dict[str, Any]:
    # By sys.modules: nothing draws from a module that is not imported.
    states: dict[str, Any] = {}
    if "numpy.random" in sys.modules:  # NumPy itself loads it only when asked
        states["numpy.random"] = _comparable(sys.modules["numpy.random"].get_state(legacy=False))
    if "random" in sys.modules:
        states["random"] = sys.modules["random"].getstate()
    return states


def _comparable(state: dict[str, Any]) -> tuple[Any, ...]:
    """Turn NumPy's state into something that compares quickly with ``==``."""
    return tuple(
        _comparable(part) if isinstance(part, dict) else part.tobytes() if isinstance(part, np.ndarray) else part
        for part in state.values()
    )


_ARRAY_MAKERS = {"jax": ("jax.numpy", "asarray"), "torch": ("torch", "as_tensor")}


def in_numpy(env: Env[Any, Any]) -> Env[Any, Any]:
    """Wrap the environment so that its arrays are NumPy's, if ``metadata["jax"]`` or ``metadata["torch"]`` is set."""
    for library in _ARRAY_MAKERS:
        if env.metadata.get(library, False):
            return InNumpy(env, library)
    return env


class InNumpy(Wrapper[Any, Any, Any, Any]):
    """Converts actions to the environment's arrays and results to NumPy's. Neither library is imported here."""

    def __init__(self, env: Env[Any, Any], library: str) -> None:
        super().__init__(env)
        self._library = library

        @wraps(env.reset)
        def reset(*args: Any, **kwargs: Any) -> Any:
            return to_numpy(env.reset(*args, **kwargs))

        setattr(self, "reset", reset)  # noqa: B010  # on the instance: keeps the signature

    def step(self, action: Any) -> Any:
        module, maker = _ARRAY_MAKERS[self._library]
        # An environment whose library is not loaded takes NumPy.
        if module in sys.modules and isinstance(action, np.ndarray | np.generic):
            action = getattr(sys.modules[module], maker)(action)
        result = self.env.step(action)
        if not isinstance(result, tuple) or len(result) != 5:
            return result
        observation, reward, terminated, truncated, info = result
        return to_numpy(observation), _to_scalar(reward), _to_scalar(terminated), _to_scalar(truncated), to_numpy(info)

    def render(self) -> Any:
        return to_numpy(self.env.render())

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        """The environment's own: converting is not part of it."""
        return self.env.spec


def to_numpy(value: Any) -> Any:
    """Turn every foreign array in the value into a NumPy array."""
    if isinstance(value, np.ndarray | np.generic):
        return value
    if type(value) is dict:
        return {key: to_numpy(part) for key, part in value.items()}
    if type(value) in (tuple, list):
        return type(value)(map(to_numpy, value))
    if hasattr(value, "detach"):  # Torch: out of the graph and off the device first
        value = value.detach().cpu()
    return np.asarray(value) if hasattr(value, "__array__") else value


def _to_scalar(value: Any) -> Any:
    array = to_numpy(value)
    return array.item() if isinstance(array, np.ndarray) and array.shape == () else array


# ── Compare two values of an environment. Any two Python objects can be compared; none raises ──

_TOLERANCE = 1e-5


def data_equivalence(data_1: Any, data_2: Any, exact: bool = False) -> bool:
    """Whether both have the same types, structure and values, arrays within 1e-5 unless ``exact``.

    NaN is the same as NaN: the question is whether two runs gave the same, not whether the numbers are good.
    """
    try:
        return _same(data_1, data_2, exact, frozenset())
    except Exception:  # an __eq__ that raises, or nesting deeper than Python goes: not known to be the same
        return False


def _same(one: Any, other: Any, exact: bool, open_pairs: frozenset[tuple[int, int]]) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    array = isinstance(one, np.ndarray)
    if array and (one.shape != other.shape or one.dtype != other.dtype):
        return False
    if isinstance(one, dict | tuple | list) or (array and one.dtype == object):
        pair = (id(one), id(other))
        # A pair that contains itself adds nothing: it is the same if everything else is.
        return pair in open_pairs or _same_parts(one, other, exact, open_pairs | {pair})
    if array:
        if one.dtype.kind not in "fciub":  # text, dates, records: no tolerance, perhaps no NaN either
            return bool(np.array_equal(one, other))
        if exact:
            return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))
        return bool(np.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True))
    if isinstance(one, float | complex | np.inexact) and one != one:
        return bool(other != other)  # NaN
    equal = one == other
    # Foreign arrays compare element by element.
    return bool(equal) if isinstance(equal, bool) else bool(np.all(np.asarray(equal)))


def _same_parts(one: Any, other: Any, exact: bool, open_pairs: frozenset[tuple[int, int]]) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key], exact, open_pairs) for key in one)
    if isinstance(one, np.ndarray):
        one, other = one.flat, other.flat
    elif len(one) != len(other):
        return False
    return all(_same(*pair, exact, open_pairs) for pair in zip(one, other, strict=True))


def own_copy(value: Any) -> Any:
    """Copy a value so that later calls can't change it; return the value itself if it can't be copied."""
    try:
        return deepcopy(value)
    except Exception:
        return value
