"""The shells that make a Logic a VectorWrapper, and the one place where wrappers handle autoreset.

In a step a lane *moves*, *begins* (NEXT_STEP: it ended before; SAME_STEP: it ends and begins in the same step) or is
*held*. A logic hears of exactly the lanes that it concerns, as if each were a single environment.

Below the shells are the functions that take rows, infos and random streams of some lanes out of a batch and put them
back. How a batch nests follows from its space, not from the value: a tuple is either one batch per part of a Tuple
space, or one member per lane (Text, Graph, …).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from paddock.core.env import Info
from paddock.core.problem import warn_user
from paddock.core.state import open_snapshot, seal_snapshot
from paddock.core.vector_env import AutoresetMode, VectorEnv, add_info, info_of
from paddock.core.vector_wrapper import (
    VectorActionWrapper,
    VectorObservationWrapper,
    VectorRewardWrapper,
    VectorWrapper,
)
from paddock.errors import InvalidLanes, InvalidMetadata
from paddock.spaces import Box, Dict, MultiBinary, MultiDiscrete, Space, Tuple
from paddock.spaces.batch import batch_space, concatenate, create_empty_array, create_zero_array, row
from paddock.wrappers.logic import (
    ALL,
    First,
    Lanes,
    Logic,
    Memory,
    Step,
    Wrapped,
    overrides,
    pack_memory,
    unpack_memory,
)

Array = np.ndarray[Any, Any]
SomeLanes: TypeAlias = "slice | Array"
Part: TypeAlias = "tuple[SomeLanes, Any, Any]"  # lanes, their rows from the environment, and as the agent sees them
NO_LANES = np.zeros(0, np.intp)
_ARRAYS = (Box, MultiDiscrete, MultiBinary)
_BOOL = np.dtype(np.bool_)  # a singleton: `is` takes a tenth of the time of ==
_OBJECT = np.dtype(object)


class ManyLanes(VectorWrapper[Any, Any, Any, Any, Array]):
    """Runs ``logic`` around lanes: n lanes with it are n single environments with it, in every autoreset mode."""

    def __init__(self, env: VectorEnv[Any, Any, Array], logic: Logic) -> None:
        super().__init__(env)
        wrapped = Wrapped(env.single_observation_space, env.single_action_space, env.num_envs, env)
        self._logic = logic if logic.batched(wrapped) else EachLane(logic, wrapped)
        self._memory = self._logic.memory(wrapped)
        self._acts, self._observes, self._rewards = (overrides(logic, part) for part in ("act", "observe", "reward"))
        self._steps = overrides(logic, "begin", "advance")
        self._looks, self._forgets = logic.looks, logic.forgets and logic is self._logic
        self._mode = autoreset_mode_of(env)
        needs_begins = self._rewards or self._steps or (self._acts and self._memory is not None)
        self._tracks = needs_begins and self._mode is AutoresetMode.NEXT_STEP
        self._inner_space = wrapped.observation_space
        lanes = self.num_envs
        if (target := self._logic.observation_space(wrapped)) is not wrapped.observation_space:
            self.single_observation_space, self.observation_space = target, batch_space(target, lanes)
        if (offered := self._logic.action_space(wrapped)) is not wrapped.action_space:
            self.single_action_space, self.action_space = offered, batch_space(offered, lanes)
        self._ended: Array | None = None  # bool[n], NEXT_STEP: lanes whose next step begins an episode
        self._held: Array | None = None  # bool[n]: lanes that the next step leaves alone
        self._last_seen: Any = None  # what the agent saw last, for lanes that a reset or a step leaves alone

    def hold(self, lanes: Array) -> None:
        self.env.hold(lanes)
        self._held = lanes.copy()

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        observations, infos = self.env.reset(seed=seed, options=options)
        mask = None if options is None else options.get("reset_mask")
        self._held = None
        lanes: SomeLanes = ALL
        if mask is not None and not mask.all():
            lanes = lane_numbers(mask)
            self._ended = None if self._ended is None else self._ended & ~mask
        else:
            self._ended = None
        if self._observes:
            observations = self._observe_lanes(observations, lanes)
        if self._steps:
            rows = self._rows(observations, lanes)
            firsts, added = self._logic.begin(self._memory, lanes, (rows, LaneInfos(self.num_envs)))
            observations = self._place(observations, (lanes, rows, firsts))
            infos = {**infos, **added}
        self._remember(observations)
        return observations, infos

    # On the way in: actions.

    def _on_the_way_in(self, actions: Any) -> Any:
        return self._act(actions) if self._acts else actions

    def _act(self, actions: Any) -> Any:
        if self._memory is None:
            return self._logic.act(None, ALL, actions)
        offered, expected = self.single_action_space, self.env.single_action_space
        if isinstance(actions, list) and offered.shape is not None:
            actions = np.asarray(actions, offered.dtype)
        resting = _union(self._ended, self._held)
        if resting is None:
            return self._logic.act(self._memory, ALL, actions)
        # Lanes that begin or are held ignore what they get, but it must be an action.
        if offered is expected:
            whole = copy_batch(offered, actions)
        else:
            whole = gather(expected, [create_zero_array(expected)] * self.num_envs)
        if not len(moving := lane_numbers(~resting)):
            return whole
        return put(expected, whole, moving, self._logic.act(self._memory, moving, take(offered, actions, moving)))

    # On the way out: observations, rewards, infos.

    def _on_the_way_out(self, result: Step) -> Step:
        ended, held = self._ended, self._held
        self._held = None
        begun = ended if ended is None or held is None else ended & ~held
        if self._tracks:
            over = result[2] | result[3] if any_true(result[2]) or any_true(result[3]) else None
            waiting = None if ended is None or held is None else ended & held
            self._ended = _union(over, waiting)
        if self._observes:
            result = self._observe_step(result, held)
        if self._rewards:
            result = self._reward_step(result, _union(begun, held))
        if self._steps:
            result = self._advance_step(result, begun, held)
        self._remember(result[0])
        return result

    def _observe_step(self, result: Step, held: Array | None) -> Step:
        observations, rewards, terminations, truncations, infos = result
        lanes = restarted_lanes(self._mode, infos)
        if len(lanes):
            rows = self._logic.observe(self._memory, lanes, final_rows(self._inner_space, infos, lanes))
            infos = with_final_rows(infos, self.single_observation_space, rows, lanes)
        moved = ALL if held is None else lane_numbers(~held)
        return self._observe_lanes(observations, moved), rewards, terminations, truncations, infos

    def _observe_lanes(self, observations: Any, lanes: SomeLanes) -> Any:
        if isinstance(lanes, slice) or self._memory is None:
            return self._observe_all(observations)
        rows = take(self._inner_space, observations, lanes)
        return self._place(observations, (lanes, rows, self._logic.observe(self._memory, lanes, rows)))

    def _observe_all(self, observations: Any) -> Any:
        return self._logic.observe(self._memory, ALL, observations)

    def _reward_step(self, result: Step, resting: Array | None) -> Step:
        observations, rewards, terminations, truncations, infos = result
        changed = self._reward_all(rewards) if resting is None else self._reward_except(rewards, lane_numbers(resting))
        return observations, changed, terminations, truncations, infos

    def _reward_except(self, rewards: Array, resting: Array) -> Array:
        # No step was taken there: a single environment gives no reward when it is reset. Read before the function is
        # called, which may write to what it gets, and put into a copy of what it returns.
        unchanged = rewards[resting]
        changed: Array = np.array(self._reward_all(rewards))
        changed[resting] = unchanged
        return changed

    def _reward_all(self, rewards: Array) -> Array:
        return self._logic.reward(self._memory, ALL, rewards)  # type: ignore[no-any-return]

    def _advance_step(self, result: Step, begun: Array | None, held: Array | None) -> Step:
        """Advance the lanes that moved, with the last observation of those that ended; then begin episodes."""
        observations, rewards, terminations, truncations, infos = result
        again = restarted_lanes(self._mode, infos)
        last = observations if self._looks else None
        if len(again) and self._looks:
            space = self._inner_space
            last = put(space, copy_batch(space, observations), again, final_rows(space, infos, again))
        parts: list[Part] = []
        resting = None if held is None and self._forgets else _union(begun, held)
        moved: SomeLanes = ALL if resting is None else lane_numbers(~resting)
        if resting is None or not resting.all():
            rows, earned, over, cut = last, rewards, terminations, truncations
            if resting is not None:
                rows = self._rows(last, moved)
                earned, over, cut = rewards.take(moved), terminations.take(moved), truncations.take(moved)
            step = rows, earned, over, cut, LaneInfos(self.num_envs)
            visible, gained, _, _, added = self._logic.advance(self._memory, moved, step)
            parts.append((moved, rows, visible))
            if resting is None:
                rewards = gained
            elif gained is not earned:
                rewards = rewards.copy()
                rewards[moved] = gained
            infos = self._add_infos(infos, added, again)
            if len(again) and visible is not rows:
                space = self.single_observation_space
                infos = with_final_rows(infos, space, take(space, self._place(last, parts[0]), again), again)
        beginning = again if begun is None else lane_numbers(begun)
        if len(beginning):
            rows = self._rows(observations, beginning)
            firsts, added = self._logic.begin(self._memory, beginning, (rows, LaneInfos(self.num_envs)))
            parts.append((beginning, rows, firsts))
            if added:
                infos = merge_infos(infos, added, np.isin(np.arange(self.num_envs), beginning))
        return self._place(observations, *parts), rewards, terminations, truncations, infos

    def _rows(self, observations: Any, lanes: SomeLanes) -> Any:
        if not self._looks:
            return None
        return observations if isinstance(lanes, slice) else take(self._inner_space, observations, lanes)

    def _place(self, observations: Any, *parts: Part) -> Any:
        """The observations of all lanes: those of these parts, and of the others what the agent saw last."""
        if not parts and self._last_seen is not None:  # all are held
            return copy_batch(self.single_observation_space, self._last_seen)
        for _, inner, visible in parts:
            if visible is not inner:
                break
        else:
            return observations
        space, (first, inner, visible) = self.single_observation_space, parts[0]
        if not isinstance(first, slice):
            whole = copy_batch(space, self._last_seen)
        elif len(parts) > 1 and visible is inner:
            whole = copy_batch(space, visible)
        else:
            whole = visible
        for lanes, _, rows in parts:
            if not isinstance(lanes, slice):
                whole = put(space, whole, lanes, rows)
        return whole

    def _add_infos(self, infos: Info, added: Info, again: Array) -> Info:
        """Add infos about lanes that moved; for those that began again they go into ``final_info`` as well."""
        if not added:
            return infos
        if len(again):
            ended = np.zeros(self.num_envs, np.bool_)
            ended[again] = True
            final = merge_infos(infos.get("final_info", {}), added, ended)
            infos = {**infos, "final_info": final, "_final_info": infos.get("_final_info", ended)}
        return {**infos, **added}

    def _remember(self, observations: Any) -> None:
        if self._memory is None or not (self._looks or self._observes):
            return
        # A caller that resets lanes one by one may have written to what it got: there, and only there, keep a copy.
        own = self._mode is AutoresetMode.DISABLED
        self._last_seen = copy_batch(self.single_observation_space, observations) if own else observations

    def snapshot(self) -> bytes:
        inner: bytes = super().snapshot()
        if self._memory is None and not self._tracks:
            return inner
        own = pack_memory(Memory(ended=self._ended, seen=self._last_seen))
        return seal_snapshot(self._logic.layer, (own, pack_memory(self._memory)), inner)

    def restore(self, snapshot: bytes) -> None:
        if self._memory is None and not self._tracks:
            return super().restore(snapshot)
        kind = tuple[dict[str, Any], dict[str, Any]]
        (own, data), inner = open_snapshot(self._logic.layer, snapshot, kind)
        empty = create_empty_array(self.single_observation_space, n=self.num_envs)
        own = unpack_memory(Memory(ended=np.zeros(self.num_envs, np.bool_), seen=empty), own)
        values = unpack_memory(self._memory, data)
        super().restore(inner)
        self._ended, self._held, self._last_seen = own["ended"], None, own["seen"]
        if self._memory is not None:
            self._memory._assign(values)
        return None


class ManyLanesObservation(ManyLanes, VectorObservationWrapper[Any, Any, Any, Array]):
    """For a logic that writes ``observe``; users may override ``observations``.

    That hook gets whole batches only. A wrapper that remembers also sees some lanes by themselves, after partial resets
    and at the end of episodes: to change what it does there, change its logic.
    """

    def _observe_step(self, result: Step, held: Array | None) -> Step:
        users_hook = not type(self).observations.__module__.startswith("paddock.")
        if self._memory is None and users_hook and len(restarted_lanes(self._mode, result[4])):
            observations, *rest, infos = result
            infos = {**infos, "final_obs": self._changed_finals(observations, infos)}
            return self.observations(observations), *rest, infos
        return super()._observe_step(result, held)

    def _observe_all(self, observations: Any) -> Any:
        return self.observations(observations)

    def observations(self, observations: Any) -> Any:
        """The batch that the agent sees instead of ``observations``; row i is lane i's."""
        return self._logic.observe(self._memory, ALL, observations)


