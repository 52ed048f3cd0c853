"""AsEnv: an environment written for OpenEnv as an Env. Observations are dicts of plain data, as on its wire.

A reader would expect the observation space to be the observation's class. But OpenEnv never checks what an environment
returns, and many return another class from reset than from step; so any object is a member, and the class's schema is
in ``metadata["openenv"]``.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.core.state import State, state
from paddock.errors import ClosedEnvironmentError, DependencyNotInstalled, InvalidAction, InvalidSpace, InvalidSpec
from paddock.hosting.factories import loads_in_worker
from paddock.hosting.messages import TOOLS_KEY as TOOLS
from paddock.hosting.openenv.http_bodies import OPENENV_KEY, TASK_METHODS
from paddock.hosting.openenv.wire import refusal_text
from paddock.hosting.private_loop import PrivateLoop
from paddock.hosting.untrusted import open_object
from paddock.sources.fastmcp import open_session
from paddock.sources.openenv_classes import CODE_ARGUMENTS, known_arguments, open_classes, record_classes, tool_actions
from paddock.spaces import Space, Struct

Record = dict[str, Any]


class AsEnv(Env[Record, Any]):
    """``env``: the class, a factory for it, or "module:Class", as for all classes here. ``options``: its arguments.

    The classes of actions, observations and states are taken from the annotations unless you pass them. An action is an
    instance or its fields; one that its class refuses is an InvalidAction, and the environment never sees it. Where
    nothing names a class of actions but the base class Action, an action may have any fields.
    """

    metadata: dict[str, Any]
    _spec: EnvSpec | None = None
    _hidden: tuple[str, ...] = CODE_ARGUMENTS  # which no peer may set, so the spec never shows them

    def __init__(
        self,
        env: Callable[..., Any] | str | bytes,
        action_cls: Any = None,
        observation_cls: Any = None,
        state_cls: Any = None,
        *,
        reset_observation_cls: Any = None,
        **options: Any,
    ) -> None:
        factory = _load(env)
        action_cls, observation_cls, state_cls, reset_observation_cls = map(
            _load, (action_cls, observation_cls, state_cls, reset_observation_cls)
        )
        if not callable(factory):
            raise TypeError(f"env must be a callable: the class or a factory, got an instance of {type(env).__name__}.")
        self._loop = PrivateLoop()
        self.environment: Any = factory(**options)
        self._methods = {name: _method_of(type(self.environment), name) for name in ("reset", "step")}
        found = record_classes(type(self.environment))
        takes_any = False
        if action_cls is None or observation_cls is None:
            action, observation, takes_any = open_classes(type(self.environment), *found[:2])
            takes_any = takes_any and action_cls is None
            action_cls, observation_cls = action_cls or action, observation_cls or observation
        self.action_cls, self.observation_cls, self.state_cls = action_cls, observation_cls, state_cls or found[2]
        named = self.action_cls.__name__
        self.action_space: Space[Any] = open_object(named) if takes_any else _space_of(self.action_cls)
        self.observation_space: Space[Any] = open_object(self.observation_cls.__name__)
        schemas = {
            "action": self.action_cls,
            "observation": self.observation_cls,
            "state": self.state_cls,
            "reset_observation": reset_observation_cls or self.observation_cls,
        }
        self._tool_actions = tool_actions(type(self.environment), self.action_cls)
        self._step_arguments: Record = {}
        self._sessions = AsyncExitStack()
        if hasattr(self.environment, "mcp_session") and self._methods["step"] == "step_async":
            self._wait(open_session(self.environment, self._sessions))
        self.metadata = {"render_modes": [], OPENENV_KEY: _describe(self.environment, schemas), **self._tools()}

    @property
    def spec(self) -> EnvSpec | None:
        """How this was made, without what names code or its place."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None:
            kwargs = {name: value for name, value in spec.kwargs.items() if name not in self._hidden}
            spec = replace(spec, kwargs=kwargs)
        self._spec = spec

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Record, Info]:
        """``options`` are the environment's own arguments, ``episode_id`` too; those it does not take are dropped."""
        super().reset(seed=seed)
        given = dict(options or {}) if seed is None else {**(options or {}), "seed": seed}
        observation = self._call("reset", given)
        return _record(observation), {}

    def step(self, action: Any) -> tuple[Record, float, bool, bool, Info]:
        given, self._step_arguments = self._step_arguments, {}
        observation = self._call("step", given, self._action(action))
        record = _record(observation)
        reward, done = observation.reward, bool(observation.done)
        truncated = _has(observation, record, "truncated") and bool(observation.truncated)
        terminated = bool(observation.terminated) if _has(observation, record, "terminated") else done and not truncated
        # As on OpenEnv's wire, where a reward that is not finite is null.
        number = 0.0 if reward is None or not math.isfinite(reward) else float(reward)
        return record, number, terminated, truncated or (done and not terminated), {}

    def pass_to_step(self, arguments: Record) -> None:
        """Pass these to the next step, as OpenEnv does with what an HTTP request has beside its action."""
        self._step_arguments = arguments

    def state(self) -> State:
        """Return what the guard around an environment from ``make`` would."""
        return state(self)

    def public_state(self) -> Record:
        """The state's fields."""
        own = self.environment.state
        if callable(own) and not hasattr(own, "model_dump"):
            own = own()
        dumped = own.model_dump() if hasattr(own, "model_dump") else dict(own) if own else {}
        return _plain(dumped)  # type: ignore[no-any-return]

    def episode(self) -> tuple[str | None, int]:
        """Return the episode's id and the steps taken, as the environment counts them."""
        public = self.public_state()
        episode_id, step_count = public.get("episode_id"), public.get("step_count")
        return episode_id if isinstance(episode_id, str) else None, step_count if type(step_count) is int else 0

    def task(self, method: str, *arguments: Any) -> Any:
        """Call a method of the Task API; NotImplementedError if the environment does not have it."""
        if method not in {name for name, _ in TASK_METHODS.values()}:
            raise InvalidSpec(f"{method!r:.60} is not a method of the Task API.")
        found = getattr(self.environment, method, None)
        if not callable(found):
            raise NotImplementedError(f"{method} is not supported for this environment")
        return _plain(self._wait(found(*arguments)))

    def close(self) -> None:
        environment, self.environment = self.environment, None
        try:
            close = getattr(environment, "close", None)
            if close is not None:
                self._wait(close())
        finally:
            try:
                self._wait(self._sessions.aclose())
            finally:
                self._loop.close()

    def _action(self, action: Any) -> Any:
        if isinstance(action, self.action_cls):
            return action
        data = action if isinstance(action, dict) else getattr(action, "model_dump", lambda: action)()
        kind: Any = data.get("type") if isinstance(data, dict) else None
        cls = self._tool_actions.get(kind, self.action_cls) if isinstance(kind, str) else self.action_cls
        try:
            return cls.model_validate(data)
        except ValueError as error:  # pydantic's, if it can say what is wrong
            if not hasattr(error, "json"):
                raise
            entries = json.loads(error.json(include_url=False, include_input=False))
            raise InvalidAction(refusal_text(entries), action=action, space=self.action_space) from None

    def _tools(self) -> Record:
        """Return the tools of an MCPEnvironment, in the form that paddock's own environments use."""
        if not self._tool_actions:
            return {}
        listed = self._call("step", {}, self._tool_actions["list_tools"]())
        tools = [
            {
                "name": one.name,
                "description": one.description,
                "input_schema": json.dumps(one.input_schema, ensure_ascii=False),
                "output_schema": None,
            }
            for one in getattr(listed, "tools", [])
        ]
        return {TOOLS: tools}

    def _call(self, name: str, given: Record, *arguments: Any) -> Any:
        """Return the observation of a reset or a step."""
        if self.environment is None:
            raise ClosedEnvironmentError(f"{name}: this environment is closed.")
        method = getattr(self.environment, self._methods[name])
        found = method(*arguments, **known_arguments(method, given))
        # Asking whether it can be awaited takes longer.
        observation = found if hasattr(found, "model_dump") else self._wait(found)
        if not hasattr(observation, "model_dump"):
            raise TypeError(f"{name} returned {type(observation).__name__}, expected an Observation.")
        return observation

    def _wait(self, result: Any) -> Any:
        """Return the result; await it first if it is awaitable."""
        if not inspect.isawaitable(result):
            return result

        async def wait() -> Any:
            return await result

        return self._loop.run(wait())


