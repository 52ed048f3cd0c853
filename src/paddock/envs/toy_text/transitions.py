"""Worlds that are a table: for each state and action a few outcomes (probability, next state, reward, terminated).

``P`` is that table as Gymnasium has it, dicts of dicts of lists of tuples; the kernel reads it as arrays. Next states
are checked when a table becomes arrays, because compiled code indexes by them without looking.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from paddock.errors import InvalidKernel
from paddock.spaces import Discrete

Array = np.ndarray[Any, Any]
Outcome = tuple[float, int, float, bool]
Table = dict[int, dict[int, list[Outcome]]]


class Params(NamedTuple):
    """A table as arrays. Pairs with fewer outcomes than others are filled up with outcomes of probability 0."""

    probability: Array  # float64[states, actions, outcomes]
    successor: Array  # int64[states, actions, outcomes]
    reward: Array  # float64[states, actions, outcomes]
    terminated: Array  # bool[states, actions, outcomes]
    outcomes: int
    first_states: Array  # int64[m]: the states that an episode may begin with
    first_sums: Array  # float64[m]: their probabilities, summed up


class State(NamedTuple):
    """``prob`` is the probability of the outcome that led here."""

    s: int
    lastaction: int = -1  # none yet
    prob: float = 1.0


class Told(NamedTuple):
    prob: float


def initial(rng: Any, params: Params) -> State:
    return State(first_state(rng.random(), params), -1, 1.0)


def step(state: State, action: int, rng: Any, params: Params) -> tuple[State, float, bool]:
    s = state.s
    k = chosen_outcome(params.probability[s][action], rng.random(), params.outcomes)
    new = State(int(params.successor[s][action][k]), action, float(params.probability[s][action][k]))
    return new, float(params.reward[s][action][k]), bool(params.terminated[s][action][k])


def observe(state: State, params: Params) -> int:
    return state.s


def info(state: State, params: Params) -> Told:
    return Told(state.prob)


def chosen_outcome(likely: Any, drawn: float, outcomes: int) -> int:
    """The first outcome whose summed probability is above the number drawn; the first of all if rounding left none."""
    total = 0.0
    chosen = 0
    # Counted to the end, without a way out: a jump that depends on chance costs compiled code more than the sums.
    for k in range(outcomes):
        total += likely[k]
        if total <= drawn:
            chosen += 1
    return chosen if chosen < outcomes else 0


def first_state(drawn: float, params: Any) -> int:
    """As ``chosen_outcome``, by halving: Taxi begins in one of 300 states. State 0 if rounding left none."""
    sums = params.first_sums
    low, high = 0, len(sums)
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > drawn:
            high = middle
        else:
            low = middle + 1
    return int(params.first_states[low]) if low < len(sums) else 0


def valid(state: Any, params: Any) -> bool:
    """Whether the state is a row of the table."""
    states, actions, _ = params.successor.shape
    return bool(0 <= state.s < states and -1 <= state.lastaction < actions)


def observation_space(params: Any) -> Discrete:
    return Discrete(params.successor.shape[0])


def action_space(params: Any) -> Discrete:
    return Discrete(params.successor.shape[1])


def table(states: int, actions: int, outcomes: Callable[[int, int], list[Outcome]]) -> Table:
    """The table of a rule for one state and action."""
    return {s: {a: outcomes(s, a) for a in range(actions)} for s in range(states)}


def params_of(table: Table, distribution: Array) -> Params:
    """The arrays of a table. They can be shared between environments: nobody can write to them."""
    arrays = outcome_arrays(table, len(table), len(table[0]))
    params = Params(*arrays, arrays[0].shape[2], *first_arrays(distribution, len(table)))
    for value in params:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return params


def outcome_arrays(table: Any, states: int, actions: int) -> tuple[Array, Array, Array, Array]:
    """``probability, successor, reward, terminated`` of all pairs; anything that is no table is refused."""
    rows = [[row_of(table, s, a) for a in range(actions)] for s in range(states)]
    shape = (states, actions, max(len(row) for by_action in rows for row in by_action))
    arrays = np.zeros(shape), np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape, np.bool_)
    for s, by_action in enumerate(rows):
        for a, row in enumerate(by_action):
            write_row(arrays, s, a, row)
    return arrays


def row_of(table: Any, s: int, a: int) -> Sequence[Any]:
    """The outcomes of one state and action."""
    try:
        row = table[s][a]
        if len(row) > 0:
            return row  # type: ignore[no-any-return]
    except (LookupError, TypeError):
        raise InvalidKernel(
            f"P[{s}][{a}] is missing; expected a list of outcomes for every state and action."
        ) from None
    raise InvalidKernel(f"P[{s}][{a}] is empty; expected at least one (probability, next state, reward, terminated).")


def write_row(arrays: Sequence[Array], s: int, a: int, row: Sequence[Any]) -> None:
    """Put checked outcomes into their place in the arrays; those that do not exist get probability 0."""
    states = len(arrays[0])
    checked = [_outcome(entry, states, f"P[{s}][{a}][{k}]") for k, entry in enumerate(row)]
    checked += [(0.0, 0, 0.0, False)] * (arrays[0].shape[2] - len(row))
    for array, values in zip(arrays, zip(*checked, strict=True), strict=True):
        array[s, a] = values


def _outcome(entry: Any, states: int, where: str) -> Outcome:
    try:
        probability, successor, reward, terminated = entry
        found = float(probability), operator.index(successor), float(reward), bool(terminated)
    except (TypeError, ValueError):
        raise InvalidKernel(f"{where} is {entry!r}; expected (probability, next state, reward, terminated).") from None
    if not 0.0 <= found[0] < float("inf"):
        raise InvalidKernel(f"{where} has probability {probability}; expected a number from 0 to 1.")
    if not 0 <= found[1] < states:
        raise InvalidKernel(f"{where} leads to state {successor}; expected one of 0 to {states - 1}.")
    return found


def first_arrays(distribution: Any, states: int) -> tuple[Array, Array]:
    """``first_states, first_sums`` of the probabilities of the first state."""
    weights = np.asarray(distribution, np.float64)
    if weights.shape != (states,) or not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise InvalidKernel(f"initial_state_distrib is {distribution!r}; expected {states} probabilities.")
    first = np.flatnonzero(weights)
    return first.astype(np.int64), np.cumsum(weights)[first]
