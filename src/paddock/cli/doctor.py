"""``paddock doctor``: what is installed, which walls hold here, and what is wrong.

It reads only the metadata of packages, so a broken package can't break it.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any, NamedTuple

from paddock.cli.output import FAILED, OK, Output

BASE = ("numpy", "msgspec", "rich", "cloudpickle")


class Extra(NamedTuple):
    """An optional feature: the module to look for, the distributions that may bring it, and what to install."""

    purpose: str
    module: str
    distributions: tuple[str, ...]
    install: str


EXTRAS = {
    "fast": Extra("compiled lanes", "numba", ("numba",), "numba"),
    "video": Extra("recording videos", "av", ("av",), "av"),
    "resize": Extra("resizing pictures", "cv2", ("opencv-python-headless", "opencv-python"), "opencv-python-headless"),
    "render": Extra("drawing and windows", "pygame", ("pygame-ce", "pygame"), "pygame-ce"),
    "server": Extra("serving environments", "picows", ("picows",), "'picows<2.4' uvloop"),
    "openenv": Extra("environments written for OpenEnv", "pydantic", ("pydantic",), "pydantic"),
    "gymnasium": Extra("environments from and for Gymnasium", "gymnasium", ("gymnasium",), "gymnasium"),
}


def run(arguments: Namespace, output: Output) -> int:
    """Print the findings; the exit code is 1 if there are problems."""
    report = examine()
    if arguments.json:
        output.document(report)
    else:
        _print(report, output)
    return FAILED if report["problems"] else OK


def examine() -> dict[str, Any]:
    """Examine everything, and return it as data."""
    import platform
    from importlib.util import find_spec

    import paddock.envs.catalog  # noqa: F401 - puts the built-in ids into the registry
    from paddock import __version__
    from paddock.core.registry import plugin_faults, plugin_specs, registry

    base = {name: version_of(name) for name in BASE}
    extras = {
        name: {
            "for": extra.purpose,
            "package": extra.module,
            "installed": find_spec(extra.module) is not None,
            "version": next(filter(None, map(version_of, extra.distributions)), None),
        }
        for name, extra in EXTRAS.items()
    }
    walls = examine_walls()
    # Walls that can be put up and do not hold. A wall that this machine can't have is not a problem.
    broken = [
        f"isolation={tier!r} does not hold here: {'; '.join(one['failed'])}"
        for tier, one in walls["tiers"].items()
        if one["failed"]
    ]
    missing = [f"{name} is not installed. Run: pip install {name}" for name, version in base.items() if version is None]
    return {
        "paddock": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "dependencies": base,
        "extras": extras,
        "environments": {"built_in": sum(map(registry.is_protected, registry)), "plugins": len(plugin_specs())},
        "isolation": walls,
        "problems": missing + plugin_faults() + broken,
    }


def version_of(distribution: str) -> str | None:
    """Return the installed version, from metadata; None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _print(report: dict[str, Any], output: Output) -> None:
    count = report["environments"]
    output.facts(
        [
            ("paddock", report["paddock"]),
            ("python", f"{report['python']} ({report['executable']})"),
            ("platform", report["platform"]),
            *((name, version or "missing") for name, version in report["dependencies"].items()),
            ("environments", f"{count['built_in']} built in, {count['plugins']} from plugins"),
        ]
    )
    output.line()
    rows = []
    for name, extra in report["extras"].items():
        version = f"{extra['package']} {extra['version'] or ''}".rstrip()
        rows.append([name, extra["for"], version if extra["installed"] else f"no: pip install {EXTRAS[name].install}"])
    output.table(["extra", "for", "installed"], rows)
    output.line()
    print_walls(report["isolation"], output)
    output.line()
    for problem in report["problems"]:
        output.line(f"problem: {problem}")
    if not report["problems"]:
        output.line("No problems found.")


def examine_walls() -> dict[str, Any]:
    """Return what this machine has for walls, and for each tier whether it holds: a worker behind it attacks it now."""
    from paddock.sandbox.machine import Machine
    from paddock.sandbox.mounts import PythonWorld, list_mounts
    from paddock.sandbox.plan import TIERS
    from paddock.sandbox.policy import DEFAULT

    machine = Machine.here()
    visible = list_mounts(DEFAULT, PythonWorld.here()) if machine.linux else []
    cgroups = {one.name: f"v{one.version}" for one in machine.cgroups}
    return {
        "machine": {
            "root": machine.root,
            "bubblewrap": ".".join(map(str, machine.bwrap_version)) if machine.bwrap else None,
            "launcher": machine.launcher,
            "namespaces": machine.namespaces,
            "landlock_abi": machine.landlock_abi,
            "seccomp": machine.seccomp,
            "cgroups": cgroups,
            "visible": [one.target for one in visible if one.how == "ro"],
        },
        "tiers": {tier: _tier(tier) for tier in TIERS},
    }


def _tier(tier: str) -> dict[str, Any]:
    from paddock.sandbox.machine import Machine
    from paddock.sandbox.policy import CONTAINERS
    from paddock.sandbox.promises import PUT_UP, failures, promises

    missing = Machine.here().missing(tier)
    failed = [] if missing else failures(tier)
    if tier in CONTAINERS and failed and failed[0].startswith(PUT_UP):
        missing, failed = failed, []  # the engine is installed, and has no right to start containers here
    kept = [
        {"key": one.key, "promise": one.words, "held": one.held and not failed, "by": list(one.by), "but": one.but}
        for one in promises(tier)
    ]
    return {"holds": not missing and not failed, "missing": missing, "failed": failed, "promises": kept}


def print_walls(report: dict[str, Any], output: Output) -> None:
    """Print the facts, then a table with a row per promise and a column per tier."""
    machine, tiers = report["machine"], report["tiers"]
    version = machine["bubblewrap"] or "missing: paddock's own launcher is used (apt install bubblewrap)"
    if machine["bubblewrap"] and machine["launcher"] == "native":
        version += "; not used: paddock's own launcher limits the number of files too"
    output.facts(
        [
            ("bubblewrap", version),
            ("namespaces", "yes" if machine["namespaces"] else "no"),
            ("Landlock", f"ABI {machine['landlock_abi']}" if machine["landlock_abi"] else "no"),
            ("seccomp", "yes" if machine["seccomp"] else "no"),
            ("cgroups", ", ".join(f"{name} ({how})" for name, how in machine["cgroups"].items()) or "none writable"),
            *((f"isolation={tier!r}", _standing(one)) for tier, one in tiers.items()),
            ("visible inside", ", ".join(machine["visible"]) or "nothing"),
        ]
    )
    output.line()
    tiers = {tier: one for tier, one in tiers.items() if tier in ("sandbox", "landlock") or one["holds"]}
    rows = [
        [first["promise"], *(_describe_promise(one["promises"][place]) for one in tiers.values())]
        for place, first in enumerate(next(iter(tiers.values()))["promises"])
    ]
    output.table(["behind the wall", *tiers], rows)


def _standing(tier: dict[str, Any]) -> str:
    if tier["missing"]:
        return f"not available: needs {'; '.join(tier['missing'])}"
    if tier["failed"]:
        return f"DOES NOT HOLD: {'; '.join(tier['failed'])}"
    return "holds: every attack of the self-test was refused"


def _describe_promise(promise: dict[str, Any]) -> str:
    said = f"yes ({', '.join(promise['by'])})" if promise["held"] else "no"
    return f"{said}; {promise['but']}" if promise["but"] else said
