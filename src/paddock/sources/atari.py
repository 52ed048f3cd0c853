"""Atari: the ALE's own lanes, and the state of one game as plain data.

``AtariLanes`` is not what ``make("ALE/Pong-v5")`` shows, which is whole pictures in colour. A lane sees what one
environment does under Gymnasium's ``AtariPreprocessing`` and ``FrameStackObservation`` with the same settings; but the
two are seeded differently, in sticky actions and in what happens before the first step.
"""

from __future__ import annotations

import re
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import numpy as np

from paddock.core.env import Info
from paddock.core.lane import lane_seeds, reset_mask, reset_needed
from paddock.core.state import State as EpisodeState
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import (
    ClosedEnvironmentError,
    InvalidSeed,
    InvalidSnapshot,
    PlanError,
    ResetNeeded,
    SnapshotUnsupported,
)
from paddock.sources.foreign import State, check_actions, to_ours
from paddock.spaces.batch import batch_space

Array = np.ndarray[Any, Any]

_SEEDS = 1 << 31  # the ALE's are of 32 bits, with a sign
_GOES_ON = -1  # as a seed: the stream goes on
_STEPS = 256  # to remember: with p = 0.25 an action is held for a frame or two
_WORDS = 624  # of a Mersenne Twister
_GENERATOR = re.compile(rb"(?:\d+ ){624}\d+")
_OURS = {"num_threads": "lanes=LaneOptions(threads=…)", "batch_size": "all lanes, in step"}


class AtariLanes(VectorEnv[Any, Any, Array]):
    """``num_envs`` lanes of one game, in threads of the ALE. Other arguments go to ``ale_py``'s ``AtariVectorEnv``.

    observations: uint8[n, stack_num, img_height, img_width], and [..., 3] with ``grayscale=False``; fresh arrays each
    time. rewards: float64[n]. Actions are always validated: one that the game does not have would end the process.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        threads: int | None = None,
        obs_type: str = "rgb",
        **arguments: Any,
    ) -> None:
        from ale_py.vector_env import AtariVectorEnv

        for name in arguments:
            if name in _OURS:
                raise PlanError(f"{name}= can't be passed on to the ALE: {_OURS[name]}.")
        if obs_type == "ram":
            raise PlanError("backend='ale' shows pictures, not the machine's memory. Pass backend='loop'.")
        skip = arguments.get("frameskip", 4)
        if type(skip) is not int or skip < 1:
            raise PlanError(
                f"backend='ale' skips the same number of frames at each step; frameskip={skip!r} is not a positive int."
            )
        self.num_envs, self.autoreset_mode = num_envs, AutoresetMode(autoreset_mode)
        # Without autoreset a lane that ended is never stepped before its reset, so the ALE never restarts it.
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        theirs = AutoresetMode.SAME_STEP.value if same_step else AutoresetMode.NEXT_STEP.value
        self._ale: Any = AtariVectorEnv(num_envs=num_envs, num_threads=threads or 0, autoreset_mode=theirs, **arguments)
        self.single_observation_space = to_ours(self._ale.single_observation_space)
        self.single_action_space = to_ours(self._ale.single_action_space)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self._name = uuid4().hex
        self._begun = False
        self._ended = np.zeros(num_envs, np.bool_)
        self._steps, self._episodes = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.int64)

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        self._check_open()
        mask, _ = reset_mask(options, self.num_envs, begun=self._begun)
        seeds = [_GOES_ON if one is None else one for one in lane_seeds(seed, self.num_envs)]
        if max(seeds) >= _SEEDS:
            raise InvalidSeed(f"The ALE's seeds are below 2**31, and a lane has {max(seeds)}. Choose a smaller seed.")
        self._take_back()
        observations, raw_infos = self._ale.reset(seed=np.array(seeds)[mask], options={"reset_mask": mask})
        self._begun = True
        self._ended[mask], self._steps[mask] = False, 0
        self._episodes[mask] += 1
        return observations, _infos(raw_infos, mask)

    def send(self, actions: Any) -> None:
        self._check_open()
        if not self._begun:
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            raise reset_needed(int(np.argmax(self._ended)))
        checked = check_actions(self, actions)
        self._take_back()
        self._ale.send(checked)
        self._sent = checked

    def recv(self) -> tuple[Any, Array, Array, Array, Info]:
        self._take_sent()
        observations, rewards, terminations, truncations, raw_infos = self._ale.recv()
        over = terminations | truncations
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            self._steps = np.where(over, 0, self._steps + 1)
            self._episodes += over
        else:  # without autoreset none had ended
            self._episodes += self._ended
            self._steps = np.where(self._ended, 0, self._steps + 1)
            self._ended = over
        infos = _infos(raw_infos, np.ones(self.num_envs, np.bool_))
        if "final_obs" in raw_infos and over.any():
            last = np.full(self.num_envs, None, object)  # one object per lane, as other lanes have it
            for lane in np.flatnonzero(over).tolist():
                last[lane] = raw_infos["final_obs"][lane].copy()
            infos["final_obs"], infos["_final_obs"] = last, over.copy()
        return observations, rewards.astype(np.float64), terminations, truncations, infos

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("This environment is closed. Make a new one.")

    def _take_back(self) -> None:
        """Drop a step that was sent and never received."""
        if self._sent is not None:
            self.recv()

    def state(self) -> tuple[EpisodeState, ...]:
        return tuple(
            EpisodeState(f"{self._name}-{lane}-{self._episodes[lane]}" if self._begun else None, int(self._steps[lane]))
            for lane in range(self.num_envs)
        )

    def snapshot(self) -> bytes:
        raise SnapshotUnsupported("The ALE's own lanes can't be saved: it has no form for them. Pass backend='loop'.")

    def restore(self, snapshot: bytes) -> None:
        raise SnapshotUnsupported("The ALE's own lanes can't go on from a snapshot. Pass backend='loop'.")

    def name_episodes(self, names: Callable[[], str]) -> None:
        """Take the episodes' names from here instead of drawing them."""
        self._name = names()

    def close_extras(self, **kwargs: Any) -> None:
        """The ALE's threads end with what holds them."""
        self._ale = None


