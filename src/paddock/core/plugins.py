"""Environments that other distributions offer through the entry-point group ``paddock.envs``.

The entry point's name is the environment's id and its value ``module:attribute`` is the environment's class, so a
plugin is listed from metadata alone; its code runs when ``make`` is asked for that id, and not before. The id needs a
namespace: names without one, and those below ``paddock/``, are not a plugin's to take.
"""

from __future__ import annotations

from functools import cache

from paddock.core.ids import parse_id
from paddock.core.registry import check_entry_point, registry, versions_of
from paddock.core.spec import EnvSpec
from paddock.errors import RegistrationError

GROUP = "paddock.envs"


def plugin_specs() -> dict[str, EnvSpec]:
    """Specs of all well-formed plugins. What a registered id stands for is left out: a plugin replaces nothing."""
    return {id: spec for id, spec in _read()[0].items() if id not in registry and not _means_registered(spec)}


def _means_registered(spec: EnvSpec) -> bool:
    """Whether ``make`` takes the id, which has no version, for the newest one that is registered."""
    return spec.version is None and bool(versions_of(spec.namespace, spec.name))


def plugin_faults() -> list[str]:
    """What is wrong with plugins that can't be listed, a sentence each."""
    return _read()[1]


def _read() -> tuple[dict[str, EnvSpec], list[str]]:
    from importlib.metadata import entry_points  # 20 ms: only when an id is not in the registry, or to list

    specs: dict[str, EnvSpec] = {}
    faults: list[str] = []
    for entry in entry_points(group=GROUP):
        try:
            parts = parse_id(entry.name)
            check_entry_point(entry.value)
        except RegistrationError as error:
            faults.append(f"plugin {entry.name!a}: {error}")
            continue
        id = str(parts)
        if parts.namespace is None or parts.namespace.lower() == "paddock":
            faults.append(
                f"plugin {id!r}: its id needs a namespace of its own, as 'acme/{parts._replace(namespace=None)}'"
            )
            continue
        if id in specs and specs[id].entry_point != entry.value:
            faults.append(f"plugin {id!r} is offered twice: {specs[id].entry_point!r} and {entry.value!r}")
            continue
        specs[id] = _spec(id, entry.value)
    return specs, faults


@cache
def _spec(id: str, entry_point: str) -> EnvSpec:
    """The same object each time: a field that somebody sets takes effect when it is made."""
    return EnvSpec(id, entry_point=entry_point)
