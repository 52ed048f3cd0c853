"""Which action the ALE holds down: with sticky actions it repeats one that is not always the last one it was given.

The ALE's own state leaves that action out. But it holds the random numbers by which each frame kept or took an action,
so from those and the actions of the last steps it can be told; and holding it again is a matter of acting.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

import numpy as np

from paddock.errors import SnapshotUnsupported

_STEPS = 256  # as far back as anyone looks: with p = 0.25 an action is held for a frame or two
_WORDS = 624
_GENERATOR = re.compile(rb"(?:\d+ ){624}\d+")


class StickyActions:
    """Stands in for ``step`` of an AtariEnv and remembers what it was asked to do, and for how many frames."""

    def __init__(self, env: Any) -> None:
        self._env, self._step = env, env.step
        self._recent: deque[tuple[Any, int]] = deque(maxlen=_STEPS)
        self._before: int | None = None  # what was held before those; None: nothing, as in the beginning
        self._frame = 0
        env.step = self

    def __call__(self, action: Any) -> Any:
        before = self._env.ale.getEpisodeFrameNumber()
        if before < self._frame:
            self._begin(None)
        result = self._step(action)
        self._frame = self._env.ale.getEpisodeFrameNumber()
        self._recent.append((action, self._frame - before))
        return result

    def _begin(self, held: int | None) -> None:
        """Where frames are counted anew: a reset lets go of what was held, and a snapshot brings its own."""
        self._recent.clear()
        self._before = held
        self._frame = self._env.ale.getEpisodeFrameNumber()

    def held(self) -> int | None:
        """The action, as the environment names it, that is held now; None before the first one."""
        if self._env.ale.getEpisodeFrameNumber() < self._frame:
            self._begin(None)
        frames = [action for action, count in self._recent for _ in range(count)]
        taken = _taken(self._env.ale, len(frames))
        if not taken.any():
            if len(self._recent) == _STEPS:
                raise SnapshotUnsupported(f"The ALE has held one action for {_STEPS} steps, longer than is remembered.")
            return self._before
        return int(frames[len(frames) - 1 - int(np.argmax(taken[::-1]))])

    def hold(self, action: int | None, state: Any) -> None:
        """Be in that state of the ALE, with this action held."""
        ale = self._env.ale
        ale.restoreState(state)  # a game that is over takes no action
        wanted = self._env._action_set[0 if action is None else action]
        for _ in range(10_000):
            ale.act(wanted)
            if _taken(ale, 1)[0]:
                break
        ale.restoreState(state)
        self._begin(action)


def watch(env: Any) -> None:
    """Remember the actions of this AtariEnv from now on, if its actions are sticky."""
    if float(env.ale.getFloat("repeat_action_probability")) > 0 and watched(env) is None:
        StickyActions(env)


def watched(env: Any) -> StickyActions | None:
    """What remembers for this environment."""
    found = vars(env).get("step")
    return found if isinstance(found, StickyActions) else None


def _taken(ale: Any, frames: int) -> Any:
    """Of the last frames, oldest first, whether each took the action that it was given."""
    chance = ale.getFloat("repeat_action_probability")
    draws = _last_draws(ale.cloneState(include_rng=True).serialize(), 2 * min(frames, _WORDS // 4))
    seen = draws[::2] / 2.0**32 >= chance  # the other draws are the second player's
    return np.concatenate((np.zeros(frames - len(seen), bool), seen))


def _last_draws(state: bytes, count: int) -> Any:
    """The last numbers that the environment's Mersenne Twister gave out."""
    *_, text = _GENERATOR.findall(state)
    words = np.array(text.split(), np.uint64)
    block, at = words[:_WORDS], int(words[_WORDS])
    untempered = np.concatenate((_block_before(block), block))[_WORDS + at - count : _WORDS + at]
    return _tempered(untempered)


def _block_before(block: Any) -> Any:
    """The words that this block was made from, as far as they can be told: the last 395."""
    mixed = block ^ np.concatenate((np.zeros(227, np.uint64), block[:-227]))
    odd = mixed >> np.uint64(31)
    doubled = (((mixed ^ odd * np.uint64(0x9908B0DF)) << np.uint64(1)) | odd) & np.uint64(0xFFFFFFFF)
    before = np.zeros(_WORDS, np.uint64)
    top, rest = np.uint64(0x80000000), np.uint64(0x7FFFFFFF)
    before[1:] = (doubled[1:] & top) | (doubled[:-1] & rest)
    return before


def _tempered(words: Any) -> Any:
    y = words ^ (words >> np.uint64(11))
    y = y ^ ((y << np.uint64(7)) & np.uint64(0x9D2C5680))
    y = y ^ ((y << np.uint64(15)) & np.uint64(0xEFC60000))
    return (y ^ (y >> np.uint64(18))) & np.uint64(0xFFFFFFFF)
