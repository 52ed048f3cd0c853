"""Worlds that are a table: for each state and action a few outcomes (probability, next state, reward, terminated).

``P`` is that table as Gymnasium has it, dicts of dicts of lists of tuples; the kernel reads it as arrays. Next states
are checked when a table becomes arrays, because compiled code indexes by them without a check. ``P`` and
``initial_state_distrib`` are plain dicts and arrays that anyone may write into. So once they have been handed out, each
step first reads its own row of ``P`` again, and each reset the distribution.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from paddock.core.env import Info
from paddock.errors import InvalidAction, InvalidKernel
from paddock.kernels import Kernel, KernelEnv
from paddock.spaces import Discrete

Array = np.ndarray[Any, Any]
Outcome = tuple[float, int, float, bool]
Table = dict[int, dict[int, list[Outcome]]]

_ARRAYS = ("probability", "successor", "reward", "terminated")
# The codes of colours that ``render_mode="ansi"`` uses.
ON_RED, ON_GREEN, ON_YELLOW, MAGENTA, BOLD_BLUE = "41", "42", "43", "35", "34;1"


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


class TableInfo(NamedTuple):
    prob: float


def initial(rng: Any, params: Params) -> State:
    return State(first_state(rng.random(), params), -1, 1.0)


def step(state: State, action: int, rng: Any, params: Params) -> tuple[State, float, bool]:
    at = choose_outcome(state.s, action, rng.random(), params)
    new = State(int(params.successor[at]), action, float(params.probability[at]))
    return new, float(params.reward[at]), bool(params.terminated[at])


def observe(state: State, params: Params) -> int:
    return state.s


def info(state: State, params: Params) -> TableInfo:
    return TableInfo(state.prob)


def choose_outcome(s: int, action: int, drawn: float, params: Any) -> int:
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
    """As ``choose_outcome``, by halving: Taxi begins in one of 300 states. State 0 if rounding left none."""
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
    return int(len(params.successor) // (params.actions * params.outcomes))


def fits(params: Any, states: int, actions: int) -> bool:
    """Whether no action in any state makes compiled code read outside these arrays."""
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


def table_kernel(params: Params, configure: Callable[..., Params]) -> Kernel:
    """The kernel of a world that is its table alone."""
    return Kernel(
        initial,
        step,
        observe,
        params=params,
        observation_space=observation_space,
        action_space=action_space,
        info=info,
        configure=configure,
        valid=valid,
    )


def build_table(states: int, actions: int, outcomes: Callable[[int, int], list[Outcome]]) -> Table:
    """The table of a rule that gives the outcomes of one state and action."""
    return {s: {a: outcomes(s, a) for a in range(actions)} for s in range(states)}


def params_of(table: Table, distribution: Array) -> Params:
    """The arrays of a table, read-only: environments share them."""
    arrays, outcomes = outcome_arrays(table, len(table), len(table[0]))
    params = Params(*arrays, len(table[0]), outcomes, *first_arrays(distribution, len(table)))
    for value in params:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return params


def outcome_arrays(table: Any, states: int, actions: int) -> tuple[tuple[Array, Array, Array, Array], int]:
    """``probability, successor, reward, terminated`` of all pairs, and the most outcomes that a pair has.

    Anything that is not a table is refused.
    """
    rows = [[row_of(table, s, a) for a in range(actions)] for s in range(states)]
    outcomes = max(len(row) for by_action in rows for row in by_action)
    size = states * actions * outcomes
    arrays = np.zeros(size), np.zeros(size, np.int64), np.zeros(size), np.zeros(size, np.bool_)
    for s, by_action in enumerate(rows):
        for a, row in enumerate(by_action):
            place = (s * actions + a) * outcomes
            write_row([array[place : place + outcomes] for array in arrays], check_row(row, states, f"P[{s}][{a}]"))
    return arrays, outcomes


def row_of(table: Any, s: int, a: int) -> Sequence[Any]:
    try:
        row = table[s][a]
        if len(row) > 0:
            return row  # type: ignore[no-any-return]
    except (LookupError, TypeError):
        raise InvalidKernel(
            f"P[{s}][{a}] is missing; expected a list of outcomes for every state and action."
        ) from None
    raise InvalidKernel(f"P[{s}][{a}] is empty; expected at least one (probability, next state, reward, terminated).")


def check_row(row: Sequence[Any], states: int, where: str) -> list[Outcome]:
    """The outcomes of a row, each of which leads to a state that exists."""
    outcomes: list[Outcome] = []
    for k, entry in enumerate(row):
        try:
            probability, successor, reward, terminated = entry
            outcome = float(probability), operator.index(successor), float(reward), bool(terminated)
        except (TypeError, ValueError):
            raise InvalidKernel(
                f"{where}[{k}] is {entry!r}; expected (probability, next state, reward, terminated)."
            ) from None
        if not 0.0 <= outcome[0] < float("inf"):
            raise InvalidKernel(f"{where}[{k}] has probability {probability}; expected a number from 0 to 1.")
        if not 0 <= outcome[1] < states:
            raise InvalidKernel(f"{where}[{k}] leads to state {successor}; expected one of 0 to {states - 1}.")
        outcomes.append(outcome)
    return outcomes


def write_row(places: Sequence[Array], row: list[Outcome]) -> None:
    """Put outcomes into their places of the four arrays; those that do not exist get probability 0."""
    filled = row + [(0.0, 0, 0.0, False)] * (len(places[0]) - len(row))
    for place, values in zip(places, zip(*filled, strict=True), strict=True):
        place[:] = values


def first_arrays(distribution: Any, states: int) -> tuple[Array, Array]:
    """``first_states, first_sums`` of the probabilities of the first state."""
    weights = np.asarray(distribution, np.float64)
    if weights.shape != (states,) or not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise InvalidKernel(f"initial_state_distrib is {distribution!r}; expected {states} probabilities.")
    first = np.flatnonzero(weights)
    return first.astype(np.int64), np.cumsum(weights)[first]


class _Hidden:
    """A param that is not an attribute: written past P's checks it could let compiled code read out of bounds."""

    def __get__(self, env: Any, owner: Any = None) -> Any:
        if env is None:
            return self
        raise AttributeError("The arrays behind P are not attributes; read and write P and initial_state_distrib.")

    def __set__(self, env: Any, value: Any) -> None:
        self.__get__(env)


