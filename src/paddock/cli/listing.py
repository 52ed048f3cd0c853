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
        droppable=["entry point", "from", "steps"],
    )
    _print_families(output)
    return OK


def _print_families(output: Output) -> None:
    """What other packages bring; their ids are known only by importing them, so here stand their names."""
    from paddock.sources.families import FAMILIES, LIBRARIES

    by_prefix = [one for families in LIBRARIES.values() for one in families]
    for words, families in (
        ("By name too, from packages that register in Gymnasium (any other: gymnasium:ID):", FAMILIES),
        ("By the prefix of other libraries:", by_prefix),
    ):
        output.line("")
        output.line(words)
        output.table(
            ["ids", "from", "here"],
            [[one.shown, one.name, f"pip install {one.install}" if one.missing else "installed"] for one in families],
            droppable=["from", "here"],
        )


def entries() -> list[dict[str, Any]]:
    """What is known of every id, as data."""
    import paddock.envs.catalog  # noqa: F401 - puts the built-in ids into the registry
    from paddock.core.plugins import plugin_specs
    from paddock.core.registry import origin_of, registry

    rows = [entry(spec, origin_of(id)) for id, spec in {**registry, **plugin_specs()}.items()]
    return sorted(rows, key=lambda row: (_ORDER.index(row["origin"]), row["id"]))


def entry(spec: EnvSpec, origin: str) -> dict[str, Any]:
    """One row."""
    from paddock.core.listing import family_of
    from paddock.core.spec import entry_point_text

    found = spec.entry_point if spec.entry_point is not None else spec.vector_entry_point
    return {
        "id": spec.id,
        "origin": origin,
        "family": family_of(spec),
        "max_episode_steps": spec.max_episode_steps,
        "entry_point": None if found is None else entry_point_text(found),
    }


def _limit(row: dict[str, Any]) -> str:
    return "no limit" if row["max_episode_steps"] is None else f"{row['max_episode_steps']:,}"


_ORDER = ["built in", "registered", "plugin"]
