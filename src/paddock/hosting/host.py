"""Host: holds environments and answers one Request with one Reply. It knows no bytes or sockets, and never raises."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any

import msgspec

from paddock.core.env import Env
from paddock.core.lane import Lane
from paddock.core.spec import EnvSpec
from paddock.core.state import state
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import ClosedEnvironmentError, CustomSpaceError, InvalidSpace, InvalidSpec, PaddockError
from paddock.hosting import messages as m
from paddock.hosting.failures import to_failed
from paddock.spaces import Space
from paddock.spaces.json_form import to_json

Build = Callable[[dict[str, Any]], "Env[Any, Any] | VectorEnv[Any, Any, Any]"]

_CONTAINED = (Exception, SystemExit, GeneratorExit)


class _Refused(Exception):
    """Raised to answer a Refuse with the reply that it holds."""

    def __init__(self, reply: m.Failed) -> None:
        super().__init__(reply.message)
        self.reply = reply


def _refuse(request: m.Refuse) -> None:
    raise _Refused(m.Failed(request.code, request.message))


class Host:
    """Environments by number, made by ``build`` from what a Make request holds.

    >>> from paddock.hosting.messages import Make, Reset
    >>> import paddock
    >>> host = Host(lambda what: paddock.make(what["id"]))
    >>> _ = host.handle(Make(env=0, what={"id": "CartPole-v1"}))
    >>> host.handle(Reset(env=0, seed=3)).value[1]
    {}
    """

    def __init__(
        self, build: Build, *, alone: bool = False, failed: Callable[[BaseException], m.Failed] = to_failed
    ) -> None:
        self._build = build
        self.failed = failed  # turns an error into a reply; a remote peer sees less of it
        # Alone in its process, whatever is raised is the environment's; else Ctrl-C is for the caller.
        self._contained: tuple[type[BaseException], ...] = (BaseException,) if alone else _CONTAINED
        self._envs: dict[int, Any] = {}  # Env or Lane
        self._rules: dict[type, Callable[[Any], Any]] = {
            m.Make: self._make,
            m.Reset: self._reset,
            m.Step: self._step_each,
            m.State: self._state,
            m.Render: lambda request: self._env(request.env).render(),
            m.Snapshot: lambda request: self._get(request.env).snapshot(),
            m.Restore: lambda request: self._get(request.env).restore(request.snapshot),
            m.Call: self._call,
            m.Close: self._close,
            m.Refuse: _refuse,
        }

    def handle(self, request: m.Request) -> m.Reply:
        """Carry one request out. A failure, an environment's ``sys.exit`` among them, is a Failed reply."""
        try:
            return m.Done(self._rules[type(request)](request))
        except _Refused as refusal:
            return refusal.reply
        except self._contained as error:
            return self.failed(error)

    def step(self, number: int, action: Any) -> Any:
        """Step one environment: its five results, or a Failed. It can't hurt the others."""
        try:
            return self._get(number).step(action)
        except self._contained as error:
            return self.failed(error)

    def step_json(self, action: bytes) -> m.Reply | m.Outcome:
        """Step environment 0, whose actions and observations are JSON objects."""
        try:
            result = self._get(0).step(msgspec.json.decode(action))
            observation, reward, terminated, truncated, _ = result
            usual = type(observation) is dict and type(reward) is float and type(terminated) is type(truncated) is bool
            if usual and len(text := msgspec.json.encode(observation)) <= m.JSON_BYTES:
                return m.Outcome(text, reward, terminated, truncated)
            return m.Done(_as_lists([result]))
        except self._contained as error:
            return self.failed(error)

    def _step_each(self, request: m.Step) -> list[Any]:
        actions = request.actions
        if actions is None or len(actions) != len(request.envs):
            count = "no" if actions is None else len(actions)
            raise PaddockError(f"Step: {count} actions for {len(request.envs)} environments. Expected one each.")
        return _as_lists([self.step(number, action) for number, action in zip(request.envs, actions, strict=True)])

    def _make(self, request: m.Make) -> dict[str, Any]:
        with suppress(Exception):  # of an environment that is being replaced
            self._close(m.Close(request.env))
        made = self._build(request.what)
        if request.autoreset is None:
            self._envs[request.env] = made
        else:
            assert not isinstance(made, VectorEnv), "a vector environment can't be a lane"
            self._envs[request.env] = Lane(made, AutoresetMode(request.autoreset))
        return _description(made)

    def _reset(self, request: m.Reset) -> list[Any]:
        return list(self._get(request.env).reset(seed=request.seed, options=request.options))

    def _state(self, request: m.State) -> list[Any]:
        env = self._env(request.env)
        if isinstance(env, VectorEnv):
            return [[now.episode_id, now.step_count, now.public] for now in env.state()]
        now = state(env)
        return [now.episode_id, now.step_count, now.public]

    def _call(self, request: m.Call) -> Any:
        env, name = self._env(request.env), request.name
        ours = isinstance(env, Env)  # another library's need not have the methods for attributes
        if request.how == "set":
            if not ours:
                return setattr(env, name, *request.args)
            return env.set_wrapper_attr(name, *request.args, **request.kwargs)
        if request.how == "has" and not (env.has_wrapper_attr(name) if ours else hasattr(env, name)):
            return ""
        value = env.get_wrapper_attr(name) if ours else getattr(env, name)
        if request.how == "has":
            return "callable" if callable(value) else "value"
        return value(*request.args, **request.kwargs) if request.how == "call" and callable(value) else value

    def _close(self, request: m.Close) -> None:
        numbers = list(self._envs) if request.env is None else [request.env]
        problem: BaseException | None = None
        for number in numbers:
            env_or_lane = self._envs.pop(number, None)
            try:
                if env_or_lane is not None:
                    _env_of(env_or_lane).close()
            except Exception as error:  # the others are closed all the same
                problem = error
        if problem is not None:
            raise problem

    def _get(self, number: int) -> Any:
        try:
            return self._envs[number]
        except KeyError:
            raise ClosedEnvironmentError(f"This host holds no environment {number}: make it first.") from None

    def _env(self, number: int) -> Any:
        return _env_of(self._get(number))


def _as_lists(results: list[Any]) -> list[Any]:
    return [result if type(result) is m.Failed else list(result) for result in results]


def _env_of(env_or_lane: Any) -> Any:
    return env_or_lane.env if isinstance(env_or_lane, Lane) else env_or_lane


def _description(env: Any) -> dict[str, Any]:
    """What a client must know about ``env``, as the dict form of a Description."""
    custom: list[str] = []
    lanes = isinstance(env, VectorEnv)
    return msgspec.structs.asdict(
        m.Description(
            observation_space=_space_text(env.single_observation_space if lanes else env.observation_space, custom),
            action_space=_space_text(env.single_action_space if lanes else env.action_space, custom),
            metadata={key: one.value if isinstance(one, Enum) else one for key, one in env.metadata.items()},
            render_mode=env.render_mode,
            spec=_spec_text(env.spec),
            custom=", ".join(custom),
            num_envs=env.num_envs if lanes else None,
        )
    )


def _space_text(space: Space[Any], custom: list[str]) -> str | None:
    try:
        return to_json(space)
    except (CustomSpaceError, InvalidSpace):  # the user's own class, or bounds too long to write out
        custom.append(type(space).__name__)
        return None


def _spec_text(spec: EnvSpec | None) -> str | None:
    try:
        return None if spec is None else spec.to_json()
    except (InvalidSpec, TypeError, ValueError):  # arguments without a JSON form: the client has its own spec then
        return None
