"""``paddock list``, ``info`` and ``explain``: what is known of environments, and what make() would do with one.

None of them runs an environment's code, except ``info --make``. ``list`` needs no NumPy until a package is installed.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import paddock
from paddock import __version__
from paddock.cli.environment import open_env, plan_target
from paddock.cli.output import OK, Output, environment_code, mistake, printable_repr
from paddock.cli.program import add_target, integer
from paddock.errors import InvalidManifest, NameNotFound, NamespaceNotFound
from paddock.trust.files import data_folder

if TYPE_CHECKING:
    from paddock.core.spec import EnvSpec
    from paddock.making import Target


# ── paddock list: every environment that can be made by id ──


def run_list(arguments: Namespace, output: Output) -> int:
    """Print every id, built-in ones first."""
    from paddock.core.registry import plugin_faults

    rows = entries(output)
    for fault in plugin_faults():
        output.warning(fault)
    if arguments.json:
        output.document(rows)
        return OK
    output.table(
        ["id", "from", "steps", "entry point"],
        [
            [row["id"], row["origin"], "no limit" if steps is None else f"{steps:,}", row["entry_point"]]
            for row in rows
            for steps in [row["max_episode_steps"]]
        ],
        droppable=["entry point", "from", "steps"],
    )
    _print_families(output)
    return OK


def _print_families(output: Output) -> None:
    """Name the families of other packages: their ids are known only once they are imported."""
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


def entries(output: Output) -> list[dict[str, Any]]:
    """Return what is known of every id, as data."""
    import paddock.envs.catalog  # noqa: F401 - puts the built-in ids into the registry
    from paddock.core.registry import origin_of, plugin_specs, registry

    rows = [entry(spec, origin_of(id)) for id, spec in {**registry, **plugin_specs()}.items()]
    return sorted([*rows, *_installed(output)], key=lambda row: (_ORDER.index(row["origin"]), row["id"]))


def _installed(output: Output) -> Iterator[dict[str, Any]]:
    """Yield the rows of installed packages."""
    if not (data_folder() / "packages.json").is_file():
        return
    from paddock.package import read_manifest
    from paddock.package.store import installed_packages

    for one in installed_packages():
        try:
            for env in read_manifest(one.folder).envs:
                yield {**entry(env.spec, "package"), "id": f"{one.name}@{one.version}:{env.spec.id}"}
        except InvalidManifest as error:
            output.warning(f"{one.name}@{one.version} is broken, install it again: {error}")


def entry(spec: EnvSpec, origin: str) -> dict[str, Any]:
    """Return one row."""
    from paddock.core.registry import family_of
    from paddock.core.spec import entry_point_text

    found = spec.entry_point if spec.entry_point is not None else spec.vector_entry_point
    return {
        "id": spec.id,
        "origin": origin,
        "family": family_of(spec),
        "max_episode_steps": spec.max_episode_steps,
        "entry_point": None if found is None else entry_point_text(found),
    }


_ORDER = ["built in", "registered", "plugin", "package"]


# ── paddock info: one environment ──


def add_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock info``."""
    parser.add_argument("id", metavar="ID", help="an id such as CartPole-v1; with --make also my_module:Maze-v0")
    parser.add_argument("--make", action="store_true", help="make the environment, to show its spaces too")
    parser.add_argument("--isolation", metavar="KIND", help="as make(isolation=...), with --make")


def run(arguments: Namespace, output: Output) -> int:
    """Print what the spec says, and with ``--make`` what the environment says."""
    if arguments.isolation is not None and not arguments.make:
        raise mistake("--isolation needs --make: without it nothing is run.")
    facts = _env_facts(arguments.id, arguments.isolation) if arguments.make else _known_facts(arguments.id)
    if arguments.json:
        output.document(facts)
    else:
        output.facts([(name.replace("_", " "), _text(value)) for name, value in facts.items()])
    return OK


def _known_facts(id: str) -> dict[str, Any]:
    """Look it up in the registry, or in the table of other libraries' families."""
    import paddock.envs.catalog  # noqa: F401 - puts the built-in ids into the registry
    from paddock.core.registry import origin_of
    from paddock.sources.families import SOURCES, family_of, find_spec

    source, colon, _ = id.partition(":")
    if id.startswith((".", "/", "~")) or "@" in id:  # a folder or an installed package: its manifest knows
        from paddock.making import locate

        located = locate(id)
        assert located.spec is not None
        return {**_spec_facts(located.spec), "origin": located.kind, **_provenance(located)}
    if colon:
        if source not in SOURCES:
            raise mistake(f"{id!r} is known only to its module. To import it: paddock info --make {id}")
        return _family_facts(id)
    try:
        spec = find_spec(id)
        if origin_of(spec.id) == "built in":
            return {**_spec_facts(spec), **_own_provenance(spec)}
        from paddock.making import locate

        located = locate(id)
        return _family_facts(id) if located.kind == "source" else {**_spec_facts(spec), **_provenance(located)}
    except (NameNotFound, NamespaceNotFound):
        if family_of(id) is None:
            raise
        return _family_facts(id)


