"""Snapshots that no environment saved: a real one's value, changed and sealed again."""

import numpy as np

from paddock.sources.foreign import open_value, seal_value


def forged(layer, snapshot, change):
    value = open_value(layer, snapshot)
    change(value)
    return seal_value(layer, value, name="forged")


def setting(*path, to):
    """A change that puts one thing, by the way to it."""

    def change(value):
        for step in path[:-1]:
            value = value[step]
        value[path[-1]] = to

    return change


def without(name):
    return lambda value: value.pop(name)


def filled(*path, to):
    """A change of all numbers of an array."""

    def change(value):
        for step in path:
            value = value[step]
        value[...] = to

    return change


def integers_of(data):
    """Names of a simulator's arrays that are no floats, with what they are."""
    found = {name: getattr(data, name, None) for name in dir(data) if not name.startswith("_")}
    return {name: np.array(one) for name, one in found.items() if isinstance(one, np.ndarray) and one.dtype.kind != "f"}


def failing_once(forward, problem):
    """``forward``, which does its work and then raises, the first time it is called."""
    calls = []

    def failing(model, data):
        calls.append(forward(model, data))
        if len(calls) == 1:
            raise problem

    return failing