class ManyLanesAction(VectorActionWrapper[Any, Any, Any, Array], ManyLanes):
    """For a logic that writes ``act``; users may override ``actions``."""

    def actions(self, actions: Any) -> Any:
        """The batch that the lanes get instead of ``actions``."""
        return self._act(actions)


class ManyLanesReward(ManyLanes, VectorRewardWrapper[Any, Any, Array]):
    """For a logic that writes ``reward``; users may override ``rewards``."""

    def _reward_all(self, rewards: Array) -> Array:
        return self.rewards(rewards)  # type: ignore[no-any-return]

    def rewards(self, rewards: Any) -> Any:
        """The rewards that the agent sees instead of ``rewards``."""
        return self._logic.reward(self._memory, ALL, rewards)


def _union(one: Array | None, other: Array | None) -> Array | None:
    if one is None or other is None:
        return one if other is None else other
    return one | other


def autoreset_mode_of(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """How lanes that ended begin again, from the metadata."""
    mode = env.metadata.get("autoreset_mode")
    if mode is None:
        warn_user(f"Vector environment ({env}) is missing `autoreset_mode` metadata key; NEXT_STEP is assumed.")
        return AutoresetMode.NEXT_STEP
    if getattr(mode, "value", None) not in {one.value for one in AutoresetMode}:
        raise InvalidMetadata(f"env.metadata['autoreset_mode'] is {mode!r}; expected an AutoresetMode.")
    return AutoresetMode(mode.value)


class EachLane(Logic):
    """Runs a logic that is written for one lane only lane by lane. Slow, and right for every space."""

    def __init__(self, logic: Logic, wrapped: Wrapped) -> None:
        self.logic, self.wrapped = logic, wrapped
        self.visible, self.offered = logic.observation_space(wrapped), logic.action_space(wrapped)

    def observation_space(self, wrapped: Wrapped) -> Any:
        return self.visible

    def action_space(self, wrapped: Wrapped) -> Any:
        return self.offered

    def memory(self, wrapped: Wrapped) -> Any:
        one = replace(wrapped, lanes=None)
        return Memory(each=tuple(self.logic.memory(one) for _ in range(wrapped.lanes or 0)))

    def act(self, memory: Any, lanes: Lanes, action: Any) -> Any:
        return self._map(memory, lanes, self.logic.act, action, self.offered, self.wrapped.action_space)

    def observe(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        return self._map(memory, lanes, self.logic.observe, observation, self.wrapped.observation_space, self.visible)

    def reward(self, memory: Any, lanes: Lanes, reward: Any) -> Any:
        changed = [self.logic.reward(one, None, reward[at]) for at, (_, one) in enumerate(_memories(memory, lanes))]
        return np.array(changed, np.float64)

    def begin(self, memory: Any, lanes: Lanes, first: First) -> First:
        memories, visible = _memories(memory, lanes), []
        for (lane, one), observation in zip(memories, self._split(first[0], len(memories)), strict=True):
            changed, info = self.logic.begin(one, None, (observation, {}))
            visible.append(changed)
            add_info(first[1], info, lane, len(memory.each))
        return self._gather(visible), first[1]

    def advance(self, memory: Any, lanes: Lanes, step: Step) -> Step:
        memories, visible = _memories(memory, lanes), []
        observations, rewards, terminated, truncated, infos = step
        gained = np.zeros(len(memories), np.float64)
        each = self._split(observations, len(memories))
        for at, (lane, one) in enumerate(memories):
            single: Step = each[at], rewards[at], bool(terminated[at]), bool(truncated[at]), {}
            observation, gained[at], _, _, info = self.logic.advance(one, None, single)
            visible.append(observation)
            add_info(infos, info, lane, len(memory.each))
        return self._gather(visible), gained, terminated, truncated, infos

    def _split(self, observations: Any, count: int) -> list[Any]:
        return split(self.wrapped.observation_space, observations, count) if self.logic.looks else [None] * count

    def _gather(self, observations: list[Any]) -> Any:
        return gather(self.visible, observations) if self.logic.looks else None

    def _map(self, memory: Any, lanes: Lanes, change: Callable[..., Any], rows: Any, source: Any, target: Any) -> Any:
        memories = _memories(memory, lanes)
        each = zip(memories, split(source, rows, len(memories)), strict=True)
        return gather(target, [change(one, None, value) for (_, one), value in each])


def _memories(memory: Any, lanes: Lanes) -> list[tuple[int, Any]]:
    """The numbers of these lanes, each with the lane's memory."""
    return [(lane, memory.each[lane]) for lane in np.arange(len(memory.each))[lanes].tolist()]


def any_true(mask: Array) -> bool:
    """Whether any element is True: ``mask.any()`` in a sixth of its time."""
    return 1 in mask.tobytes() if mask.dtype is _BOOL else bool(mask.any())


def lane_numbers(mask: Array) -> Array:
    """The numbers of the lanes in a mask: np.flatnonzero without its detours."""
    return mask.nonzero()[0]


def add_rows(whole: Array, lanes: Lanes, rows: Any) -> None:
    """``whole[lanes] += rows``, which for all lanes would copy the sum onto itself."""
    if not isinstance(lanes, np.ndarray):
        whole += rows
    else:
        whole[lanes] = whole.take(lanes, 0) + rows


def map_leaves(space: Space[Any], function: Callable[..., Any], *values: Any) -> Any:
    """Call ``function(leaf, *parts)`` for every space that is neither Dict nor Tuple; nest the results as the space."""
    if isinstance(space, Dict):
        return {key: map_leaves(part, function, *(v[key] for v in values)) for key, part in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(map_leaves(part, function, *(v[i] for v in values)) for i, part in enumerate(space.spaces))
    return function(space, *values)


def take(space: Space[Any], batch: Any, lanes: Array) -> Any:
    """The rows of these lanes; a copy where rows are arrays."""
    # Not batch[lanes]: `take` is three times faster for whole rows.
    if type(batch) is np.ndarray:
        return batch.take(lanes, 0)

    def take_part(_: Space[Any], part: Any) -> Any:
        return tuple(part[lane] for lane in lanes) if isinstance(part, tuple) else part[lanes]

    return map_leaves(space, take_part, batch)


def put(space: Space[Any], batch: Any, lanes: Array, rows: Any) -> Any:
    """The batch with these lanes' rows replaced; arrays are written in place."""
    if type(batch) is np.ndarray:
        batch[lanes] = rows
        return batch

    def put_part(_: Space[Any], part: Any, rows: Any) -> Any:
        if not isinstance(part, tuple):
            part[lanes] = rows
            return part
        members = list(part)
        for lane, member in zip(lanes.tolist(), rows, strict=True):
            members[lane] = member
        return tuple(members)

    return map_leaves(space, put_part, batch, rows)


def copy_batch(space: Space[Any], batch: Any) -> Any:
    """A batch whose arrays may be written to."""
    if type(batch) is np.ndarray:
        return batch.copy()
    return map_leaves(space, lambda _, part: part.copy() if isinstance(part, np.ndarray) else part, batch)


def split(space: Space[Any], rows: Any, count: int) -> list[Any]:
    """Each row as a value of its own, the opposite of `gather`."""
    rows = copy_batch(space, rows)  # views of one private copy: a quarter of the time of copying each row
    return list(rows) if type(rows) is np.ndarray else [row(space, rows, lane) for lane in range(count)]


def gather(space: Space[Any], values: Sequence[Any]) -> Any:
    """One value per lane as rows."""
    if isinstance(space, _ARRAYS) and values and type(values[0]) is np.ndarray:
        # A tenth of the time of np.stack, which prepares each row. What does not fit is left to np.stack.
        with suppress(ValueError):
            rows = np.array(values)
            if rows.dtype == space.dtype and rows.shape[1:] == space.shape:
                return rows
    return concatenate(space, values, create_empty_array(space, n=len(values)))


def map_rows(one: Callable[[Any], Any], source: Space[Any], target: Space[Any], values: Any) -> Any:
    """Map rows of ``source`` to rows of ``target``, lane by lane, which is right for every space."""
    space, rows = source, values
    while isinstance(space, (Dict, Tuple)) and len(space.spaces):
        key: Any = next(iter(space.spaces)) if isinstance(space, Dict) else 0
        space, rows = space.spaces[key], rows[key]
    return gather(target, [one(value) for value in split(source, values, len(rows))])


class LaneInfos(dict[str, Any]):
    """The infos that a logic adds to in its form for n lanes: ``key`` has a row per lane and ``_key`` is its mask."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs

    def tell(self, lanes: Array, info: Info) -> None:
        """Add an info about these lanes, given by number. Each value has a row for each of them; dicts nest.

        A dict has one mask, as in Gymnasium's vector wrappers; the values in it have none of their own.
        """
        for key in info:
            self.setdefault("_" + key, np.zeros(self.num_envs, np.bool_))[lanes] = True
        _put_infos(self, lanes, self.num_envs, info)


def _put_infos(infos: Info, lanes: Array, num_envs: int, info: Info) -> None:
    for key, rows in info.items():
        if isinstance(rows, dict):
            _put_infos(infos.setdefault(key, {}), lanes, num_envs, rows)
            continue
        if key not in infos:
            like = np.asarray(rows)
            shape = num_envs if like.ndim == 1 else (num_envs, *like.shape[1:])
            infos[key] = np.full(num_envs, None, object) if like.dtype is _OBJECT else np.zeros(shape, like.dtype)
        infos[key][lanes] = rows


def restarted_lanes(mode: AutoresetMode, infos: Info) -> Array:
    """The numbers of the lanes that ended and began in this step; only SAME_STEP has any."""
    same_step = mode is AutoresetMode.SAME_STEP and "_final_obs" in infos
    return lane_numbers(infos["_final_obs"]) if same_step else NO_LANES


def final_rows(space: Space[Any], infos: Info, lanes: Array) -> Any:
    """The last observations of these lanes, which a step under SAME_STEP puts into ``final_obs``."""
    return gather(space, [infos["final_obs"][lane] for lane in lanes.tolist()])


def with_final_rows(infos: Info, space: Space[Any], rows: Any, lanes: Array) -> Info:
    """The infos with these rows as the last observations of these lanes."""
    finals = np.full(len(infos["_final_obs"]), None, object)
    for lane, member in zip(lanes.tolist(), split(space, rows, len(lanes)), strict=True):
        finals[lane] = member
    return {**infos, "final_obs": finals}


def merge_infos(infos: Info, others: Info, lanes: Array) -> Info:
    """``infos``, and for the lanes in this mask what ``others`` has; neither is changed."""
    others = select_infos(others, lanes)
    if infos.keys().isdisjoint(others):
        return {**infos, **others}
    result = deepcopy(infos)
    for lane in np.flatnonzero(lanes).tolist():
        add_info(result, info_of(others, lane), lane, len(lanes))
    return result


def select_infos(infos: Info, lanes: Array) -> Info:
    """The infos of the lanes in this mask; keys that none of them has are left out."""

    def select(rows: Any) -> Any:
        if isinstance(rows, dict):
            return select_infos(rows, lanes)
        selected = np.full(len(rows), None, object) if rows.dtype == object else np.zeros_like(rows)
        selected[lanes] = rows[lanes]
        return selected

    found: Info = {}
    for key, rows in infos.items():
        mask = infos.get(f"_{key}")
        if mask is None:
            if not key.startswith("_"):
                found[key] = select(rows)
        elif (mask & lanes).any():
            found[key], found[f"_{key}"] = select(rows), mask & lanes
    return found


def draw_in_lanes(
    env: VectorEnv[Any, Any, Any], lanes: list[int], draw: Callable[[np.random.Generator], Any]
) -> list[Any]:
    """Call ``draw(generator)`` for each of these lanes, with the generator that the lane's environment draws from.

    Lanes in this process lend their streams. Elsewhere (compiled, in processes) a stream is a copy that is given back
    after the draw, so that the lane goes on from there: the same numbers, but slower.
    """
    get_attr = getattr(env, "get_attr", None)
    try:
        streams = None if get_attr is None else get_attr("np_random")
    except AttributeError:
        streams = None
    if streams is None:
        raise InvalidLanes(f"{env!r} does not give access to the random streams of its lanes (get_attr('np_random')).")
    drawn = [draw(streams[lane]) for lane in lanes]
    if not hasattr(env.unwrapped, "envs"):
        env.set_attr("np_random", list(streams))  # type: ignore[attr-defined]
    return drawn
