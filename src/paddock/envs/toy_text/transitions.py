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
    """A table as arrays [states * actions * outcomes]: one index compiles faster than three, and suits lists as well.

    Pairs with fewer outcomes than others are filled up with outcomes of probability 0.
    """

    probability: Array  # float64
    successor: Array  # int64
    reward: Array  # float64
    terminated: Array  # bool
    actions: int
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
    at = chosen_outcome(state.s, action, rng.random(), params)
    new = State(int(params.successor[at]), action, float(params.probability[at]))
    return new, float(params.reward[at]), bool(params.terminated[at])


def observe(state: State, params: Params) -> int:
    return state.s


def info(state: State, params: Params) -> Told:
    return Told(state.prob)


def chosen_outcome(s: int, action: int, drawn: float, params: Any) -> int:
    """The index of the first outcome whose summed probability is above the number drawn.

    The first of all if rounding left none.
    """
    outcomes: int = params.outcomes
    first: int = (s * params.actions + action) * outcomes
    total = 0.0
    chosen = 0
    # Counted to the end, without a way out: a jump that depends on chance costs compiled code more than the sums.
    for k in range(outcomes):
        total += params.probability[first + k]
        if total <= drawn:
            chosen += 1
    return first + chosen if chosen < outcomes else first


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
    return bool(0 <= state.s < states_of(params) and -1 <= state.lastaction < params.actions)


def states_of(params: Any) -> int:
    """How many states the table has."""
    return int(len(params.successor) // (params.actions * params.outcomes))


def fits(params: Any, states: int, actions: int) -> bool:
    """Whether compiled code can't leave these arrays from any state by any action."""
    arrays = (params.probability, params.successor, params.reward, params.terminated)
    first = params.first_states
    if params.actions != actions or params.outcomes < 1 or len(first) != len(params.first_sums):
        return False
    if any(len(array) != states * actions * params.outcomes for array in arrays):
        return False
    return all(np.all((to >= 0) & (to < states)) for to in (params.successor, first))


def observation_space(params: Any) -> Discrete:
    return Discrete(states_of(params))


def action_space(params: Any) -> Discrete:
    return Discrete(params.actions)


def table(states: int, actions: int, outcomes: Callable[[int, int], list[Outcome]]) -> Table:
    """The table of a rule for one state and action."""
    return {s: {a: outcomes(s, a) for a in range(actions)} for s in range(states)}


def params_of(table: Table, distribution: Array) -> Params:
    """The arrays of a table. They can be shared between environments: nobody can write to them."""
    arrays, outcomes = outcome_arrays(table, len(table), len(table[0]))
    params = Params(*arrays, len(table[0]), outcomes, *first_arrays(distribution, len(table)))
    for value in params:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return params


def outcome_arrays(table: Any, states: int, actions: int) -> tuple[tuple[Array, Array, Array, Array], int]:
    """``probability, successor, reward, terminated`` of all pairs, and the most outcomes that a pair has.

    Anything that is no table is refused.
    """
    rows = [[row_of(table, s, a) for a in range(actions)] for s in range(states)]
    outcomes = max(len(row) for by_action in rows for row in by_action)
    size = states * actions * outcomes
    arrays = np.zeros(size), np.zeros(size, np.int64), np.zeros(size), np.zeros(size, np.bool_)
    for s, by_action in enumerate(rows):
        for a, row in enumerate(by_action):
            place = (s * actions + a) * outcomes
            write_row([array[place : place + outcomes] for array in arrays], checked_row(row, states, f"P[{s}][{a}]"))
    return arrays, outcomes


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


def checked_row(row: Sequence[Any], states: int, where: str) -> list[Outcome]:
    """The outcomes of a row, each of which leads somewhere."""
    return [_outcome(entry, states, f"{where}[{k}]") for k, entry in enumerate(row)]


def write_row(places: Sequence[Array], row: list[Outcome]) -> None:
    """Put outcomes into their places of the four arrays; those that do not exist get probability 0."""
    filled = row + [(0.0, 0, 0.0, False)] * (len(places[0]) - len(row))
    for place, values in zip(places, zip(*filled, strict=True), strict=True):
        place[:] = values


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
