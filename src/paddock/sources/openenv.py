"""AsEnv: an environment written for OpenEnv as an Env. Observations are dicts of plain data, as its wire has them.

A reader would expect the observation space to be the observation's class. But OpenEnv never checks what an environment
returns, and many return another class from reset than from step; so any object is a member, and the class's schema is
told in ``metadata["openenv"]``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.core.state import State, state
from paddock.errors import ClosedEnvironmentError, DependencyNotInstalled, InvalidAction, InvalidSpace, InvalidSpec
from paddock.hosting.openenv.about import KEY
from paddock.hosting.openenv.field_errors import refusal_text
from paddock.hosting.openenv.http_bodies import TASK_METHODS
from paddock.hosting.private_loop import PrivateLoop
from paddock.hosting.tool_list import KEY as TOOLS
from paddock.sources.openenv_classes import RECORD_CLASSES, accepted, record_classes, required_class, tool_actions
from paddock.spaces import Space, Struct

Record = dict[str, Any]

_ANY_OBJECT = {"type": "object", "additionalProperties": True}


class AsEnv(Env[Record, Any]):
    """``env``: the class, a factory for it, or "module:Class", as for all classes here. ``options``: its arguments.

    The classes of actions, observations and states are found from the annotations where they are not given. An action
    is an instance or its fields; one that its class refuses is an InvalidAction, and the environment never sees it.
    """

    metadata: dict[str, Any]
    _spec: EnvSpec | None = None

    def __init__(
        self,
        env: Callable[..., Any] | str,
        action_cls: Any = None,
        observation_cls: Any = None,
        state_cls: Any = None,
        *,
        reset_observation_cls: Any = None,
        **options: Any,
    ) -> None:
        factory = _loaded(env)
        action_cls, observation_cls, state_cls, reset_observation_cls = map(
            _loaded, (action_cls, observation_cls, state_cls, reset_observation_cls)
        )
        if not callable(factory):
            raise TypeError(f"env must be a callable: the class or a factory, got an instance of {type(env).__name__}.")
        found = record_classes(factory)
        self._loop = PrivateLoop()
        self.environment: Any = factory(**options)
        if not inspect.isclass(factory):
            found = record_classes(type(self.environment))
        self.action_cls = required_class(action_cls or found[0], "action", factory)
        self.observation_cls = required_class(observation_cls or found[1], "observation", factory)
        self.state_cls = state_cls or found[2]
        self.action_space: Space[Any] = _space_of(self.action_cls)
        self.observation_space: Space[Any] = Struct.from_schema(_ANY_OBJECT, self.observation_cls.__name__)
        schemas = {
            "action": self.action_cls,
            "observation": self.observation_cls,
            "state": self.state_cls,
            "reset_observation": reset_observation_cls or self.observation_cls,
        }
        self._tool_actions = tool_actions(type(self.environment), self.action_cls)
        self.metadata = {"render_modes": [], KEY: _told(self.environment, schemas), **self._tools()}

    @property
    def spec(self) -> EnvSpec | None:
        """How this was made, without the names of code."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None:
            kwargs = {name: value for name, value in spec.kwargs.items() if name not in RECORD_CLASSES}
            spec = replace(spec, kwargs=kwargs)
        self._spec = spec

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Record, Info]:
        """``options`` are the environment's own arguments, ``episode_id`` too; those it has no name for are dropped."""
        super().reset(seed=seed)
        given = dict(options or {}) if seed is None else {**(options or {}), "seed": seed}
        observation = self._call("reset", given)
        return _record(observation), {}

    def step(self, action: Any) -> tuple[Record, float, bool, bool, Info]:
        observation = self._call("step", {}, self._action(action))
        record = _record(observation)
        reward, done = observation.reward, bool(observation.done)
        truncated = bool(getattr(observation, "truncated", False))
        terminated = bool(getattr(observation, "terminated", done and not truncated))
        # As on OpenEnv's wire, where a reward that is not finite is none.
        number = 0.0 if reward is None or not math.isfinite(reward) else float(reward)
        return record, number, terminated, truncated or (done and not terminated), {}

    def state(self) -> State:
        """As what ``make`` returns has it; here no guard is around."""
        return state(self)

    def public_state(self) -> Record:
        """The state's fields."""
        own = self.environment.state
        if callable(own) and not hasattr(own, "model_dump"):
            own = own()
        dumped = own.model_dump() if hasattr(own, "model_dump") else dict(own) if own else {}
        return _plain(dumped)  # type: ignore[no-any-return]

    def episode(self) -> tuple[str | None, int]:
        """The episode's id and the steps taken, as the environment counts them."""
        public = self.public_state()
        episode_id, step_count = public.get("episode_id"), public.get("step_count")
        return episode_id if isinstance(episode_id, str) else None, step_count if type(step_count) is int else 0

    def task(self, method: str, *arguments: Any) -> Any:
        """What a method of the Task API answers, as plain data; NotImplementedError if the environment has it not."""
        if method not in {name for name, _ in TASK_METHODS.values()}:
            raise InvalidSpec(f"{method!r:.60} is no method of the Task API.")
        found = getattr(self.environment, method, None)
        if not callable(found):
            raise NotImplementedError(f"{method} is not supported for this environment")
        return _plain(self._settled(found(*arguments)))

    def close(self) -> None:
        environment, self.environment = self.environment, None
        try:
            close = getattr(environment, "close", None)
            if close is not None:
                self._settled(close())
        finally:
            self._loop.close()

    def _action(self, action: Any) -> Any:
        if isinstance(action, self.action_cls):
            return action
        from pydantic import ValidationError

        data = action if isinstance(action, dict) else getattr(action, "model_dump", lambda: action)()
        kind: Any = data.get("type") if isinstance(data, dict) else None
        cls = self._tool_actions.get(kind, self.action_cls) if isinstance(kind, str) else self.action_cls
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise InvalidAction(refusal_text(_entries(error)), action=action, space=self.action_space) from None

    def _tools(self) -> Record:
        """The tools of an MCPEnvironment, as paddock's own environments tell of theirs."""
        if not self._tool_actions:
            return {}
        listed = self._call("step", {}, self._tool_actions["list_tools"]())
        tools = [
            {
                "name": one.name,
                "description": one.description,
                "input_schema": _text(one.input_schema),
                "output_schema": None,
            }
            for one in getattr(listed, "tools", [])
        ]
        return {TOOLS: tools}

    def _call(self, name: str, given: Record, *arguments: Any) -> Any:
        """The method, or its async form if the class has one of its own."""
        if self.environment is None:
            raise ClosedEnvironmentError(f"{name}: this environment is closed.")
        method = getattr(self.environment, name)
        if _overrides(self.environment, f"{name}_async"):
            method = getattr(self.environment, f"{name}_async")
        observation = self._settled(method(*arguments, **accepted(method, given)))
        if not hasattr(observation, "model_dump"):
            raise TypeError(f"{name} returned {type(observation).__name__}, expected an Observation.")
        return observation

    def _settled(self, result: Any) -> Any:
        return self._loop.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: Any) -> Any:
    return await result