def _infos(raw_infos: Info, mask: Array) -> Info:
    """Return the ALE's counts per lane, without the lane's number: the row says it."""
    infos: Info = {}
    for key in ("lives", "frame_number", "episode_frame_number"):
        if key in raw_infos:
            infos[key], infos[f"_{key}"] = np.where(mask, raw_infos[key], 0), mask.copy()
    return infos


class Ale:
    """The Simulator of an AtariEnv. Steps draw the picture: right after ``restore``, ``render`` shows an older one."""

    constants = frozenset(("ale", "_action_set", "step"))
    settings = frozenset(("_game", "_game_mode", "_game_difficulty", "_frameskip", "_obs_type", "continuous"))

    def __init__(self, ale: Any, env: Any) -> None:
        self._ale, self._env = ale, env
        self._game = str(getattr(env, "_game", ""))

    def state(self) -> State:
        bits = self._env.ale.cloneState(include_rng=True).serialize()
        sticky = find_watcher(self._env)
        held = None if sticky is None else sticky.held_action()
        return {"simulator": "ALE", "game": self._game, "bits": bits, "held": held}

    def check(self, state: State) -> Any:
        bits, held = state.get("bits"), state.get("held")
        if state.get("simulator") != "ALE" or state.get("game") != self._game or not isinstance(bits, bytes):
            raise InvalidSnapshot(f"This snapshot is not of {self._game}, the game played here.")
        if held is not None and not (type(held) is int and 0 <= held < len(self._env._action_set)):
            raise InvalidSnapshot("This snapshot holds down an action that the game does not have.")
        if not is_laid_out(bits, self._env.ale.cloneState(include_rng=True).serialize()):
            raise InvalidSnapshot("This is not a state of the ALE: it is not laid out as those of this game are.")
        try:
            return self._ale.ALEState(bits), bits, held
        except Exception as error:  # its C++ raises what it likes
            raise InvalidSnapshot(f"This is not a state of the ALE: {error}.") from None

    def enter(self, checked: Any) -> None:
        state, bits, held = checked
        ale, sticky = self._env.ale, find_watcher(self._env)
        before = ale.cloneState(include_rng=True)
        try:
            ale.restoreState(state)
            # Where the ALE can't read a random stream, it silently keeps its own.
            whole = _GENERATOR.findall(ale.cloneState(include_rng=True).serialize()) == _GENERATOR.findall(bits)
        except Exception:  # its C++ raises what it likes, and has taken half of it by then
            whole = False
        if not whole:
            ale.restoreState(before)
            raise InvalidSnapshot("The ALE can't go on from this snapshot: its state is broken.")
        if sticky is not None:
            sticky.hold(held, state)


class StickyActions:
    """Stands in for ``step`` of an AtariEnv and remembers each action, and for how many frames it was asked for.

    With sticky actions the ALE may hold down an action other than the last one it was given, and its own state leaves
    that action out. But the state has the random numbers by which each frame kept or took an action, so those and the
    recent actions tell which one is held; and to hold it again, one acts.
    """

    def __init__(self, env: Any) -> None:
        self._env, self._step = env, env.step
        self._recent: deque[tuple[Any, int]] = deque(maxlen=_STEPS)
        self._before: int | None = None  # the action held before those; None at the beginning
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
        """Forget the actions: a reset releases the one that was held, and a snapshot brings its own."""
        self._recent.clear()
        self._before = held
        self._frame = self._env.ale.getEpisodeFrameNumber()

    def held_action(self) -> int | None:
        """Return the action that is held now, as the environment numbers it; None before the first one."""
        if self._env.ale.getEpisodeFrameNumber() < self._frame:
            self._begin(None)
        frames = [action for action, count in self._recent for _ in range(count)]
        taken = _took_action(self._env.ale, len(frames))
        if not taken.any():
            if len(self._recent) == _STEPS:
                raise SnapshotUnsupported(
                    f"The ALE has held one action for {_STEPS} steps, longer than paddock remembers."
                )
            return self._before
        return int(frames[len(frames) - 1 - int(np.argmax(taken[::-1]))])

    def hold(self, action: int | None, state: Any) -> None:
        """Put the ALE into that state with this action held."""
        ale = self._env.ale
        ale.restoreState(state)  # a game that is over takes no action
        wanted = self._env._action_set[0 if action is None else action]
        for _ in range(10_000):
            ale.act(wanted)
            if _took_action(ale, 1)[0]:
                break
        ale.restoreState(state)
        self._begin(action)


