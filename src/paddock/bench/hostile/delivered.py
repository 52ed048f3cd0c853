"""What a trainer was handed, looked at once more. Not with the spaces' own checks: an attack may have replaced them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

_ESCAPE = "\x1b"
_REWARD = 1e9  # the range of a default policy
_INFO_CHARACTERS = 256 << 10
_DEPTH = 100
_ERROR_CHARACTERS = 64 << 10


def leaks(value: Any, needles: Sequence[str], where: str) -> list[str]:
    """One sentence if a secret is anywhere in ``value``."""
    found = any(needle in text for text in texts(value, raw=True) for needle in needles)
    return [f"{where} brought back a secret"] if found else []


def leaks_of_error(error: BaseException, needles: Sequence[str], where: str) -> list[str]:
    """The same for an error and all that hangs on it."""
    return leaks(error_texts(error), needles, where)


def lies(call: str, value: Any, before: Sequence[dict[str, Any]]) -> list[str]:
    """What is wrong with a result of this call; the hostile environments all declare Box(0, 1, (2,), float32)."""
    if call == "reset":
        return [*_observation(value[0]), *_info(value[1])]
    if call == "state":
        count = value.step_count
        return [] if count is None or (type(count) is int and count >= 0) else [f"state: {count} steps"]
    if call != "step":
        return []
    observation, reward, terminated, truncated, info = value
    found = [*_observation(observation), *_reward(reward), *_info(info)]
    if not all(isinstance(flag, (bool, np.bool_)) for flag in (terminated, truncated)):
        found.append(f"step: a flag is {terminated!r}"[:80])
    if any(one.get("ended") for one in before if one["call"] == "step"):
        found.append("step: goes on after the end")
    return found


def first_lane(call: str, value: Any) -> Any:
    """Of what several lanes returned, what the first did."""
    if call not in ("reset", "step"):
        return value
    *results, infos = value
    info = {name: one[0] if isinstance(one, np.ndarray) else one for name, one in infos.items()}
    return (*(one[0] for one in results), info)


def lies_of_error(error: BaseException, call: str) -> list[str]:
    """Errors are shown on terminals and written to logs."""
    parts = error_texts(error)
    found = []
    if any(_ESCAPE in text for text in parts):
        found.append(f"{call}: an error with terminal escapes")
    if sum(map(len, parts)) > _ERROR_CHARACTERS:
        found.append(f"{call}: an error of {sum(map(len, parts))} characters")
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        found.append(f"{call}: {type(error).__name__} went through to the caller")
    return found


def check_description(env: Any, order: dict[str, Any], found: list[str]) -> None:
    """What it said of itself when it was made."""
    entry = getattr(env.spec, "entry_point", None)
    if entry == "os:system":
        found.append("make: its spec names os:system")
    words = list(texts(env.metadata))
    if any(_ESCAPE in text for text in words) or sum(map(len, words)) > _INFO_CHARACTERS:
        found.append("make: metadata that is long, or steers a terminal")


def error_texts(error: BaseException) -> list[str]:
    """Its text, its trace and those of its cause."""
    return [str(error), str(getattr(error, "trace", "")), str(error.__cause__ or "")]


def texts(value: Any, *, raw: bool = False, depth: int = 0) -> Iterator[str]:
    """Every text in ``value``, keys included; with ``raw`` bytes and arrays as text too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (bytes, bytearray)):
        yield value.decode("latin-1") if raw else ""
    elif isinstance(value, np.ndarray):
        yield value.tobytes().decode("latin-1") if raw and value.nbytes < (1 << 16) else ""
    elif isinstance(value, dict) and depth < _DEPTH:
        for key, item in value.items():
            yield from texts(key, raw=raw, depth=depth + 1)
            yield from texts(item, raw=raw, depth=depth + 1)
    elif isinstance(value, (list, tuple)) and depth < _DEPTH:
        for item in value:
            yield from texts(item, raw=raw, depth=depth + 1)


def _observation(value: Any) -> list[str]:
    if type(value) is not np.ndarray or value.dtype != np.float32 or value.shape != (2,):
        kind = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        return [f"an observation that is {kind}"]
    low, high = float(value.min()), float(value.max())
    return [] if low >= 0 and high <= 1 else [f"an observation from {low} to {high}"]


def _reward(value: Any) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        return [f"a reward that is {type(value).__name__}"]
    return [] if math.isfinite(value) and abs(value) <= _REWARD else [f"a reward of {value}"]


def _info(value: Any) -> list[str]:
    if type(value) is not dict:
        return [f"an info that is {type(value).__name__}"]
    words = list(texts(value))
    found = ["an info with terminal escapes"] if any(_ESCAPE in text for text in words) else []
    if sum(map(len, words)) > _INFO_CHARACTERS:
        found.append(f"an info of {sum(map(len, words))} characters")
    return found + (["an info that is too deep"] if _depth(value) > _DEPTH else [])


def _depth(value: Any) -> int:
    deep = 0
    while isinstance(value, dict) and value and deep <= _DEPTH:
        value = next(iter(value.values()))
        deep += 1
    return deep
