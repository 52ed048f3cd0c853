"""Make the environment that a command names. Naming it wrongly is the user's mistake; what its code raises is not."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.failures import environment_code, mistake, target_code
from paddock.errors import UnregisteredEnv

if TYPE_CHECKING:
    from paddock.core.env import Env
    from paddock.making import Plan
    from paddock.sandbox.policy import Policy


def plan_target(text: str, **options: Any) -> Plan:
    """What ``make(text, **options)`` would build. Runs no environment code."""
    from paddock.making import locate, plan
    from paddock.making.through_envpool import through_envpool

    limits = {name: options.get(name) for name in ("num_envs", "isolation")}
    asked = options.pop("backend", "auto")
    located, backend = through_envpool(locate(text), asked, **limits, wrappers=options.get("wrappers", ()))
    return plan(located, backend=backend, **options)


def granted(text: str, isolation: str | None) -> Policy:
    """All that a folder's manifest asks for, in the tier that was named."""
    from dataclasses import replace

    from paddock.making import locate

    asked = locate(text).asked
    if asked is None:
        raise mistake(f"--grant is for folders with a paddock.toml, and {text} is none. Drop it.")
    return replace(asked, tier=isolation or "sandbox")  # type: ignore[arg-type]  # Policy names the tiers that exist


@contextmanager
def made(text: str, **options: Any) -> Iterator[Env[Any, Any]]:
    """``make(text, **options)`` of one environment, closed at the end of the block."""
    from paddock.hosting.launch import PRINTS_TO

    before = PRINTS_TO.set(sys.stderr.buffer.write)  # which escapes, while a command runs
    try:
        env = _make(text, **options)
        try:
            yield env
        except BaseException:
            with suppress(Exception, SystemExit):  # what went wrong first is what the user needs to hear
                env.close()
            raise
        with environment_code(lambda: "close"):
            env.close()
    finally:
        PRINTS_TO.reset(before)


def _make(text: str, **options: Any) -> Env[Any, Any]:
    from paddock.core.env import Env
    from paddock.making import build, locate, plan, resolve
    from paddock.making.isolation import wall_for

    refuse_file(text)
    target = locate(text)
    wall_for(target, options.get("isolation"))  # a tier that does not exist is a mistake in the call
    if target.kind == "module":
        find_modules_here()
    with target_code(target.text):  # not the text as it was given: a URL may hold a token
        target = resolve(target, options.get("isolation"))
    decided = plan(target, **options)
    with target_code(target.text):
        env = build(decided)
        assert isinstance(env, Env), "a plan without lanes builds one environment"
        return env


def refuse_file(text: str) -> None:
    """A file, or ``file.py:Id``, is not a target: say which are in it.

    It is imported for that, as ``module:Id`` would be; but not the code of a folder with a manifest.
    """
    stem, dot, id = text.partition(".py:")
    path = Path(f"{stem}.py" if dot else text)
    if path.suffix != ".py" or not path.is_file():
        return
    from importlib import import_module

    from paddock.core.registry import registry
    from paddock.making.build import registered_by
    from paddock.making.folder_name import has_manifest

    below = os.path.relpath(path)
    folder = os.path.relpath(path.parent)
    if has_manifest(folder):
        target = folder if folder.startswith(".") else f"./{folder}"
        raise mistake(f"{path} is a file, not a target. Name its folder, which has a paddock.toml: {target}")
    if below.startswith(".."):
        raise mistake(
            f"{path} is a file, not a target. In its folder, name its module and an id: {path.stem}:{id or 'Id'}."
        )
    module = below.removesuffix(".py").replace(os.sep, ".")
    find_modules_here()
    before = set(registry)
    with target_code(module):
        import_module(module)
    raise mistake(
        f"{path} is a file, not a target. {registered_by(module, set(registry) - before, like=id)}",
        UnregisteredEnv.code,
    )


def find_modules_here() -> None:
    """Let modules in the working folder be imported."""
    # Last, so that a file in the working folder shadows nothing: `paddock check maze:Maze-v0` in the folder of maze.py.
    here = os.getcwd()  # noqa: PTH109 - sys.path holds text
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
