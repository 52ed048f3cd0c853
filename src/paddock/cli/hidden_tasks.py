"""Tasks with what is hidden of them, from environments that run here. A trace chooses only among ids that are known.

Anything else that it names (a module, a folder, a server) would be code or a place of a stranger's choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock.cli.failures import CommandFailed, mistake
from paddock.cli.printing import message_of
from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.agentic.rescoring import FindTask


class HiddenTasks:
    """``target`` is for all episodes; without it, each is asked for by its environment's id. ``notes``: what is not."""

    def __init__(self, target: str | None, isolation: str | None) -> None:
        self._target, self._isolation = target, isolation
        if target is not None:
            _check_without_wall(target, isolation)
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
                f"looked up. To do so: --env TARGET, and for a folder of your own --env ./FOLDER --isolation none: "
                f"a wall gives away nothing hidden"
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
                f"the tasks of {name} are not at hand: it has none, or they are at a server, which gives away nothing "
                f"hidden"
            )
            return None
        return tasks.get


def _check_without_wall(target: str, isolation: str | None) -> None:
    """Said before anything runs: every episode would fail for want of what the wall keeps."""
    from paddock.making.folder_name import split_folder

    folder = split_folder(target) is not None
    if isolation == "none" or (isolation is None and not folder):
        return
    where = "runs behind a wall" if isolation is None else f"would run apart (--isolation {isolation})"
    own = "For a folder of your own" if folder else "For code of your own"
    raise mistake(f"--env {target} {where}, and a wall gives away nothing hidden. {own} add: --isolation none")


def _is_known(name: str) -> bool:
    """Whether paddock brought the id, or code of the user's: the rubric's module may register some."""
    import paddock.envs.catalog  # noqa: F401 - puts the built-in ids into the registry
    from paddock.core.registry import registry

    return name in registry
