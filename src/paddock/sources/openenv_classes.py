"""Which classes are environments written for OpenEnv, and the types of their actions, observations and states.

They are recognised by what they have, not by what they inherit: the real package, ours and a copy look the same.
Apart from ``sources.openenv``, whose imports take long, because ``make`` asks this of every class.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable
from functools import partial
from typing import Any

from paddock.core.spec import EnvSpec
from paddock.errors import InvalidSpec

RECORD_CLASSES = ("action_cls", "observation_cls", "state_cls", "reset_observation_cls")
# Arguments of AsEnv that are code.
CODE_ARGUMENTS = ("env", *RECORD_CLASSES)
_METHODS = ("reset", "step")


def is_openenv(found: Any) -> bool:
    """Whether ``found`` is a class with OpenEnv's reset, step and state, and no spaces as Gymnasium's have."""
    return (
        inspect.isclass(found)
        and all(callable(getattr(found, name, None)) for name in _METHODS)
        and hasattr(found, "state")
        and not hasattr(found, "observation_space")
        and not hasattr(found, "action_space")
        and any(name in vars(base) for base in found.__mro__ for name in ("reset_async", "step_async", "get_metadata"))
    )


def spec_of(module: str, name: str, found: Any) -> EnvSpec | None:
    """Return a spec for the attribute ``name`` of a module, if that is such a class.

    Neither the order of calls nor actions are checked around it: OpenEnv leaves both to the environment.
    """
    if not is_openenv(found):
        return None
    return EnvSpec(id=name, entry_point=f"{module}:{name}", order_enforce=False, disable_env_checker=True)


def adapt_openenv(creator: Callable[..., Any], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """Return what makes an Env of such a class, or of a factory whose spec names its classes; else ``creator``."""
    named = all(isinstance(kwargs.get(name), (str, bytes)) for name in RECORD_CLASSES[:2])
    factory = not inspect.isclass(creator) and named
    if not factory and not is_openenv(creator):
        return creator
    from paddock.sources.openenv import AsEnv

    return partial(AsEnv, creator)


def record_classes(env: Callable[..., Any]) -> tuple[Any, Any, Any]:
    """Return the classes of actions, observations and states that a class declares; None for one that it does not.

    ``class Env(Environment[A, O, S])`` says it best; else the annotations of step and state do.
    """
    found: list[Any] = [None, None, None]
    for base in [base for cls in getattr(env, "__mro__", ()) for base in vars(cls).get("__orig_bases__", ())]:
        arguments = typing.get_args(base)
        if len(arguments) == 3:
            found = [one if _is_model(one) else None for one in arguments]
            break
    step = _hints(getattr(env, "step", None))
    state = inspect.getattr_static(env, "state", None) if inspect.isclass(env) else None
    action = next((hint for name, hint in step.items() if name != "return"), None)
    by_hints = (action, step.get("return"), _hints(getattr(state, "fget", None)).get("return"))
    action, observation, state = (
        given or (hint if _is_model(hint) else None) for given, hint in zip(found, by_hints, strict=True)
    )
    return action, observation, state


def tool_actions(env: type, action_cls: Any) -> dict[str, Any]:
    """Return the classes of tool actions, by "type", for an MCPEnvironment without an action class of its own."""
    base = next((cls for cls in env.__mro__ if cls.__name__ == "MCPEnvironment"), None)
    home = vars(sys.modules[base.__module__]) if base is not None else {}
    found = {"list_tools": home.get("ListToolsAction"), "call_tool": home.get("CallToolAction")}
    general = (home.get("Action"), *found.values())
    return found if None not in general and action_cls in general else {}


def open_classes(env: type, action: Any, observation: Any) -> tuple[Any, Any, bool]:
    """Return these classes, with the base classes of the API for those that ``env`` does not declare.

    Unless it has tools, an action that is only declared as the base class may have any fields: True. InvalidSpec if
    there are no base classes to be found.
    """
    base = next((cls for cls in env.__mro__ if cls.__name__ == "Environment"), None)
    home = vars(sys.modules[base.__module__]) if base is not None else {}
    general = home.get("Action")
    takes_any = action in (None, general) and not tool_actions(env, general)
    action = require_class(action or general, "action", env)
    if takes_any:
        action = type("AnyAction", (action,), {"model_config": {"extra": "allow"}, "__module__": action.__module__})
    return action, require_class(observation or home.get("Observation"), "observation", env), takes_any


def _hints(function: Any) -> dict[str, Any]:
    if function is None:
        return {}
    try:
        return typing.get_type_hints(function)
    except Exception:  # names that exist only for a type checker
        return {}


def _is_model(cls: Any) -> bool:
    return inspect.isclass(cls) and hasattr(cls, "model_validate") and hasattr(cls, "model_json_schema")


def require_class(found: Any, role: str, env: Any) -> Any:
    """Return ``found``, or raise InvalidSpec that says how to name the class."""
    if found is None:
        name = getattr(env, "__name__", repr(env))
        raise InvalidSpec(
            f"{name} does not name the class of its {role}s. Annotate step(self, action: MyAction) -> "
            f"MyObservation, inherit from Environment[MyAction, MyObservation, MyState], or pass {role}_cls=."
        )
    return found


def known_arguments(function: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that the function has a name for, or all if it takes any. OpenEnv drops the others too."""
    if not given:  # a step has none: reading the signature would take longer than most steps
        return given
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return given
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = {parameter.name for parameter in parameters if parameter.kind in named}
    return {name: value for name, value in given.items() if name in names}
