"""``gymnasium.experimental.functional``: an environment as pure functions, whose state the caller carries.

For those who write that API, with JAX mostly. paddock's own environments are kernels, see ``docs/kernels.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from paddock.core.env import AnyByDefault
from paddock.spaces import Space

StateType = TypeVar("StateType")
ActType = TypeVar("ActType")
ObsType = TypeVar("ObsType")
RewardType = TypeVar("RewardType")
TerminalType = TypeVar("TerminalType")
RenderStateType = TypeVar("RenderStateType")
Params = TypeVar("Params")


class FuncEnv(AnyByDefault, Generic[StateType, ObsType, ActType, RewardType, TerminalType, RenderStateType, Params]):
    """Subclasses set both spaces and write ``initial``, ``transition``, ``observation``, ``reward`` and ``terminal``.

    ``options`` become attributes, for the constants that the functions read. ``rng`` is whatever the author's numbers
    come from: a JAX key, or a NumPy Generator.
    """

    observation_space: Space[Any]
    action_space: Space[Any]

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        vars(self).update(options or {})
        self.default_params = self.get_default_params()

    def initial(self, rng: Any, params: Params | None = None) -> StateType:
        """The first state of an episode."""
        raise self._missing("initial")

    def transition(self, state: StateType, action: ActType, rng: Any, params: Params | None = None) -> StateType:
        """The state that follows."""
        raise self._missing("transition")

    def observation(self, state: StateType, rng: Any, params: Params | None = None) -> ObsType:
        """What is seen of a state."""
        raise self._missing("observation")

    def reward(
        self, state: StateType, action: ActType, next_state: StateType, rng: Any, params: Params | None = None
    ) -> RewardType:
        """What a step is worth."""
        raise self._missing("reward")

    def terminal(self, state: StateType, rng: Any, params: Params | None = None) -> TerminalType:
        """Whether a state ends the episode."""
        raise self._missing("terminal")

    def state_info(self, state: StateType, params: Params | None = None) -> dict[str, Any]:
        """What else there is to tell of a state."""
        return {}

    def transition_info(
        self, state: StateType, action: ActType, next_state: StateType, params: Params | None = None
    ) -> dict[str, Any]:
        """What else there is to tell of a step."""
        return {}

    def transform(self, func: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace each function by ``func`` of it, ``jax.vmap`` say. Rendering stays as it is."""
        for name in _TRANSFORMED:
            setattr(self, name, func(getattr(self, name)))
        self.step_info = self.transition_info  # the name under which Gymnasium leaves the transformed one

    def render_image(
        self, state: StateType, render_state: RenderStateType, params: Params | None = None
    ) -> tuple[RenderStateType, np.ndarray[Any, Any]]:
        """The state as a picture, and what the next picture needs."""
        raise self._missing("render_image")

    def render_init(self, params: Params | None = None, **kwargs: Any) -> RenderStateType:
        """What the first picture needs."""
        raise self._missing("render_init")

    def render_close(self, render_state: RenderStateType, params: Params | None = None) -> None:
        """Free it."""
        raise self._missing("render_close")

    def get_default_params(self, **kwargs: Any) -> Params | None:
        """The params for callers who pass none."""
        return None

    def _missing(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} does not define {name}().")


_TRANSFORMED = ("initial", "transition", "observation", "reward", "terminal", "state_info", "transition_info")
