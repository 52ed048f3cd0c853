"""Tasks with what is hidden of them, from environments that run here. A trace chooses only among ids that are known.

Anything else that it names (a module, a folder, a server) would be code or a place of a stranger's choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock.cli.failures import CommandFailed
from paddock.cli.printing import message_of
from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.agentic.rescoring import FindTask


class HiddenTasks:
    """``target`` is for all episodes; without it, each is asked for by its environment's id. ``notes``: what is not."""

    def __init__(self, target: str | None, isolation: str | None) -> None:
        self._target, self._isolation = target, isolation
        self._known: dict[str | None, FindTask | None] = {}
        self.notes: list[str] = []

    def of(self, env: str | None) -> FindTask | None:
        """What finds a task of that environment; None where only public rows are at hand."""
        name = self._target or env
        if name not in self._known:
            self._known[name] = self._look_up(name)
        return self._known[name]

    def _look_up(self, name: str | None) -> FindTask | None:
        if name is None or (self._target is None and not _is_known(name)):
            self.notes.append(
                f"{name or 'no name'} in the trace is no id that is known here: what is hidden of its tasks is not "
                f"looked up. To do so: --env TARGET"
            )
            return None
        from paddock.agentic.tasks import Tasks
        from paddock.cli.environment import made

        try:
            with made(name, isolation=self._isolation) as env:
                tasks: Any = getattr(env.unwrapped, "tasks", None)
        except (PaddockError, CommandFailed) as error:
            if self._target is not None:
                raise
            self.notes.append(f"{name} can't be made, so what is hidden of its tasks is not known: {message_of(error)}")
            return None
        if not isinstance(tasks, Tasks):
            self.notes.append(
                f"the tasks of {name} are not at hand: it has none, or they are behind a wall or at a server, which "
                f"give away nothing hidden. A folder that you trust: --isolation none"
            )
            return None
        return tasks.get


def _is_known(name: str) -> bool:
    """Whether paddock brought the id, or code of the user's: the rubric's module may register some."""
    import paddock.envs.catalog  # noqa: F401 - puts the built-in ids into the registry
    from paddock.core.registry import registry

    return name in registry
