"""The shells for vector environments, and the one place where wrappers know autoreset.

In a step a lane *moves*, *begins* (NEXT_STEP: it ended before; SAME_STEP: it ends and begins in the same step) or is
*held*. A logic is told of exactly the lanes that it concerns, as if each were a single environment.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from paddock.core.env import Info
from paddock.core.snapshot import opened, sealed
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.core.vector_wrapper import (
    VectorActionWrapper,
    VectorObservationWrapper,
    VectorRewardWrapper,
    VectorWrapper,
)
from paddock.core.warning import warn_user
from paddock.errors import InvalidMetadata
from paddock.spaces.batch import batch_space, create_empty_array
from paddock.wrappers.each_lane import for_lanes
from paddock.wrappers.logic import ALL, Logic, Step, Wrapped
from paddock.wrappers.memory import Memory, packed, unpacked
from paddock.wrappers.rows import copied, gather, members, numbers, put, some, take
from paddock.wrappers.told import Told, joined
from paddock.wrappers.zero_array import create_zero_array

Array = np.ndarray[Any, Any]
SomeLanes: TypeAlias = "slice | Array"
Part: TypeAlias = "tuple[SomeLanes, Any, Any]"  # lanes, their rows as given, and as seen
NOBODY = np.zeros(0, np.intp)


class ManyLanes(VectorWrapper[Any, Any, Any, Any, Array]):
    """Lanes seen through ``logic``: n lanes with it are n single environments with it, in every autoreset mode."""

    def __init__(self, env: VectorEnv[Any, Any, Array], logic: Logic) -> None:
        super().__init__(env)
        wrapped = Wrapped.many(env)
        self._logic, parts = for_lanes(logic, wrapped)
        self._memory = self._logic.memory(wrapped)
        self._acts, self._observes, self._rewards = "act" in parts, "observe" in parts, "reward" in parts
        self._steps = bool({"begin", "advance"} & parts)
        self._looks, self._forgets = logic.looks, logic.forgets and logic is self._logic
        self._mode = autoreset_mode_of(env)
        remembers = self._memory is not None
        asks = self._rewards or self._steps or (self._acts and remembers)  # where episodes begin
        self._tracks = asks and self._mode is AutoresetMode.NEXT_STEP
        self._given = wrapped.observation_space
        self._adopt_spaces(wrapped)
        self._ended: Array | None = None  # bool[n], NEXT_STEP: lanes whose next step begins an episode
        self._held: Array | None = None  # bool[n]: lanes that the next step leaves alone
        self._seen: Any = None  # what the agent saw last, for lanes that a reset or a step leaves alone

    def _adopt_spaces(self, wrapped: Wrapped) -> None:
        lanes = self.num_envs
        if (seen := self._logic.observation_space(wrapped)) is not wrapped.observation_space:
            self.single_observation_space, self.observation_space = seen, batch_space(seen, lanes)
        if (taken := self._logic.action_space(wrapped)) is not wrapped.action_space:
            self.single_action_space, self.action_space = taken, batch_space(taken, lanes)

    def hold(self, lanes: Array) -> None:
        self.env.hold(lanes)
        self._held = lanes.copy()

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        observations, infos = self.env.reset(seed=seed, options=options)
        mask = None if options is None else options.get("reset_mask")
        self._held = None
        lanes: SomeLanes = ALL
        if mask is not None and not mask.all():
            lanes = numbers(mask)
            self._ended = None if self._ended is None else self._ended & ~mask
        else:
            self._ended = None
        if self._observes:
            observations = self._looked(observations, lanes)
        if self._steps:
            seen = observations if self._looks else None
            rows = seen if isinstance(lanes, slice) else self._rows(seen, lanes)
            firsts, told = self._logic.begin(self._memory, lanes, (rows, Told(self.num_envs)))
            observations = self._placed(observations, (lanes, rows, firsts))
            infos = {**infos, **told}
        self._remember(observations)
        return observations, infos

    # On the way in: actions.

    def _on_the_way_in(self, actions: Any) -> Any:
        return self._acted(actions) if self._acts else actions

    def _acted(self, actions: Any) -> Any:
        if self._memory is None:
            return self._logic.act(None, ALL, actions)
        offered, wanted = self.single_action_space, self.env.single_action_space
        if isinstance(actions, list) and offered.shape is not None:
            actions = np.asarray(actions, offered.dtype)
        still = _union(self._ended, self._held)
        if still is None:
            return self._logic.act(self._memory, ALL, actions)
        # What lanes get that begin or are held is ignored, but it must be an action.
        same = offered is wanted
        whole = copied(offered, actions) if same else gather(wanted, [create_zero_array(wanted)] * self.num_envs)
        if not len(moving := numbers(~still)):
            return whole
        return put(wanted, whole, moving, self._logic.act(self._memory, moving, take(offered, actions, moving)))

    # On the way out: observations, rewards, infos.

    def _on_the_way_out(self, result: Step) -> Step:
        ended, held = self._ended, self._held
        self._held = None
        begun = ended if ended is None or held is None else ended & ~held
        if self._tracks:
            over = result[2] | result[3] if some(result[2]) or some(result[3]) else None
            waiting = None if ended is None or held is None else ended & held
            self._ended = _union(over, waiting)
        if self._observes:
            result = self._look(result, held)
        if self._rewards:
            result = self._reward(result, _union(begun, held))
        if self._steps:
            result = self._advance(result, begun, held)
        self._remember(result[0])
        return result

    def _look(self, result: Step, held: Array | None) -> Step:
        observations, rewards, terminations, truncations, infos = result
        lanes = self._began_again(infos)
        if len(lanes):
            rows = self._logic.observe(self._memory, lanes, self._last_of(infos, lanes))
            infos = {**infos, "final_obs": self._as_finals(rows, lanes)}
        moved = ALL if held is None else numbers(~held)
        return self._looked(observations, moved), rewards, terminations, truncations, infos

    def _looked(self, observations: Any, lanes: SomeLanes) -> Any:
        if isinstance(lanes, slice) or self._memory is None:
            return self._observed(observations)
        rows = take(self._given, observations, lanes)
        return self._placed(observations, (lanes, rows, self._logic.observe(self._memory, lanes, rows)))

    def _observed(self, observations: Any) -> Any:
        return self._logic.observe(self._memory, ALL, observations)

    def _reward(self, result: Step, resting: Array | None) -> Step:
        observations, rewards, terminations, truncations, infos = result
        changed = self._rewarded(rewards) if resting is None else self._rewarded_but(rewards, numbers(resting))
        return observations, changed, terminations, truncations, infos

    def _rewarded_but(self, rewards: Array, resting: Array) -> Array:
        # No step was taken there: a single environment gives no reward when it is reset. Looked up before the
        # function is called, which may write to what it gets, and put into a copy of what it returns.
        given = rewards[resting]
        changed: Array = np.array(self._rewarded(rewards))
        changed[resting] = given
        return changed

    def _rewarded(self, rewards: Array) -> Array:
        return self._logic.reward(self._memory, ALL, rewards)  # type: ignore[no-any-return]

    def _advance(self, result: Step, begun: Array | None, held: Array | None) -> Step:
        """Lanes that moved advance, with the last observation of those that ended; then episodes begin."""
        observations, rewards, terminations, truncations, infos = result
        again = self._began_again(infos)
        last = seen = observations if self._looks else None
        if len(again) and self._looks:
            last = put(self._given, copied(self._given, observations), again, self._last_of(infos, again))
        parts: list[Part] = []
        resting = None if held is None and self._forgets else _union(begun, held)
        if resting is None:
            seen, rewards, _, _, told = self._logic.advance(
                self._memory, ALL, (last, rewards, terminations, truncations, Told(self.num_envs))
            )
            parts.append((ALL, last, seen))
            infos = self._with_told(infos, told, again)
        elif len(moved := numbers(~resting)):
            rows = self._rows(last, moved)
            earned, flags = rewards.take(moved), (terminations.take(moved), truncations.take(moved))
            part, gained, _, _, told = self._logic.advance(
                self._memory, moved, (rows, earned, *flags, Told(self.num_envs))
            )
            parts.append((moved, rows, part))
            rewards = rewards if gained is earned else _with_rows(rewards, moved, gained)
            infos = self._with_told(infos, told, again)
            seen = self._placed(last, parts[0]) if len(again) and part is not rows else last
        if len(again) and seen is not last:
            infos = {**infos, "final_obs": self._as_finals(take(self.single_observation_space, seen, again), again)}
        beginning = again if begun is None else numbers(begun)
        if len(beginning):
            rows = self._rows(observations, beginning)
            firsts, told = self._logic.begin(self._memory, beginning, (rows, Told(self.num_envs)))
            parts.append((beginning, rows, firsts))
            if told:
                infos = joined(infos, told, np.isin(np.arange(self.num_envs), beginning))
        return self._placed(observations, *parts), rewards, terminations, truncations, infos

    def _rows(self, observations: Any, lanes: Array) -> Any:
        return take(self._given, observations, lanes) if self._looks else None

    def _placed(self, observations: Any, *parts: Part) -> Any:
        """All lanes: the rows of these parts (lanes, as given, as seen), and what was seen last of the others."""
        if not parts and self._seen is not None:  # all are held
            return copied(self.single_observation_space, self._seen)
        for _, given, seen in parts:
            if seen is not given:
                break
        else:
            return observations
        space, (first, given, seen) = self.single_observation_space, parts[0]
        if not isinstance(first, slice):
            whole = copied(space, self._seen)
        elif len(parts) > 1 and seen is given:
            whole = copied(space, seen)
        else:
            whole = seen
        for lanes, _, rows in parts:
            if not isinstance(lanes, slice):
                whole = put(space, whole, lanes, rows)
        return whole

    def _began_again(self, infos: Info) -> Array:
        """The lanes that ended and began in this step, which only SAME_STEP has."""
        if self._mode is not AutoresetMode.SAME_STEP or "_final_obs" not in infos:
            return NOBODY
        return numbers(infos["_final_obs"])

    def _last_of(self, infos: Info, lanes: Array) -> Any:
        return gather(self._given, [infos["final_obs"][lane] for lane in lanes.tolist()])

    def _as_finals(self, rows: Any, lanes: Array) -> Array:
        finals = np.full(self.num_envs, None, object)
        for lane, member in zip(lanes.tolist(), members(self.single_observation_space, rows, len(lanes)), strict=True):
            finals[lane] = member
        return finals

    def _with_told(self, infos: Info, told: Info, again: Array) -> Info:
        """What was told of lanes that moved; of those that began anew it is in ``final_info`` as well."""
        if not told:
            return infos
        if len(again):
            ended = np.zeros(self.num_envs, np.bool_)
            ended[again] = True
            final = joined(infos.get("final_info", {}), told, ended)
            infos = {**infos, "final_info": final, "_final_info": infos.get("_final_info", ended)}
        return {**infos, **told}

    def _remember(self, observations: Any) -> None:
        if self._memory is None or not (self._looks or self._observes):
            return
        # A caller who resets lanes one by one may have written to what it got: there, and only there, keep a copy.
        own = self._mode is AutoresetMode.DISABLED
        self._seen = copied(self.single_observation_space, observations) if own else observations

    def snapshot(self) -> bytes:
        inner: bytes = super().snapshot()
        if self._memory is None and not self._tracks:
            return inner
        known = packed(_Known(ended=self._ended, seen=self._seen))
        return sealed(type(self._logic).__name__, (known, packed(self._memory)), inner)

    def restore(self, snapshot: bytes) -> None:
        if self._memory is None and not self._tracks:
            return super().restore(snapshot)
        kind = tuple[dict[str, Any], dict[str, Any]]
        (known, data), inner = opened(type(self._logic).__name__, snapshot, kind)
        lanes = self.num_envs
        seen = create_empty_array(self.single_observation_space, n=lanes)
        shell, values = (
            unpacked(_Known(ended=np.zeros(lanes, np.bool_), seen=seen), known),
            unpacked(self._memory, data),
        )
        super().restore(inner)
        self._ended, self._held, self._seen = shell["ended"], None, shell["seen"]
        if self._memory is not None:
            vars(self._memory).update(values)
        return None


class _Known(Memory):
    """What the shell itself knows: which lanes have ended, and what was seen last."""


class ManyLanesObservation(ManyLanes, VectorObservationWrapper[Any, Any, Any, Array]):
    """A logic that writes ``observe``; ``observations`` is its hook.

    The hook gets whole batches only. A wrapper that remembers also sees some lanes by themselves, after partial resets
    and at the end of episodes: to change one of those, change its logic.
    """

    def _look(self, result: Step, held: Array | None) -> Step:
        hook_of_a_user = not type(self).observations.__module__.startswith("paddock.")
        if self._memory is None and hook_of_a_user and len(self._began_again(result[4])):
            observations, *rest, infos = result
            infos = {**infos, "final_obs": self._changed_finals(observations, infos)}
            return self.observations(observations), *rest, infos
        return super()._look(result, held)

    def _observed(self, observations: Any) -> Any:
        return self.observations(observations)

    def observations(self, observations: Any) -> Any:
        """The batch that the agent sees in place of ``observations``; row i is lane i's."""
        return self._logic.observe(self._memory, ALL, observations)


