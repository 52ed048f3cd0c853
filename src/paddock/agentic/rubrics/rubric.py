"""Rubric: gives an action and what came of it a score. Rubrics are made of rubrics, as modules of a network are.

A call returns a number, or a coroutine of one if the rubric or any of its parts has to wait. Names and behaviour are
those of OpenEnv's RFC 004.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, ClassVar, TypeAlias

from paddock.agentic.rubrics.hooks import HookHandle, Hooks
from paddock.agentic.rubrics.ledger import current_ledger
from paddock.agentic.rubrics.score import finite
from paddock.agentic.rubrics.settling import Steps, settled
from paddock.agentic.rubrics.state import load_state, state_of
from paddock.errors import InvalidRubric

Score: TypeAlias = "float | Coroutine[Any, Any, float]"


class Rubric(ABC):
    """Write ``forward``; a rubric that is assigned to an attribute is a child, with that name.

    A list or dict of rubrics in an attribute is no child: take RubricList and RubricDict for those.

    >>> class Short(Rubric):
    ...     def forward(self, action, observation):
    ...         return len(action) <= 5
    >>> Short()("tiny", None)
    1.0
    """

    state_fields: ClassVar[tuple[str, ...]] = ()
    """Attributes that belong in ``state_dict``, beside those of the classes above."""
    replayable: bool = True
    """Whether the same action and observation always give the same score. A judge that is a model says no."""
    last_score: float | None
    """What the last call gave."""

    # Not in __init__: a subclass that has its own and forgets super().__init__() works all the same.
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance without children and hooks."""
        made = super().__new__(cls)
        vars(made).update(last_score=None, _children={}, _forward_hooks=Hooks(), _forward_pre_hooks=Hooks())
        return made

    @abstractmethod
    def forward(self, action: Any, observation: Any) -> float | Awaitable[float]:
        """The score. May be ``async``, and may return what an async child's call returned without awaiting it."""

    # Any: a number, or a coroutine of one. Who calls it knows which, and should not have to tell the type checker.
    def __call__(self, action: Any, observation: Any) -> Any:
        """Hooks, ``forward``, hooks. What they raise comes through as it is; ``grade`` makes GradingFailed of it."""
        return settled(self._scoring(action, observation))

    def _scoring(self, action: Any, observation: Any) -> Steps[float]:
        ledger = current_ledger()
        with ledger.asking(self):
            for before in self._forward_pre_hooks:
                yield before(self, action, observation)
            score = finite((yield self.forward(action, observation)))
            object.__setattr__(self, "last_score", score)  # no child: there is nothing to look for
            for after in self._forward_hooks:
                yield after(self, action, observation, score)
            ledger.enter(self, score)
        return score

    # ── Hooks ──

    def register_forward_hook(self, hook: Callable[[Rubric, Any, Any, float], Any]) -> HookHandle:
        """Call ``hook(rubric, action, observation, score)`` after ``forward``. It may be async, and can't change it."""
        return self._forward_hooks.add(hook)

    def register_forward_pre_hook(self, hook: Callable[[Rubric, Any, Any], Any]) -> HookHandle:
        """Call ``hook(rubric, action, observation)`` before ``forward``, and so before any child."""
        return self._forward_pre_hooks.add(hook)

    # ── The tree ──

    _children: dict[str, Rubric]
    _forward_hooks: Hooks
    _forward_pre_hooks: Hooks

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Rubric):
            if name in _METHODS:
                raise InvalidRubric(f"A child can't be called {name!r}: every rubric has something of that name.")
            self._adopt(name, value)
        else:
            self._children.pop(name, None)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._children.pop(name, None)

    def _adopt(self, name: Any, child: Any) -> None:
        """A child without an attribute; for classes that are given their children by others."""
        own = type(self).__name__
        if not isinstance(child, Rubric):
            raise InvalidRubric(f"A part of {own} must be a Rubric; got {type(child).__name__}.")
        if not isinstance(name, str) or not name or "." in name:
            raise InvalidRubric(f"A child's name is a text without dots, which stand between names; got {name!r}.")
        if child is self or any(below is self for below in child.rubrics()):
            raise InvalidRubric(f"{own} would be a part of itself if {name!r} were its child.")
        self._children[name] = child

    def children(self) -> Iterator[Rubric]:
        """The children, in the order in which they were assigned."""
        yield from self._children.values()

    def named_children(self) -> Iterator[tuple[str, Rubric]]:
        """The children with their names."""
        yield from self._children.items()

    def rubrics(self) -> Iterator[Rubric]:
        """All descendants, each before its own children."""
        for _, rubric in self.named_rubrics():
            yield rubric

    def named_rubrics(self, prefix: str = "") -> Iterator[tuple[str, Rubric]]:
        """All descendants with their dotted names, which begin with ``prefix``."""
        for name, child in self._children.items():
            full = f"{prefix}.{name}" if prefix else name
            yield full, child
            yield from child.named_rubrics(full)

    def get_rubric(self, path: str) -> Rubric:
        """The descendant of this dotted name."""
        found = self
        for name in path.split("."):
            if name not in found._children:
                names = ", ".join(name for name, _ in self.named_rubrics()) or "none"
                raise InvalidRubric(f"{type(self).__name__} has no part {path!r}. There are: {names}.")
            found = found._children[name]
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={child!r}' for name, child in self._children.items())})"

    # ── State ──

    def reset(self) -> None:
        """An episode begins: forget what was seen of the last one. Calls the children's; so should yours."""
        for child in self._children.values():
            child.reset()

    def state_dict(self) -> dict[str, Any]:
        """Configuration for a checkpoint, descendants included: ``{"gate.threshold": 0.5}``."""
        return state_of(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state_dict`` gave. A key that it does not have is an error."""
        load_state(self, state)


_METHODS = frozenset(dir(Rubric))
