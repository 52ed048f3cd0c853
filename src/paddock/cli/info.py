"""``paddock info``. Without ``--make`` it reads the spec alone; the environment's code is not imported."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from paddock.cli.arguments import add_json
from paddock.cli.failures import OK, environment_code, mistake
from paddock.cli.output import Output
from paddock.cli.printing import shown

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
    facts = _made_facts(arguments.id) if arguments.make else _spec_facts(_registered(arguments.id))
    if arguments.json:
        output.document(facts)
    else:
        output.facts([(name.replace("_", " "), _text(value)) for name, value in facts.items()])
    return OK


def _registered(id: str) -> EnvSpec:
    import paddock.envs.catalog  # noqa: F401 - puts the built-in ids into the registry
    from paddock.core.lookup import find_spec

    if ":" in id:
        raise mistake(f"{id!r} is known only to its module. To import it: paddock info --make {id}")
    return find_spec(id)


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
