"""What only an audit looks for: imports and versions that are not declared, and results that depend on the worker."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from paddock.core.env import Env
from paddock.errors import InvalidManifest
from paddock.package import FILE, LOCK, Manifest, normal_name, read_manifest
from paddock.package.dependencies import find_wanted
from paddock.record import TrajectoryDigest
from paddock.testing.probes import sample_allowed
from paddock.testing.rules import Finding, finding
from paddock.testing.secure.source import Names, sources_of, uses_of
from paddock.testing.secure.source_rules import Breach, findings_in
from paddock.testing.watched import in_numpy

_WITH_PADDOCK = {"paddock", "numpy", "msgspec", "rich", "cloudpickle"}
# Modules whose distribution has another name, for those that are not installed here.
_BROUGHT_BY = {
    "yaml": ("pyyaml",),
    "cv2": ("opencv-python", "opencv-python-headless"),
    "PIL": ("pillow",),
    "sklearn": ("scikit-learn",),
    "skimage": ("scikit-image",),
    "Box2D": ("box2d", "box2d-py"),
    "pygame": ("pygame-ce",),
    "bs4": ("beautifulsoup4",),
    "dateutil": ("python-dateutil",),
    "OpenGL": ("pyopengl",),
}
_STARTUP = ("sitecustomize.py", "usercustomize.py", "setup.py", ".pth")  # a name, or how it ends
_MOST_FILES = 10_000

SEEDS, STEPS = (123, 456), 100


def find_in_package(folder: str | os.PathLike[str]) -> list[Finding]:
    """Compare what the source imports and the files that are there with what ``paddock.toml`` declares."""
    manifest = read_manifest(folder)
    findings = findings_in(FILE, [*_unpinned(manifest), *_startup_files(manifest.folder)], {})
    if (
        manifest.openenv is not None
    ):  # its dependencies are pyproject.toml's, and its modules have no names of their own
        return findings
    declared, brought = set(map(normal_name, manifest.dependencies)), packages_distributions()
    own = {path.name.partition(".")[0] for path in manifest.folder.iterdir() if path.is_dir() or path.suffix == ".py"}
    for source in sources_of(manifest.folder):
        if source.tree is None or "tests" in Path(source.name).parts:
            continue
        breaches = _undeclared(source.tree, own, declared, brought)
        findings += findings_in(source.name, breaches, dict(enumerate(source.lines, start=1)))
    return findings


def _undeclared(
    tree: ast.Module, own: set[str], declared: set[str], brought: Mapping[str, list[str]]
) -> Iterator[Breach]:
    names = Names(ast.walk(tree))
    for use in uses_of(tree, names):
        imports = isinstance(use.node, (ast.Import, ast.ImportFrom))
        by_call = isinstance(use.node, ast.Call) and use.call is None  # import_module("…")
        top = use.name.partition(".")[0]
        if not (imports or by_call) or not top or top in own | _WITH_PADDOCK or top in sys.stdlib_module_names:
            continue
        known = {normal_name(one) for one in (top, *brought.get(top, ()), *_BROUGHT_BY.get(top, ()))}
        if not known & declared:
            yield Breach("undeclared-import", f"imports {top}, which [dependencies] does not have", use.line)


def _unpinned(manifest: Manifest) -> Iterator[Breach]:
    try:
        wanted = find_wanted(manifest.folder)
    except InvalidManifest as error:
        yield Breach("dependency-unpinned", str(error).rstrip("."))
        return
    if wanted.lines and not wanted.locked:
        yield Breach("dependency-unpinned", f"{', '.join(wanted.names)}: there is no {LOCK}")


def _startup_files(folder: Path) -> Iterator[Breach]:
    seen = 0
    for place, _, names in os.walk(folder):
        seen += len(names)
        for name in sorted(names):
            if name in _STARTUP or name.endswith(_STARTUP[-1]):
                yield Breach("runs-unasked", f"has {Path(place, name).relative_to(folder).as_posix()}")
        if seen > _MOST_FILES:
            return


# ── Repeatable: the same episodes in workers that differ in what must not matter ──

Play = Callable[..., list[str]]  # with what is different about the worker: the digest after each step

_THREADS = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
_MANY_THREADS = dict.fromkeys(_THREADS, "3")
# What is tried, and the words for it, once two plain workers agree.
PERTURBED: dict[str, dict[str, Any]] = {
    "the clock": {"clock": "later"},
    "the number of its process": {"pid": 4_242},
    "the number of threads": {"variables": _MANY_THREADS},
}
_CAUSES: dict[str, dict[str, Any]] = {
    "With a clock that stands still they agree: it looks at the clock.": {"clock": "still"},
    "With streams of the whole process seeded they agree: it draws from one of those.": {"streams": True},
}


def find_unrepeatable(play: Play) -> Iterator[Finding]:
    """Play the same episodes in fresh workers. ``play`` starts one, different in what its keywords say."""
    play = partial(play, variables=_THREADS)
    first = play()
    if (at := _first_difference(first, play())) is not None:
        why = next((words for words, how in _CAUSES.items() if play(**how) == play(**how)), "")
        why = why or "Each worker has its own hash seed, memory addresses and entropy: look for sets, hash() and id()."
        text = f"two fresh workers give different results for the same seed and actions, first {at}. {why}"
        yield finding("not-repeatable", text[0].upper() + text[1:])
        return
    for what, how in PERTURBED.items():
        if (at := _first_difference(first, play(**how))) is not None:
            yield finding("not-repeatable", f"Its results depend on {what}: another one changes them, first {at}.")


def _first_difference(one: list[str], other: list[str]) -> str | None:
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    if at is None:
        return None if len(one) == len(other) else "in the length of an episode"
    return f"in call {at + 1} of {len(one)}"


def play_episodes(env: Env[Any, Any]) -> list[str]:
    """Play an episode for each of SEEDS, with the same actions each time, and return the digest after each call."""
    digest, found = TrajectoryDigest(), []
    env = in_numpy(env)
    for seed in SEEDS:
        observation, info = env.reset(seed=seed)
        digest.reset(seed, observation)
        found.append(digest.hexdigest())
        env.action_space.seed(seed)
        for _ in range(STEPS):
            action = sample_allowed(env.action_space, info)
            observation, reward, terminated, truncated, info = env.step(action)
            digest.step(action, observation, reward, terminated, truncated)
            found.append(digest.hexdigest())
            if terminated or truncated:
                break
    return found
