"""Constant: a kernel's parameter that is an attribute of the class as well, for environments whose classes have such.

Read on the class it is the default; on an environment, that environment's own. A subclass that defines the name again
changes the default of its environments.
"""

from __future__ import annotations

from typing import Any

from paddock.kernels import KernelEnv


class Constant:
    """One such attribute. Its default is in the owner's ``constants``."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, env: KernelEnv | None, owner: Any = None) -> Any:
        return owner.constants[self.name] if env is None else self.read(env._params)

    def __set__(self, env: KernelEnv, value: Any) -> None:
        env.set_params(env.kernel.replaced(env._params, self.written(value)))

    def read(self, params: Any) -> Any:
        """The attribute's value, from the params."""
        return getattr(params, self.name)

    def written(self, value: Any) -> dict[str, Any]:
        """The params that change when the attribute is set."""
        return {self.name: value}


def overridden(owner: Any) -> dict[str, Any]:
    """The constants of a class, with those that it defines itself; the latter no longer hide the Constants."""
    own = {name: vars(owner)[name] for name in owner.constants if name in vars(owner)}
    own = {name: value for name, value in own.items() if not hasattr(value, "__get__")}
    for name in own:
        delattr(owner, name)
    return {**owner.constants, **own}
