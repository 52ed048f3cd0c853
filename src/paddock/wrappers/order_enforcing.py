"""OrderEnforcing as a wrapper of its own, for those who compose a stack by hand; make() lets the Guard do it."""

from __future__ import annotations

from typing import Any, SupportsFloat

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.spec import EnvSpec
from paddock.core.wrapper import Wrapper
from paddock.errors import ResetNeeded
from paddock.wrappers.guard import DoneByGuard, Guard


class OrderEnforcing(Wrapper[ObsType, ActType, ObsType, ActType], metaclass=DoneByGuard):
    """Raises ResetNeeded for ``step`` and ``render`` before the first ``reset``."""

    def __init__(self, env: Env[ObsType, ActType], disable_render_order_enforcing: bool = False) -> None:
        super().__init__(env)
        self._record_arguments(disable_render_order_enforcing=disable_render_order_enforcing)
        self._has_reset = False
        self._disable_render_order_enforcing = disable_render_order_enforcing

    @staticmethod
    def _does(guard: Guard[Any, Any]) -> bool:
        return guard._order_enforce

    @property
    def has_reset(self) -> bool:
        """Whether ``reset`` was ever called."""
        return self._has_reset

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        if not self._has_reset:
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        return self.env.step(action)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        self._has_reset = True
        return self.env.reset(seed=seed, options=options)

    def restore(self, snapshot: bytes) -> None:
        self.env.restore(snapshot)
        self._has_reset = True  # snapshots are of episodes

    def render(self) -> Any:
        if not self._disable_render_order_enforcing and not self._has_reset:
            raise ResetNeeded(
                "Cannot call `env.render()` before calling `env.reset()`, if this is an intended action, "
                "set `disable_render_order_enforcing=True` on the OrderEnforcer wrapper."
            )
        return self.env.render()

    def _append_to_spec(self, spec: EnvSpec) -> EnvSpec:
        spec.order_enforce = True
        return spec
