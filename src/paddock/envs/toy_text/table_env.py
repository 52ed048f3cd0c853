"""TableEnv: a world that is a table, as an environment with the attributes that Gymnasium's have.

``P`` and ``initial_state_distrib`` are given out as plain dicts and arrays that anyone may write into. So once they
have been asked for, each step first reads its own row of ``P`` again, and each reset the distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.envs.toy_text.transitions import (
    Array,
    Table,
    checked_row,
    first_arrays,
    fits,
    outcome_arrays,
    row_of,
    states_of,
    write_row,
)
from paddock.errors import InvalidAction, InvalidKernel
from paddock.kernels import KernelEnv

_ARRAYS = ("probability", "successor", "reward", "terminated")


class _Hidden:
    """A param that is no attribute: written past P's checks it could let compiled code read out of bounds."""

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
    """An environment of ``transitions``. ``tables`` makes P anew, ``distribution`` is that of the first state."""

    probability = successor = reward = terminated = actions = outcomes = first_states = first_sums = masks = _Hidden()
    s = state_attribute("s", "The number of the state.")
    lastaction = state_attribute("lastaction", "The action that led here; None at the beginning.", none=-1)

    def __init__(
        self, render_mode: str | None, *, tables: Callable[[], Table], distribution: Array, **arguments: Any
    ) -> None:
        super().__init__(render_mode, **arguments)
        self._make_tables = tables
        self._tables: Any = None  # P, once somebody has it
        self._known: dict[int, Any] = {}  # rows of P as they were when last read, by their place in the arrays
        self._distribution = np.array(distribution)
        self._lists: Any = None  # the params with lists for arrays, whose elements Python reads several times faster
        self._given = False  # whether somebody has something that must be read again
        self._actions = self._params.actions

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        # Hot path: compiled, this frame and the lane's are all there is; in Python, this one and the kernel's.
        if self._given:
            self._read_before_step(action)
        lane = self._lane
        if lane is not None:
            return lane.step(action)
        if not 0 <= action < self._actions:  # indexing from the end would be no error
            raise InvalidAction(
                f"action {action!r} is outside {self.action_space}.", action=action, space=self.action_space
            )
        lists = self._lists
        if lists is None or self._given or self._state is None or self.render_mode == "human":
            return super().step(action)
        self._state, reward, terminated = self.kernel.step(self._state, action, self._rng, lists)
        return self._state.s, reward, terminated, False, self._told(self._state)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        if self._given:
            self._read_before_reset()
        elif self._lane is None and self._lists is None:
            self._lists = self._params._replace(**{name: getattr(self._params, name).tolist() for name in _ARRAYS})
        return super().reset(seed=seed, options=options)

    def set_params(self, params: Any) -> None:
        """Other params from the next step on, as long as their arrays lead to no state that does not exist."""
        if not self._fits(params):
            raise InvalidKernel("These params are no table for this environment's states and actions.")
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
        self._tables, self._given = tables, True

    @property
    def initial_state_distrib(self) -> Array:
        """The probability of each state to be the first: float64[states]. Writing into it counts."""
        self._given = True
        return self._distribution

    @initial_state_distrib.setter
    def initial_state_distrib(self, weights: Any) -> None:
        first_arrays(weights, states_of(self._params))
        self._distribution, self._given = np.array(weights, np.float64), True
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

    def _told(self, state: Any) -> Info:
        return {"prob": state.prob}  # what the kernel's info tells, without a record in between

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
            write_row(places, checked_row(row, states_of(params), f"P[{s}][{action}]"))
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
