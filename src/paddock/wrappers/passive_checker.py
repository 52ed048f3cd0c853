"""PassiveEnvChecker as a wrapper of its own, for those who compose a stack by hand; make() lets the Guard do it."""

from __future__ import annotations

from typing import Any, SupportsFloat

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.passive import check_spaces, render_and_check, reset_and_check, step_and_check
from paddock.core.spec import EnvSpec
from paddock.core.wrapper import Wrapper
from paddock.wrappers.guard import DoneByGuard, Guard


class PassiveEnvChecker(Wrapper[ObsType, ActType, ObsType, ActType], metaclass=DoneByGuard):
    """Checks the spaces when made and what the first reset, step and render return; warns, or raises if unusable."""

    def __init__(self, env: Env[ObsType, ActType]) -> None:
        super().__init__(env)
        self._record_arguments()
        check_spaces(env)
        self.checked_reset = False
        self.checked_step = False
        self.checked_render = False
        self.close_called = False

    @staticmethod
    def _does(guard: Guard[Any, Any]) -> bool:
        return guard._validate

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        if self.checked_step:
            return self.env.step(action)
        self.checked_step = True
        return step_and_check(self.env, action)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        if self.checked_reset:
            return self.env.reset(seed=seed, options=options)
        self.checked_reset = True
        return reset_and_check(self.env, seed=seed, options=options)

    def render(self) -> Any:
        if self.checked_render:
            return self.env.render()
        self.checked_render = True
        return render_and_check(self.env)

    def close(self) -> None:
        if not self.close_called:
            self.close_called = True
            self.env.close()

    def _append_to_spec(self, spec: EnvSpec) -> EnvSpec:
        spec.disable_env_checker = False
        return spec
