"""Host: holds environments, answers one Request with one Reply. It knows no bytes and no sockets, and never raises."""

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
from paddock.hosting.failure import failed
from paddock.spaces import Space
from paddock.spaces.json_form import to_json

Build = Callable[[dict[str, Any]], "Env[Any, Any] | VectorEnv[Any, Any, Any]"]

_CONTAINED = (Exception, SystemExit, GeneratorExit)


class _Refused(Exception):
    """A reply that was given with the request."""

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
        self, build: Build, *, alone: bool = False, failed: Callable[[BaseException], m.Failed] = failed
    ) -> None:
        self._build = build
        self.failed = failed  # what is said of an error; to a peer far away less than to who owns the machine
        # Alone in its process, whatever is raised is the environment's; else Ctrl-C is for whoever called.
        self._contained: tuple[type[BaseException], ...] = (BaseException,) if alone else _CONTAINED
        self._held: dict[int, Any] = {}  # Env or Lane
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
        """One environment's step: its five results, or a Failed. The others can't be hurt by it."""
        try:
            return self._get(number).step(action)
        except self._contained as error:
            return self.failed(error)

    def stepped(self, results: list[Any]) -> m.Reply:
        """The reply to a Step, from what ``step`` returned for each."""
        try:
            return m.Done(_listed(results))
        except self._contained as error:  # a result of its own class may run code
            return self.failed(error)

    def _step_each(self, request: m.Step) -> list[Any]:
        actions = request.actions
        if actions is None or len(actions) != len(request.envs):
            given = "none" if actions is None else len(actions)
            raise PaddockError(f"Step: {given} actions for {len(request.envs)} environments. Expected one each.")
        return _listed([self.step(number, action) for number, action in zip(request.envs, actions, strict=True)])

    def _make(self, request: m.Make) -> dict[str, Any]:
        with suppress(Exception):  # of an environment that nobody wants any more
            self._close(m.Close(request.env))
        made = self._build(request.what)
        if request.autoreset is None:
            self._held[request.env] = made
        else:
            assert not isinstance(made, VectorEnv), "many lanes are no lane of others"
            self._held[request.env] = Lane(made, AutoresetMode(request.autoreset))
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
        ours = isinstance(env, Env)  # one of another library need not have the methods for attributes
        if request.how == "set":
            return (
                env.set_wrapper_attr(name, *request.args, **request.kwargs)
                if ours
                else setattr(env, name, *request.args)
            )
        if request.how == "has" and not (env.has_wrapper_attr(name) if ours else hasattr(env, name)):
            return ""
        value = env.get_wrapper_attr(name) if ours else getattr(env, name)
        if request.how == "has":
            return "callable" if callable(value) else "value"
        return value(*request.args, **request.kwargs) if request.how == "call" and callable(value) else value

    def _close(self, request: m.Close) -> None:
        numbers = list(self._held) if request.env is None else [request.env]
        problem: BaseException | None = None
        for number in numbers:
            held = self._held.pop(number, None)
            try:
                if held is not None:
                    _env_of(held).close()
            except Exception as error:  # the others are closed all the same
                problem = error
        if problem is not None:
            raise problem

    def _get(self, number: int) -> Any:
        try:
            return self._held[number]
        except KeyError:
            raise ClosedEnvironmentError(f"This host holds no environment {number}: make it first.") from None

    def _env(self, number: int) -> Any:
        return _env_of(self._get(number))


def _listed(results: list[Any]) -> list[Any]:
    return [result if type(result) is m.Failed else list(result) for result in results]


def _env_of(held: Any) -> Any:
    return held.env if isinstance(held, Lane) else held


def _description(env: Any) -> dict[str, Any]:
    """What a client must know of ``env``, as the dict form of a Description."""
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
    except (CustomSpaceError, InvalidSpace):  # a class of the user's own, or bounds too long to write out
        custom.append(type(space).__name__)
        return None


def _spec_text(spec: EnvSpec | None) -> str | None:
    try:
        return None if spec is None else spec.to_json()
    except (InvalidSpec, TypeError, ValueError):  # arguments that are no JSON: the client has its own spec then
        return None
