"""Two vector environments played alike, and their results compared to the last bit."""

import numpy as np

from tests.spaces.twins import same

MODES = ["NextStep", "SameStep", "Disabled"]


def assert_alike(ours, theirs, place="result"):
    """Equal to the last bit; arrays of objects by what they hold, Gymnasium's graphs as ours."""
    if isinstance(ours, dict):
        assert isinstance(theirs, dict) and set(ours) == set(theirs), f"{place}: {ours} and {theirs}"
        for key in ours:
            assert_alike(ours[key], theirs[key], f"{place}[{key!r}]")
    elif isinstance(ours, np.ndarray) and ours.dtype == object:
        assert isinstance(theirs, np.ndarray), place
        assert theirs.dtype == object and theirs.shape == ours.shape, place
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_alike(one, other, f"{place}[{number}]")
    elif isinstance(ours, (tuple, list)) and type(ours) is type(theirs):
        assert len(ours) == len(theirs), place
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_alike(one, other, f"{place}[{number}]")
    else:
        assert same(ours, theirs), f"{place}: {ours!r} is not {theirs!r}"


def alike(ours, theirs):
    """Whether ``assert_alike`` finds nothing."""
    try:
        assert_alike(ours, theirs)
    except AssertionError:
        return False
    return True


def played(env, mode, batches, seed):
    """Everything that a run returns; without autoreset, lanes that ended are reset before the next step."""
    seen = [env.reset(seed=seed)]
    for actions in batches:
        result = env.step(actions)
        seen.append(result)
        over = result[2] | result[3]
        if mode == "Disabled" and over.any():
            seen.append(env.reset(options={"reset_mask": over}))
    env.close()
    return seen
