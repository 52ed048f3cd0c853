"""Make the environment that a command names. A wrong name is the user's mistake; what its code raises is not."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.output import environment_code, mistake, target_code
from paddock.errors import UnregisteredEnv

if TYPE_CHECKING:
    from paddock.core.env import Env
    from paddock.making import Plan
    from paddock.sandbox.policy import Policy


def plan_target(text: str, *, num_envs: int | None, isolation: str | None, backend: str) -> Plan:
    """Plan what ``make`` would build with these options. Runs no environment code."""
    from paddock.making import locate, plan
    from paddock.making.plan import redirect_to_envpool

    located = locate(text)
    if located.kind == "module":
        find_modules_here()
    lanes: dict[str, Any] = {"num_envs": num_envs, "isolation": isolation}
    located, backend = redirect_to_envpool(located, backend, **lanes, wrappers=())
    return plan(located, backend=backend, **lanes)


def grant_all(text: str, isolation: str | None) -> Policy:
    """Grant everything that a folder's manifest asks for, in this tier."""
    from dataclasses import replace

    from paddock.making import locate

    asked = locate(text).asked
    if asked is None:
        raise mistake(f"--grant applies to folders with a paddock.toml; {text} isn't one.")
    return replace(asked, tier=isolation or "sandbox")  # type: ignore[arg-type]  # Policy names the tiers that exist


@contextmanager
def open_env(text: str, *, announce: bool = True, **options: Any) -> Iterator[Any]:
    """Run ``make(text, **options)``, and close the environment, or the lanes, at the end of the block.

    Code that is not paddock's own is behind the wall unless ``isolation`` says otherwise; stderr says where it runs.
    """
    from paddock.hosting.launch import PRINTS_TO

    before = PRINTS_TO.set(sys.stderr.buffer.write)  # which escapes, while a command runs
    try:
        env = _make(text, announce, **options)
        try:
            yield env
        except BaseException:
            with suppress(Exception, SystemExit):  # the first error is the one that the user needs
                env.close()
            raise
        with environment_code(lambda: "close"):
            env.close()
    finally:
        PRINTS_TO.reset(before)


@contextmanager
def film(env: Env[Any, Any], folder: str, name: str) -> Iterator[Env[Any, Any]]:
    """Put a camera around an environment: until the block ends, every episode becomes a video in the folder."""
    from paddock.wrappers import RecordVideo

    filmed: RecordVideo[Any, Any] = RecordVideo(env, folder, episode_trigger=lambda episode: True, name_prefix=name)
    try:
        yield filmed
    finally:
        if filmed.recording:
            filmed.stop_recording()


def _make(text: str, announce: bool, **options: Any) -> Any:
    from paddock.making import build, locate, plan, resolve
    from paddock.making.plan import choose_wall
    from paddock.making.target import write_down
    from paddock.trust.log import note

    refuse_file(text)
    target = locate(text)
    write_down(target)
    announce = announce and target.third_party  # before its code, if it runs here, registers it
    choose_wall(target, options.get("isolation"))  # an unknown tier is a mistake in the call
    if target.kind == "module":
        find_modules_here()
    with target_code(target.text):  # not `text`: a URL may hold a token
        target = resolve(target, options.get("isolation"))
    decided = plan(target, **options)
    if announce and decided.isolation in _RUNS:  # a caller chose it: commands put code of others behind a wall
        note("override", target.id or target.text, target=target.text, isolation=decided.isolation)
    with target_code(target.text):
        env = build(decided)
    if announce:
        where = _RUNS.get(decided.isolation, "runs behind the wall")
        print(f"paddock: {target.text} {where} (isolation {decided.isolation})", file=sys.stderr)
    return env


_RUNS = {
    "none": "runs in this process and may do all that you may",
    "process": "runs in a process of its own, without a wall, and may do all that you may",
}


def refuse_file(text: str) -> None:
    """Refuse a file, or ``file.py:Id``, and name the targets in it. It is read for that, not imported."""
    stem, dot, id = text.partition(".py:")
    path = Path(f"{stem}.py" if dot else text)
    if path.suffix != ".py" or not path.is_file():
        return
    from paddock.making.build import describe_registrations
    from paddock.making.target import has_manifest
    from paddock.testing.secure.source import registered_ids

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
    raise mistake(
        f"{path} is a file, not a target. {describe_registrations(module, registered_ids(path), like=id)}",
        UnregisteredEnv.code,
    )


def find_modules_here() -> None:
    """Let modules in the working folder be imported."""
    # Last, so that a file in the working folder shadows nothing: `paddock check maze:Maze-v0` in the folder of maze.py.
    here = os.getcwd()  # noqa: PTH109 - sys.path holds text
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
