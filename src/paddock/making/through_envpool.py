"""``backend="envpool"``: EnvPool's own environment of the same name, in place of the one that the target names.

A reader would expect the same numbers as from any other backend. EnvPool has environments of its own, written in C++:
rules and spaces are meant to be the same, random streams and preprocessing are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddock.errors import PlanError
from paddock.making.target import Target


def through_envpool(
    target: Target, backend: str, *, num_envs: int | None, isolation: Any, wrappers: Sequence[Any]
) -> tuple[Target, str]:
    """EnvPool's task for an id, and the backend to plan it with; both as they are if another backend was asked for.

    PlanError where EnvPool could not be what was asked for.
    """
    if backend != "envpool":
        return target, backend
    if target.id is None or target.folder is not None or target.kind == "url":
        raise PlanError(f"backend='envpool' is for ids that EnvPool has, and {target.text!r} is a {target.kind}.")
    if num_envs is None:
        raise PlanError("backend='envpool' is for n lanes. Pass num_envs=n, or drop backend.")
    if isolation not in (None, "none"):
        raise PlanError(
            f"backend='envpool' steps lanes in this process, and isolation={isolation!r} in others. Drop one of them."
        )
    if wrappers:
        raise PlanError(
            "backend='envpool' steps all lanes in one call, so wrappers of one lane can't be put inside. Wrap the "
            "lanes: paddock.wrappers.vector has most of them."
        )
    task = target.id.removeprefix("ALE/")
    return Target(f"envpool:{task}", "source", module="envpool", id=task), "auto"
