"""``paddock info``. Without ``--make`` it reads the spec alone; the environment's code is not imported."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from paddock.cli.arguments import add_json
from paddock.cli.failures import OK, environment_code, mistake
from paddock.cli.output import Output
from paddock.cli.printing import shown
from paddock.errors import NameNotFound, NamespaceNotFound

if TYPE_CHECKING:
    from paddock.core.env import Env
    from paddock.core.spec import EnvSpec


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("id", metavar="ID", help="an id such as CartPole-v1; with --make also my_module:Maze-v0")
    parser.add_argument("--make", action="store_true", help="make the environment, to show its spaces too")
    add_json(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Print what the spec says, and with ``--make`` what the environment says."""
    facts = _made_facts(arguments.id) if arguments.make else _known_facts(arguments.id)
    if arguments.json:
        output.document(facts)
    else:
        output.facts([(name.replace("_", " "), _text(value)) for name, value in facts.items()])
    return OK


def _known_facts(id: str) -> dict[str, Any]:
    """What the registry says, or the table of other libraries' families."""
    import paddock.envs.catalog  # noqa: F401 - puts the built-in ids into the registry
    from paddock.sources.families import SOURCES, family_of
    from paddock.sources.lookup import find_spec

    source, colon, _ = id.partition(":")
    if colon:
        if source not in SOURCES:
            raise mistake(f"{id!r} is known only to its module. To import it: paddock info --make {id}")
        return _family_facts(id)
    try:
        return _spec_facts(find_spec(id))
    except (NameNotFound, NamespaceNotFound):
        if family_of(id) is None:
            raise
        return _family_facts(id)


def _family_facts(id: str) -> dict[str, Any]:
    """Of an environment of another library, which knows it once it is imported."""
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
    from paddock.cli.listing import entry
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


def _made_facts(text: str) -> dict[str, Any]:
    from paddock.cli.environment import made

    with made(text) as env, environment_code(lambda: f"describing {text}"):
        facts = _spec_facts(env.spec) if env.spec is not None else {"id": text}
        return {**facts, **_env_facts(env)}


def _env_facts(env: Env[Any, Any]) -> dict[str, Any]:
    from paddock.core.spec import entry_point_text

    return {
        "class": entry_point_text(type(env.unwrapped)),
        "observation_space": shown(env.observation_space),
        "action_space": shown(env.action_space),
        "render_modes": list(env.metadata.get("render_modes", ())),
    }


def _text(value: Any) -> str:
    if value is None or value in ({}, []):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}={shown(item)}" for name, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
