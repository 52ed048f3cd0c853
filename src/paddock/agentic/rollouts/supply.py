"""Supply: where the environments of rollouts come from. One that the caller brought is never closed here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from paddock.core.env import Env

Maker = Callable[[], Env[Any, Any]]


class Supply:
    """Environments for the players. One that the caller brought is lent, never closed, and can't be replaced."""

    def __init__(self, make: Maker | None, lent: Env[Any, Any] | None = None) -> None:
        self._make, self._lent = make, lent
        self._lost = False

    def take(self) -> Env[Any, Any]:
        """An environment of one's own."""
        if self._make is not None:
            return self._make()
        if self._lent is None or self._lost:
            raise RuntimeError(
                "the environment that was given did not come back from an earlier rollout. Pass an id, or a function "
                "that makes environments, so that another can take its place."
            )
        return self._lent

    @property
    def lends(self) -> bool:
        """Whether there is just the caller's own."""
        return self._make is None

    def leave_behind(self) -> None:
        """A player with an environment did not come back."""
        self._lost = self.lends

    def close(self, env: Env[Any, Any]) -> None:
        """Close one that was taken, whatever it says to that."""
        if not self.lends:
            with suppress(Exception, SystemExit):
                env.close()
