"""The registry as text, one block per family. Reads specs only."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.core.registry import registry
from paddock.core.spec import EnvSpec


def pprint_registry(
    print_registry: dict[str, EnvSpec] = registry,
    *,
    num_cols: int = 3,
    exclude_namespaces: list[str] | None = None,
    disable_print: bool = False,
) -> str | None:
    """Print ids in columns under the family they belong to, or return that text."""
    excluded = set(exclude_namespaces or ())
    width = max((len(id) for id in print_registry), default=0)
    blocks = []
    for family, ids in families(print_registry).items():
        if family not in excluded:
            rows = [ids[at : at + num_cols] for at in range(0, len(ids), num_cols)]
            lines = [" ".join(id.ljust(width) for id in row).rstrip() for row in rows]
            blocks.append("\n".join([f"===== {family} =====", *lines]))
    text = "\n".join(blocks)
    if disable_print:
        return text
    print(text)
    return None


def families(specs: dict[str, EnvSpec]) -> dict[str, Sequence[str]]:
    """Sorted ids by family: the namespace, or for ids without one the package that the entry point names."""
    found: dict[str, list[str]] = {}
    for spec in specs.values():
        found.setdefault(family_of(spec), []).append(spec.id)
    return {family: sorted(ids) for family, ids in found.items()}


def family_of(spec: EnvSpec) -> str:
    """The namespace, or the folder below ``envs`` in the entry point, or the entry point's package."""
    if spec.namespace is not None:
        return spec.namespace
    module = spec.entry_point.partition(":")[0] if isinstance(spec.entry_point, str) else ""
    parts = module.removeprefix("paddock.sources.").split(".")  # of another library's: that library
    if "envs" in parts[:-1]:
        return parts[parts.index("envs") + 1]
    return parts[0] if parts[0] else str(None)