def _provenance(target: Target) -> dict[str, Any]:
    """Say which package, module, file and key an id comes from. ``runs`` is what Python does with it."""
    from paddock.making.plan import default_isolation
    from paddock.making.target import code_of, file_digest
    from paddock.trust.settings import choosing

    module, file = code_of(target)
    package, key, digest = "none", "none: not signed", file_digest(file)
    if target.package is not None:
        package, digest = f"{target.package.name}@{target.package.version}", target.package.digest
        key = ", ".join(one.fingerprint for one in target.package.signers)
    elif target.kind == "plugin":
        package = _distribution(target.id)
    with choosing(None):
        runs = default_isolation(target) or "none"
    return {"package": package, "module": module, "file": file, "digest": digest, "key": key, "isolation": runs}


def _own_provenance(spec: EnvSpec) -> dict[str, Any]:
    """The same of an environment that comes with paddock, without paddock.making, which needs NumPy."""
    from paddock.core.spec import entry_point_text

    module = entry_point_text(spec.entry_point or spec.vector_entry_point or "").partition(":")[0]
    inside = Path(paddock.__file__).parents[1].joinpath(*module.split("."))
    file = inside.with_suffix(".py") if inside.with_suffix(".py").is_file() else inside / "__init__.py"
    digest = sha256(file.read_bytes()).hexdigest()
    key = "none: it comes with paddock"
    return {
        "package": f"paddock {__version__}",
        "module": module,
        "file": str(file),
        "digest": digest,
        "key": key,
        "isolation": "none",
    }


def _distribution(id: str | None) -> str:
    from importlib.metadata import entry_points

    from paddock.core.registry import GROUP

    found = [entry.dist for entry in entry_points(group=GROUP) if entry.name == id and entry.dist is not None]
    return f"{found[0].name} {found[0].version}" if found else "none"


def _family_facts(id: str) -> dict[str, Any]:
    """Describe an environment of another library, without importing that."""
    from paddock.making.target import locate
    from paddock.sources.families import library_family

    target = locate(id)
    assert target.module is not None
    assert target.id is not None
    family = library_family(target.module, target.id)
    return {
        "id": id,
        "origin": "source",
        "family": family.name,
        "library": family.through,
        "installed": not family.missing,
        "missing": family.missing,
        "install": f"pip install {family.install}",
        "note": family.note or None,
        "spec_and_spaces": f"paddock info --make {id}",
    }


def _spec_facts(spec: EnvSpec) -> dict[str, Any]:
    from paddock.core.registry import origin_of

    return {
        **entry(spec, origin_of(spec.id)),
        "reward_threshold": spec.reward_threshold,
        "nondeterministic": spec.nondeterministic,
        "order_enforce": spec.order_enforce,
        "validates_actions": not spec.disable_env_checker,
        "kwargs": spec.kwargs,
        "wrappers": [wrapper.name for wrapper in spec.additional_wrappers],
        "has_vector_form": spec.vector_entry_point is not None,
    }


def _env_facts(text: str, isolation: str | None) -> dict[str, Any]:
    """Make the environment, and ask it."""
    from paddock.core.env import isolation_of
    from paddock.core.spec import entry_point_text

    with open_env(text, isolation=isolation) as env, environment_code(lambda: f"describing {text}"):
        return {
            **(_spec_facts(env.spec) if env.spec is not None else {"id": text}),
            "class": entry_point_text(type(env.unwrapped)),
            "isolation": isolation_of(env),
            "observation_space": printable_repr(env.observation_space),
            "action_space": printable_repr(env.action_space),
            "render_modes": list(env.metadata.get("render_modes", ())),
        }


def _text(value: Any) -> str:
    if value is None or value in ({}, []):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}={printable_repr(item)}" for name, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# ── paddock explain: the plan that make() would follow ──


def add_explain_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock explain``."""
    add_target(parser)
    parser.add_argument("--num-envs", type=integer(1), metavar="N", help="plan n lanes instead of one environment")
    parser.add_argument("--isolation", metavar="KIND", help="as make(isolation=...)")
    parser.add_argument("--backend", default="auto", metavar="NAME", help="as make(backend=...)")


def run_explain(arguments: Namespace, output: Output) -> int:
    """Print the plan."""
    from paddock.trust.settings import choosing

    with choosing(None):  # what make() would do in Python
        plan = plan_target(
            arguments.target, num_envs=arguments.num_envs, isolation=arguments.isolation, backend=arguments.backend
        )
        rows = plan.lines()
    if arguments.json:
        output.document({"target": plan.target.text, "plan": [{"what": what, "how": how} for what, how in rows]})
    else:
        output.facts(rows)
    return OK
