"""``paddock list``. Reads specs and plugin metadata; imports no environment code and no NumPy."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from paddock.cli.arguments import add_json
from paddock.cli.failures import OK
from paddock.cli.output import Output

if TYPE_CHECKING:
    from paddock.core.spec import EnvSpec


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add_json(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Print every id, built-in ones first."""
    from paddock.core.plugins import plugin_faults

    rows = entries()
    for fault in plugin_faults():
        output.warning(fault)
    if arguments.json:
        output.document(rows)
        return OK
    output.table(
        ["id", "from", "steps", "entry point"],
        [[row["id"], row["origin"], _limit(row), row["entry_point"]] for row in rows],
    )
    return OK


def entries() -> list[dict[str, Any]]:
    """What is known of every id, as data."""
    import paddock.envs.catalog  # noqa: F401 - puts the built-in ids into the registry
    from paddock.core.plugins import plugin_specs
    from paddock.core.registry import registry

    known = [entry(spec, "built in" if registry.is_protected(id) else "registered") for id, spec in registry.items()]
    offered = [entry(spec, "plugin") for spec in plugin_specs().values()]
    return sorted(known + offered, key=lambda row: (_ORDER.index(row["origin"]), row["id"]))


def entry(spec: EnvSpec, origin: str) -> dict[str, Any]:
    """One row."""
    from paddock.core.listing import family_of

    return {
        "id": spec.id,
        "origin": origin,
        "family": family_of(spec),
        "max_episode_steps": spec.max_episode_steps,
        "entry_point": entry_point_text(spec),
    }


def entry_point_text(spec: EnvSpec) -> str | None:
    """Where the code is; a class or function is named as its text form would be."""
    found = spec.entry_point if spec.entry_point is not None else spec.vector_entry_point
    if found is None or isinstance(found, str):
        return found
    return f"{getattr(found, '__module__', '?')}:{getattr(found, '__qualname__', type(found).__name__)}"


def _limit(row: dict[str, Any]) -> str:
    return "no limit" if row["max_episode_steps"] is None else f"{row['max_episode_steps']:,}"


_ORDER = ["built in", "registered", "plugin"]