def _method_of(cls: type, name: str) -> str:
    """Return the name of the method to call: its async form, if the class has one of its own."""
    owner = next((base for base in cls.__mro__ if f"{name}_async" in vars(base)), None)
    # OpenEnv's base class has it too, but that only calls the sync form.
    own = owner is not None and not (owner.__name__ == "Environment" and inspect.isabstract(owner))
    return f"{name}_async" if own else name


def _has(observation: Any, record: Record, name: str) -> bool:
    """Whether it has this attribute. Asking a pydantic object for one that it has not takes longer than most steps."""
    return name in record or name in vars(observation) or _declares(observation.__class__, name)


@cache
def _declares(cls: type, name: str) -> bool:
    return hasattr(cls, name)


def _load(named: Any) -> Any:
    """Import what "module:Class" names or bytes hold; return anything else. Only where the environment will be."""
    if isinstance(named, bytes):
        return loads_in_worker(named)
    if not isinstance(named, str):
        return named
    module, _, name = named.partition(":")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _space_of(cls: Any) -> Space[Any]:
    try:
        return Struct(cls)
    except InvalidSpace:  # a field that only its class knows, a tensor
        return open_object(cls.__name__)


def _describe(environment: Any, classes: dict[str, Any]) -> Record:
    """Return what ``/metadata`` and ``/schema`` say of the environment."""
    described: Any = environment.get_metadata() if hasattr(environment, "get_metadata") else None
    said = {} if described is None else described.model_dump()
    said = {key: value for key, value in said.items() if isinstance(value, str)}
    schemas = {}
    for role, cls in classes.items():
        with suppress(Exception):  # a field that has no schema
            schemas[role] = json.dumps(cls.model_json_schema(), ensure_ascii=False)
    concurrent = bool(getattr(environment, "SUPPORTS_CONCURRENT_SESSIONS", False))
    return {"name": type(environment).__name__, **said, "schemas": schemas, "concurrent": concurrent}


def _record(observation: Any) -> Record:
    return _plain(observation.model_dump())  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    """Return the value as OpenEnv's wire would have it, with null for NaN, and lists for arrays."""
    return msgspec.json.decode(_pydantic_core().to_json(value, inf_nan_mode="null", fallback=_to_list))


@cache
def _pydantic_core() -> Any:
    try:
        return import_module("pydantic_core")
    except ImportError as error:
        raise DependencyNotInstalled("Environments written for OpenEnv need pydantic: pip install pydantic") from error


def _to_list(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"Unable to serialize unknown type: {type(value)}")