def state_attribute(name: str, doc: str, *, none: Any = ...) -> Any:
    """A field of the kernel's state as an attribute, readable and writable; ``none`` is the number that means None."""

    def get(self: TableEnv) -> Any:
        state = self.kernel_state
        if state is None:
            raise AttributeError(f"{name} exists from the first reset on.")
        value = getattr(state, name)
        return None if value == none and none is not ... else value

    def set_(self: TableEnv, value: Any) -> None:
        kind = self.kernel.state_type
        state = kind(0) if self.kernel_state is None else self.kernel_state
        number = none if value is None and none is not ... else value
        if not isinstance(number, (int, np.integer, np.bool_)):
            raise InvalidKernel(f"{name}={value!r}: expected a whole number.")
        self.kernel_state = state._replace(**{name: type(getattr(state, name))(number)})

    return property(get, set_, doc=doc)


class TableEnv(KernelEnv):
    """An environment that is a table, with the attributes that Gymnasium's have.

    ``tables`` makes a new P; ``distribution`` has the probability of each state to be the first.
    """

    probability = successor = reward = terminated = actions = outcomes = first_states = first_sums = masks = _Hidden()
    s = state_attribute("s", "The number of the state.")
    lastaction = state_attribute("lastaction", "The action that led here; None at the beginning.", none=-1)

    def __init__(
        self, render_mode: str | None, *, tables: Callable[[], Table], distribution: Array, **arguments: Any
    ) -> None:
        super().__init__(render_mode, **arguments)
        self._make_tables = tables
        self._tables: Any = None  # P, once it has been handed out
        self._known: dict[int, Any] = {}  # rows of P as they were when last read, by their place in the arrays
        self._distribution = np.array(distribution)
        self._lists: Any = None  # the params with lists for arrays, whose elements Python reads several times faster
        self._shared = False  # whether anything has been handed out that must be read again
        self._actions = self._params.actions

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        # Hot path: compiled, this frame and the lane's are all there is; in Python, this one and the kernel's.
        if self._shared:
            self._read_before_step(action)
        lane = self._lane
        if lane is not None:
            return lane.step(action)
        if not 0 <= action < self._actions:  # indexing from the end would be no error
            raise InvalidAction(
                f"action {action!r} is outside {self.action_space}.", action=action, space=self.action_space
            )
        lists = self._lists
        if lists is None or self._shared or self._state is None or self.render_mode == "human":
            return super().step(action)
        self._state, reward, terminated = self.kernel.step(self._state, action, self._rng, lists)
        return self._state.s, reward, terminated, False, self._info_of(self._state)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        if self._shared:
            self._read_before_reset()
        elif self._lane is None and self._lists is None:
            self._lists = self._params._replace(**{name: getattr(self._params, name).tolist() for name in _ARRAYS})
        return super().reset(seed=seed, options=options)

    def set_params(self, params: Any) -> None:
        """Use other params from the next step on, if their arrays lead only to states that exist."""
        if not self._fits(params):
            raise InvalidKernel("These params are not a table for this environment's states and actions.")
        self._lists = None
        super().set_params(params)

    @property
    def P(self) -> Table:  # noqa: N802 - the name that every textbook gives it
        """``P[state][action]``: a list of (probability, next state, reward, terminated). Writing into it counts."""
        if self._tables is None:
            self.P = self._make_tables()
        return self._tables  # type: ignore[no-any-return]

    @P.setter
    def P(self, tables: Table) -> None:  # noqa: N802
        self._read_tables(tables)
        self._tables, self._shared = tables, True

    @property
    def initial_state_distrib(self) -> Array:
        """The probability of each state to be the first: float64[states]. Writing into it counts."""
        self._shared = True
        return self._distribution

    @initial_state_distrib.setter
    def initial_state_distrib(self, weights: Any) -> None:
        first_arrays(weights, states_of(self._params))
        self._distribution, self._shared = np.array(weights, np.float64), True
        self._read_distribution()

    def snapshot(self) -> bytes:
        """State and random stream as bytes, for ``restore`` of an environment with the same tables."""
        self._read_all()
        return super().snapshot()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; anything else raises InvalidSnapshot and changes nothing."""
        self._read_all()
        super().restore(snapshot)

    def _start_params(self, options: Info | None) -> Any:
        """Reset options mean nothing here, and none may reach the arrays."""
        return self._params

    def _fits(self, params: Any) -> bool:
        return fits(params, states_of(self._params), self._actions)

    def _info_of(self, state: Any) -> Info:
        return {"prob": state.prob}  # what the kernel's info returns, without a record in between

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_lists": None}  # made again by the next reset

    def _read_before_step(self, action: Any) -> None:
        state = self.kernel_state
        if self._tables is not None and state is not None and 0 <= action < self._actions:
            self._read_row(state.s, int(action))

    def _read_before_reset(self) -> None:
        self._read_distribution()

    def _read_row(self, s: int, action: int) -> None:
        params = self._params
        row = row_of(self._tables, s, action)
        place = (s * params.actions + action) * params.outcomes
        if self._known.get(place) == row:
            return
        if len(row) > params.outcomes:
            self._read_tables(self._tables)
        else:
            # In place: a compiled lane reads these very arrays.
            places = [getattr(params, name)[place : place + params.outcomes] for name in _ARRAYS]
            write_row(places, check_row(row, states_of(params), f"P[{s}][{action}]"))
            self._known[place] = [tuple(entry) for entry in row]  # a list among them would not be equal: read again

    def _read_tables(self, tables: Table) -> None:
        arrays, outcomes = outcome_arrays(tables, states_of(self._params), self._actions)
        named = dict(zip(_ARRAYS, arrays, strict=True))
        self.set_params(self._params._replace(**named, outcomes=outcomes))
        self._known = {}

    def _read_distribution(self) -> None:
        states, sums = first_arrays(self._distribution, states_of(self._params))
        if not (np.array_equal(states, self._params.first_states) and np.array_equal(sums, self._params.first_sums)):
            self.set_params(self._params._replace(first_states=states, first_sums=sums))

    def _read_all(self) -> None:
        if self._tables is not None:
            self._read_tables(self._tables)
        self._read_before_reset()


def color_text(text: str, code: str) -> str:
    """The text between the escape codes of a colour."""
    return f"\x1b[{code}m{text}\x1b[0m"