def watch_actions(env: Any) -> None:
    """Remember the actions of this AtariEnv from now on, if they are sticky. Earlier ones are not known."""
    if float(env.ale.getFloat("repeat_action_probability")) > 0 and find_watcher(env) is None:
        StickyActions(env)


def find_watcher(env: Any) -> StickyActions | None:
    """Return what remembers this environment's actions, if anything does."""
    found = vars(env).get("step")
    return found if isinstance(found, StickyActions) else None


def _took_action(ale: Any, frames: int) -> Any:
    """Return for the last frames, oldest first, whether each took the action that it was given."""
    chance, count = ale.getFloat("repeat_action_probability"), 2 * min(frames, _WORDS // 4)
    *_, text = _GENERATOR.findall(ale.cloneState(include_rng=True).serialize())
    words = np.array(text.split(), np.uint64)
    block, at = words[:_WORDS], int(words[_WORDS])
    y = np.concatenate((_previous_block(block), block))[_WORDS + at - count : _WORDS + at]
    # The twister's tempering, by which its words become the numbers that were drawn.
    y = y ^ (y >> np.uint64(11))
    y = y ^ ((y << np.uint64(7)) & np.uint64(0x9D2C5680))
    y = y ^ ((y << np.uint64(15)) & np.uint64(0xEFC60000))
    draws = (y ^ (y >> np.uint64(18))) & np.uint64(0xFFFFFFFF)
    taken = draws[::2] / 2.0**32 >= chance  # the other draws are the second player's
    return np.concatenate((np.zeros(frames - len(taken), bool), taken))


def _previous_block(block: Any) -> Any:
    """Return the words that a Mersenne Twister made this block from, as far as they can be told: the last 395."""
    mixed = block ^ np.concatenate((np.zeros(227, np.uint64), block[:-227]))
    odd = mixed >> np.uint64(31)
    doubled = (((mixed ^ odd * np.uint64(0x9908B0DF)) << np.uint64(1)) | odd) & np.uint64(0xFFFFFFFF)
    before = np.zeros(_WORDS, np.uint64)
    top, rest = np.uint64(0x80000000), np.uint64(0x7FFFFFFF)
    before[1:] = (doubled[1:] & top) | (doubled[:-1] & rest)
    return before


_BYTE = (0, 255)
_MEMORY = [(128, 128), *[_BYTE] * 128]
_FETCHERS = [(8, 8), *[_BYTE] * 8]
# By kind of cartridge, the range of its first numbers: a bank, a count, or a place in its memory.
_LIMITS = {
    b"2K": [],
    b"4K": [],
    b"FE": [],
    b"F8": [(0, 1)],
    b"F6": [(0, 3)],
    b"F8SC": [(0, 1), *_MEMORY],
    b"F6SC": [(0, 3), *_MEMORY],
    b"E0": [(4, 4), *[(0, 7)] * 4],
    b"DPC": [(0, 1), *_FETCHERS * 2, (8, 8), *[(0, 0x7FF)] * 8, (8, 8)],
}
_KINDS = b"|".join(sorted(_LIMITS, reverse=True))  # F8SC before F8
_NAMES = rb"[0-9a-f]{32}|System|M6502Low|M6502High|M6532|TIASound|TIA|Cartridge(?P<kind>" + _KINDS + b")"
_NAME = re.compile(rb"[\x03-\x20]\0{3}(?:" + _NAMES + b")")  # its length before it


def is_laid_out(bits: bytes, present: bytes) -> bool:
    """Whether ``bits`` are laid out like ``present``, a state of the same game: names, lengths, counts and banks.

    The ALE trusts what it reads: told of more memory than there is, it writes past the end of its own. So it never
    reads a state that fails here. This does not prove that a carefully forged state can do no other harm.
    """
    if any(_number(bits, one.start() - 4) != len(one.group()) for one in _GENERATOR.finditer(bits)):
        return False
    parts, wanted = _GENERATOR.split(bits), _GENERATOR.split(present)
    if [len(part) for part in parts] != [len(part) for part in wanted]:
        return False
    for part, like in zip(parts, wanted, strict=True):
        for one in _NAME.finditer(like):
            limits = _MEMORY if one.group().endswith(b"M6532") else _LIMITS.get(one["kind"], [])
            numbers = (_number(part, one.end() + 4 * place) for place in range(len(limits)))
            if part[one.start() : one.end()] != one.group():
                return False
            if not all(low <= number <= high for number, (low, high) in zip(numbers, limits, strict=True)):
                return False
    return True


def _number(part: bytes, place: int) -> int:
    return int(struct.unpack_from("<i", part, place)[0]) if 0 <= place <= len(part) - 4 else -1