def _overrides(environment: Any, name: str) -> bool:
    """Whether a class other than OpenEnv's base has this method: the base's only calls the sync form."""
    owner = next((cls for cls in type(environment).__mro__ if name in vars(cls)), None)
    return owner is not None and not (owner.__name__ == "Environment" and inspect.isabstract(owner))


def _loaded(named: Any) -> Any:
    """What "module:Class" names, anything else as it is. Only in the process that is to hold the environment."""
    if not isinstance(named, str):
        return named
    from importlib import import_module

    module, _, name = named.partition(":")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _space_of(cls: Any) -> Space[Any]:
    try:
        return Struct(cls)
    except InvalidSpace:  # a field that only its class knows, a tensor
        return Struct.from_schema(_ANY_OBJECT, cls.__name__)


def _told(environment: Any, classes: dict[str, Any]) -> Record:
    """What is said of the environment on ``/metadata`` and ``/schema``."""
    described: Any = environment.get_metadata() if hasattr(environment, "get_metadata") else None
    said = {} if described is None else described.model_dump()
    said = {key: value for key, value in said.items() if isinstance(value, str)}
    schemas = {role: text for role, cls in classes.items() if (text := _schema_text(cls)) is not None}
    concurrent = bool(getattr(environment, "SUPPORTS_CONCURRENT_SESSIONS", False))
    return {"name": type(environment).__name__, **said, "schemas": schemas, "concurrent": concurrent}


def _schema_text(cls: Any) -> str | None:
    with suppress(Exception):  # a field that has no schema
        return _text(cls.model_json_schema())
    return None


def _text(schema: Any) -> str:
    import json

    return json.dumps(schema, ensure_ascii=False)


def _record(observation: Any) -> Record:
    return _plain(observation.model_dump())  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    """As OpenEnv's wire would have it, null for NaN included; arrays, which it can't carry, are lists."""
    try:
        from pydantic_core import from_json, to_json
    except ImportError as error:
        raise DependencyNotInstalled(
            'Environments written for OpenEnv need pydantic: pip install "paddock[openenv]"'
        ) from error
    return from_json(to_json(value, inf_nan_mode="null", fallback=_listed))


def _listed(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"Unable to serialize unknown type: {type(value)}")


def _entries(error: Any) -> list[Record]:
    import json

    return json.loads(error.json(include_url=False, include_input=False))  # type: ignore[no-any-return]
