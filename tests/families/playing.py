"""Episodes to compare: of an environment, of lanes, of the library's own. Imports no library: it runs in every venv."""

import numpy as np
import pytest

from paddock.errors import InvalidAction, ResetNeeded


def actions(space, count):
    """The same ones each time."""
    space.seed(11)
    return [space.sample() for _ in range(count)]


def played(env, seed, chosen):
    """All results of an episode, and of the next ones where it ends."""
    return [env.reset(seed=seed), *going_on(env, chosen)]


def going_on(env, chosen):
    """All results from here on."""
    results = []
    for action in chosen:
        results.append(env.step(action))
        if results[-1][2] or results[-1][3]:
            results.append(env.reset())
    return results


def equal(one, other):
    """Equal numbers and texts in the same places, whatever types they have."""
    if isinstance(one, dict):
        return (
            isinstance(other, dict) and one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
        )
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(equal, one, other))
    return np.array_equal(one, other)


def same_numbers(one, other):
    """Equal episodes, without the infos."""
    return len(one) == len(other) and all(
        equal(a[0], b[0]) and [*map(float, a[1:4])] == [*map(float, b[1:4])] if len(a) == 5 else equal(a[0], b[0])
        for a, b in zip(one, other, strict=True)
    )


def check_guard_of_three_steps(env):
    """The guard alone orders, validates and limits; ``env`` was made with max_episode_steps=3."""
    with pytest.raises(ResetNeeded):
        env.step(env.action_space.sample())
    env.reset(seed=np.int64(1))
    with pytest.raises(InvalidAction):
        env.step("left")
    assert [env.step(action)[3] for action in actions(env.action_space, 3)] == [False, False, True]
    assert env.state().step_count == 3


def batch(lanes, action):
    """One action for all lanes."""
    from paddock.spaces.batch import concatenate, create_empty_array

    space = lanes.single_action_space
    return concatenate(space, [action] * lanes.num_envs, create_empty_array(space, lanes.num_envs))


def lane_of(value, lane):
    """One lane's part of a batch."""
    if isinstance(value, dict):
        return {key: lane_of(part, lane) for key, part in value.items()}
    if isinstance(value, tuple) and not isinstance(value[0], str):  # a batch of texts is a tuple, with one a lane
        return tuple(lane_of(part, lane) for part in value)
    return value[lane]


def played_in_lanes(lanes, seed, chosen):
    """As ``played`` of each lane, which begins by itself after the end: its next action is ignored then."""
    first = lanes.reset(seed=seed)[0]
    results = [[(lane_of(first, lane), {})] for lane in range(lanes.num_envs)]
    over = [False] * lanes.num_envs
    for action in chosen:
        seen, *flags, _ = lanes.step(batch(lanes, action))
        for lane, found in enumerate(results):
            now = lane_of(seen, lane)
            found.append((now, {}) if over[lane] else (now, *(part[lane] for part in flags), {}))
            over[lane] = not over[lane] and bool(flags[1][lane] or flags[2][lane])
    return results


def played_with_pauses(env, seed, chosen):
    """As ``played``, with one action left out after each end."""
    results, over = [env.reset(seed=seed)], False
    for action in chosen:
        results.append(env.reset() if over else env.step(action))
        over = len(results[-1]) == 5 and (results[-1][2] or results[-1][3])
    return results
