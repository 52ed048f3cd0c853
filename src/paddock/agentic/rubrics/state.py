"""The state of a rubric and all its descendants as one flat dict, keys dotted: what it was told, not what it has seen.

A key that the rubric does not have is an error, and then nothing was changed. One that is missing leaves its value as
it is, as OpenEnv has it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from paddock.errors import InvalidRubric

if TYPE_CHECKING:
    from paddock.agentic.rubrics.rubric import Rubric


def fields_of(rubric: Rubric) -> tuple[str, ...]:
    """The ``state_fields`` of its class and of those above, the uppermost first."""
    declared = (name for cls in reversed(type(rubric).__mro__) for name in vars(cls).get("state_fields", ()))
    return tuple(dict.fromkeys(declared))


def state_of(rubric: Rubric) -> dict[str, Any]:
    """Copies of the fields, and the children's under their names."""
    state = {name: copy.deepcopy(getattr(rubric, name)) for name in fields_of(rubric)}
    for name, child in rubric.named_children():
        state.update({f"{name}.{key}": value for key, value in child.state_dict().items()})
    return state


def load_state(rubric: Rubric, state: Mapping[str, Any]) -> None:
    """Set the fields, and let the children load theirs."""
    if not isinstance(state, Mapping):
        raise InvalidRubric(f"A state is a dict, as state_dict() returns it; got {type(state).__name__}.")
    before = rubric.state_dict()  # of a subclass too, which may add keys of its own
    for key in state:
        if key not in before:
            raise InvalidRubric(_unknown(rubric, key, list(before)))
    try:
        _assign(rubric, state)
    except Exception:
        _assign(rubric, before)
        raise


def _assign(rubric: Rubric, state: Mapping[str, Any]) -> None:
    for name in fields_of(rubric):
        if name in state:
            setattr(rubric, name, copy.deepcopy(state[name]))
    for name, child in rubric.named_children():
        own = {key.removeprefix(f"{name}."): state[key] for key in state if key.startswith(f"{name}.")}
        if own:
            child.load_state_dict(own)


def _unknown(rubric: Rubric, key: Any, known: list[str]) -> str:
    close = get_close_matches(str(key)[:80], known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    there = f"There are: {', '.join(known)}." if known else "It has no state."
    return f"{type(rubric).__name__} has no state {str(key)[:80]!r}.{hint} {there} Nothing was changed."