class ManyLanesAction(ManyLanes, VectorActionWrapper[Any, Any, Any, Array]):
    """A logic that writes ``act``; ``actions`` is its hook."""

    def _on_the_way_in(self, actions: Any) -> Any:
        return self.actions(actions)

    def actions(self, actions: Any) -> Any:
        """The batch that the lanes get in place of ``actions``."""
        return self._acted(actions)


class ManyLanesReward(ManyLanes, VectorRewardWrapper[Any, Any, Array]):
    """A logic that writes ``reward``; ``rewards`` is its hook."""

    def _rewarded(self, rewards: Array) -> Array:
        return self.rewards(rewards)  # type: ignore[no-any-return]

    def rewards(self, rewards: Any) -> Any:
        """The rewards that the agent sees in place of ``rewards``."""
        return self._logic.reward(self._memory, ALL, rewards)


def _union(one: Array | None, other: Array | None) -> Array | None:
    if one is None or other is None:
        return one if other is None else other
    return one | other


def _with_rows(whole: Array, lanes: Any, rows: Array) -> Array:
    changed: Array = whole.copy()
    changed[lanes] = rows
    return changed


def autoreset_mode_of(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """How the lanes begin anew, as their metadata say."""
    mode = env.metadata.get("autoreset_mode")
    if mode is None:
        warn_user(f"Vector environment ({env}) is missing `autoreset_mode` metadata key; NEXT_STEP is assumed.")
        return AutoresetMode.NEXT_STEP
    if getattr(mode, "value", None) not in {one.value for one in AutoresetMode}:
        raise InvalidMetadata(f"env.metadata['autoreset_mode'] is {mode!r}; expected an AutoresetMode.")
    return AutoresetMode(mode.value)
