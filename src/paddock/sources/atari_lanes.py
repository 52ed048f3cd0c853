"""AtariLanes: the ALE's own lanes, n games in threads of its own, with pictures scaled, made gray and stacked.

Not what ``make("ALE/Pong-v5")`` shows, which is whole pictures in colour. A lane sees what one environment does under
Gymnasium's ``AtariPreprocessing`` and ``FrameStackObservation`` with the same settings; but chance, in sticky actions
and in what is done before the first step, is seeded otherwise by the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import numpy as np

from paddock.core.env import Info
from paddock.core.lane_arguments import ended, lane_seeds, reset_mask
from paddock.core.state import State
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import ClosedEnvironmentError, InvalidSeed, PlanError, ResetNeeded, SnapshotUnsupported
from paddock.sources.batched_actions import admitted
from paddock.spaces.batch import batch_space

Array = np.ndarray[Any, Any]

_SEEDS = 1 << 31  # the ALE's are of 32 bits, with a sign
_GOES_ON = -1  # as a seed: the stream goes on
_OURS = {
    "num_threads": "lanes=LaneOptions(threads=…)",
    "batch_size": "all lanes, in step",
}


class AtariLanes(VectorEnv[Any, Any, Array]):
    """``num_envs`` lanes of one game. Other arguments are ``ale_py.vector_env.AtariVectorEnv``'s.

    observations: uint8[n, stack_num, img_height, img_width], and [..., 3] with ``grayscale=False``; fresh arrays each
    time. rewards: float64[n]. Actions are always validated: one that the game has not would end the process.
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

        from paddock.sources.gymnasium_spaces import to_ours

        _check(obs_type, arguments)
        self.num_envs, self.autoreset_mode = num_envs, AutoresetMode(autoreset_mode)
        # Without autoreset a lane that ended is never stepped before its reset, so that the ALE never begins it anew.
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        theirs = AutoresetMode.SAME_STEP.value if same_step else AutoresetMode.NEXT_STEP.value
        self._ale: Any = AtariVectorEnv(
            num_envs=num_envs, num_threads=threads or 0, autoreset_mode=theirs, **_frame_skip_checked(arguments)
        )
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
        seen, told = self._ale.reset(seed=np.array(seeds)[mask], options={"reset_mask": mask})
        self._begun = True
        self._ended[mask], self._steps[mask] = False, 0
        self._episodes[mask] += 1
        return seen, _infos(told, mask)

    def send(self, actions: Any) -> None:
        self._check_open()
        if not self._begun:
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            raise ended(int(np.argmax(self._ended)))
        checked = admitted(self, actions)
        self._take_back()
        self._ale.send(checked)
        self._sent = checked

    def recv(self) -> tuple[Any, Array, Array, Array, Info]:
        self._take_sent()
        seen, rewards, terminations, truncations, told = self._ale.recv()
        over = terminations | truncations
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            self._steps = np.where(over, 0, self._steps + 1)
            self._episodes += over
        else:  # without autoreset none had ended
            self._episodes += self._ended
            self._steps = np.where(self._ended, 0, self._steps + 1)
            self._ended = over
        infos = _infos(told, np.ones(self.num_envs, np.bool_))
        if "final_obs" in told and over.any():
            infos["final_obs"], infos["_final_obs"] = _some(told["final_obs"], over), over.copy()
        return seen, rewards.astype(np.float64), terminations, truncations, infos

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("This environment is closed. Make a new one.")

    def _take_back(self) -> None:
        """Forget a step that was sent and that nobody received."""
        if self._sent is not None:
            self.recv()

    def state(self) -> tuple[State, ...]:
        return tuple(
            State(f"{self._name}-{lane}-{self._episodes[lane]}" if self._begun else None, int(self._steps[lane]))
            for lane in range(self.num_envs)
        )

    def snapshot(self) -> bytes:
        raise SnapshotUnsupported("The ALE's own lanes can't be saved: it has no form for them. Pass backend='loop'.")

    def restore(self, snapshot: bytes) -> None:
        raise SnapshotUnsupported("The ALE's own lanes can't go on from a snapshot. Pass backend='loop'.")

    def name_episodes(self, names: Callable[[], str]) -> None:
        """Where the lanes' names come from, in place of chance."""
        self._name = names()

    def close_extras(self, **kwargs: Any) -> None:
        """The ALE's threads end with what holds them."""
        self._ale = None


def _check(obs_type: str, arguments: Info) -> None:
    for name in arguments:
        if name in _OURS:
            raise PlanError(f"{name}= is not to be passed on to the ALE: {_OURS[name]}.")
    if obs_type == "ram":
        raise PlanError("backend='ale' shows pictures, not the machine's memory. Pass backend='loop'.")


def _frame_skip_checked(arguments: Info) -> Info:
    skip = arguments.get("frameskip", 4)
    if type(skip) is not int or skip < 1:
        raise PlanError(
            f"backend='ale' skips the same number of frames at each step: frameskip={skip!r}. Pass one, as 4."
        )
    return arguments


def _infos(told: Info, mask: Array) -> Info:
    """The ALE's counts of each lane, but for which lane it is: the row says so."""
    infos: Info = {}
    for key in ("lives", "frame_number", "episode_frame_number"):
        if key in told:
            infos[key], infos[f"_{key}"] = np.where(mask, told[key], 0), mask.copy()
    return infos


def _some(rows: Array, mask: Array) -> Array:
    """One object a lane, as other lanes have it: the last picture where an episode ended, else None."""
    each = np.full(len(mask), None, object)
    for lane in np.flatnonzero(mask).tolist():
        each[lane] = rows[lane].copy()
    return each
