"""``paddock doctor``: what is installed, which walls hold here, and what is wrong.

Of packages it reads metadata only: a broken one can't break it.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from paddock.cli.arguments import add_json
from paddock.cli.doctor_walls import examine_walls, print_walls
from paddock.cli.failures import FAILED, OK
from paddock.cli.output import Output

BASE = ("numpy", "msgspec", "rich", "cloudpickle")
# extra: (what it is for, the module to look for, the distributions that bring it)
EXTRAS = {
    "fast": ("compiled lanes", "numba", ("numba",)),
    "video": ("recording videos", "av", ("av",)),
    "resize": ("resizing pictures", "cv2", ("opencv-python-headless", "opencv-python")),
    "render": ("drawing and windows", "pygame", ("pygame-ce", "pygame")),
    "server": ("serving environments", "picows", ("picows",)),
    "openenv": ("environments written for OpenEnv", "pydantic", ("pydantic",)),
    "gymnasium": ("environments from and for Gymnasium", "gymnasium", ("gymnasium",)),
}


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add_json(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Print the findings; the exit code is 1 if there are problems."""
    report = examine()
    if arguments.json:
        output.document(report)
    else:
        _print(report, output)
    return FAILED if report["problems"] else OK


def examine() -> dict[str, Any]:
    """Everything that the doctor looks at, as data."""
    import platform

    import paddock.envs.catalog  # noqa: F401 - puts the built-in ids into the registry
    from paddock import __version__
    from paddock.core.plugins import plugin_faults, plugin_specs
    from paddock.core.registry import registry

    base = {name: version_of(name) for name in BASE}
    missing = [f"{name} is not installed. Run: pip install {name}" for name, version in base.items() if version is None]
    return {
        "paddock": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "dependencies": base,
        "extras": {name: _extra(name) for name in EXTRAS},
        "environments": {"built_in": sum(map(registry.is_protected, registry)), "plugins": len(plugin_specs())},
        "isolation": (walls := examine_walls()),
        "problems": missing + plugin_faults() + _broken(walls),
    }


def _broken(walls: dict[str, Any]) -> list[str]:
    """Walls that can be put up and do not hold. One that can't be had is no fault of the installation."""
    return [
        f"isolation={tier!r} does not hold here: {'; '.join(one['failed'])}"
        for tier, one in walls["tiers"].items()
        if one["failed"]
    ]


def version_of(distribution: str) -> str | None:
    """The installed version, from metadata; None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _extra(name: str) -> dict[str, Any]:
    from importlib.util import find_spec

    purpose, module, distributions = EXTRAS[name]
    version = next(filter(None, map(version_of, distributions)), None)
    return {"for": purpose, "package": module, "installed": find_spec(module) is not None, "version": version}


def _print(report: dict[str, Any], output: Output) -> None:
    found = report["environments"]
    output.facts(
        [
            ("paddock", report["paddock"]),
            ("python", f"{report['python']} ({report['executable']})"),
            ("platform", report["platform"]),
            *((name, version or "missing") for name, version in report["dependencies"].items()),
            ("environments", f"{found['built_in']} built in, {found['plugins']} from plugins"),
        ]
    )
    output.line()
    output.table(["extra", "for", "installed"], [_extra_row(*item) for item in report["extras"].items()])
    output.line()
    print_walls(report["isolation"], output)
    output.line()
    for problem in report["problems"]:
        output.line(f"problem: {problem}")
    if not report["problems"]:
        output.line("No problems found.")


def _extra_row(name: str, extra: dict[str, Any]) -> list[str]:
    if extra["installed"]:
        return [name, extra["for"], f"{extra['package']} {extra['version'] or ''}".rstrip()]
    return [name, extra["for"], f"no: pip install 'paddock[{name}]'"]
