"""Logic without memory, fitted to the space that it is put around: what follows from the two is computed once.

Written for one lane (``one``) and, where that is faster, for rows (``rows``). A frozen dataclass takes the space as an
``InitVar``, so that it is no argument in a spec.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddock.spaces import Dict, Space, Tuple
from paddock.wrappers.logic import Lanes, Logic, Wrapped
from paddock.wrappers.rows import gather, members


class Fitted(Logic):
    """Values of ``given`` become values of ``wanted``: of actions the agent's is given, of observations wanted."""

    given: Space[Any]
    wanted: Space[Any]

    def _fit(self, given: Space[Any], wanted: Space[Any], **facts: Any) -> None:
        # Past the frozen dataclass's __setattr__: these are no fields, they follow from the fields and the space.
        vars(self).update(given=given, wanted=wanted, **facts)

    def one(self, value: Any) -> Any:
        """One lane's value."""
        raise NotImplementedError

    def rows(self, values: Any) -> Any:
        """Many lanes' values; here lane by lane, which is right for every space."""
        return lane_by_lane(self.one, self.given, self.wanted, values)


class FittedObservation(Fitted):
    """``wanted`` is what the agent sees."""

    def observation_space(self, wrapped: Wrapped) -> Space[Any]:
        return self.wanted

    def observe(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        return self.one(observation) if lanes is None else self.rows(observation)


class FittedAction(Fitted):
    """``given`` is what the agent may do."""

    def action_space(self, wrapped: Wrapped) -> Space[Any]:
        return self.given

    def act(self, memory: Any, lanes: Lanes, action: Any) -> Any:
        return self.one(action) if lanes is None else self.rows(action)


def lane_by_lane(one: Callable[[Any], Any], given: Space[Any], wanted: Space[Any], values: Any) -> Any:
    """``one`` of each row of ``values``, rows of ``given``, as rows of ``wanted``."""
    each = members(given, values, _count(given, values))
    return gather(wanted, [one(value) for value in each])


def _count(space: Space[Any], rows: Any) -> int:
    while isinstance(space, (Dict, Tuple)) and len(space.spaces):
        key: Any = next(iter(space.spaces)) if isinstance(space, Dict) else 0
        space, rows = space.spaces[key], rows[key]
    return len(rows)
