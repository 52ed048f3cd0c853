"""``dm_control:domain/task``: the control suite, and ``dm_control:manipulation/name``, as Envs.

Its seed is the task's ``random``. A reader would make the environment anew for each seed, as the library does: that
takes up to seconds, and gives the same numbers as seeding the task's stream, but for LQR, whose model is drawn too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paddock.core.spec import EnvSpec
from paddock.errors import NameNotFound
from paddock.sources.dm_env import FromDmEnv
from paddock.sources.families import installed_family
from paddock.sources.headless import import_mujoco
from paddock.sources.their_errors import importing


class FromDmControl(FromDmEnv):
    """As FromDmEnv, made by the names of a domain and a task."""

    @classmethod
    def for_spec(cls, spec: EnvSpec) -> Callable[..., FromDmControl]:
        """What makes the environment that this spec's id names."""
        return ByName(spec.id)


def spec_of(id: str) -> EnvSpec:
    """For ``domain/task`` of the suite, or ``manipulation/name``."""
    known = _known(id)
    if id not in known:
        domain = id.partition("/")[0]
        tasks = [one for one in known if one.startswith(f"{domain}/")]
        domains = sorted({one.partition("/")[0] for one in known})
        which = f"of {', '.join(tasks)}" if tasks else f"with a domain of {', '.join(domains)}"
        raise NameNotFound(f"dm_control has no {id!r}. Expected 'domain/task', one {which}.")
    return EnvSpec(id, entry_point="paddock.sources.dm_control:FromDmControl")


@dataclass(frozen=True)
class ByName:
    """Makes the environment with this name. ``task_kwargs`` are the task's own, as ``time_limit``."""

    id: str

    metadata = {"render_modes": ["rgb_array"]}

    def __call__(
        self,
        *,
        task_kwargs: dict[str, Any] | None = None,
        environment_kwargs: dict[str, Any] | None = None,
        visualize_reward: bool = False,
        render_mode: str | None = None,
        render_kwargs: dict[str, Any] | None = None,
        **unknown: Any,
    ) -> FromDmControl:
        spec_of(self.id)
        domain, _, task = self.id.partition("/")
        for name, value in unknown.items():
            hint = "" if domain == "manipulation" else f" (for the task: task_kwargs={{{name!r}: {value!r}}})"
            raise TypeError(f"dm_control got an unexpected keyword argument {name!r}{hint}")

        def load(seed: int | None = None) -> Any:
            if domain == "manipulation":
                from dm_control import manipulation

                return manipulation.load(task, seed=seed)
            from dm_control import suite

            given = {**(task_kwargs or {}), **({} if seed is None else {"random": seed})}
            return suite.load(domain, task, given, environment_kwargs, visualize_reward)

        remake = load if domain == "lqr" else None
        return FromDmControl(load(), remake=remake, render_mode=render_mode, render_kwargs=render_kwargs)


def _known(id: str) -> list[str]:
    """All names, once the code of ``id`` may be imported."""
    with importing(installed_family("dm_control", id), id):
        manipulation, suite = _imported()
    return ["/".join(one) for one in suite.ALL_TASKS] + [f"manipulation/{one}" for one in manipulation.ALL]


def _imported() -> tuple[Any, Any]:
    """The two collections. Where MuJoCo was told to draw by EGL and that has no device, dm_control is told not to."""
    chosen = "MUJOCO_GL" in os.environ
    import_mujoco()
    try:
        from dm_control import manipulation, suite
    except ImportError:
        if chosen or "MUJOCO_GL" not in os.environ:
            raise
        os.environ["MUJOCO_GL"] = "disable"
        for name in [name for name in sys.modules if name.partition(".")[0] == "dm_control"]:
            del sys.modules[name]
        from dm_control import manipulation, suite
    return manipulation, suite
