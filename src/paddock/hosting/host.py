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
from paddock.errors import BadFrame, ClosedEnvironmentError, CustomSpaceError, InvalidSpace, InvalidSpec, PaddockError
from paddock.hosting import messages as m
from paddock.hosting.failures import to_failed
from paddock.hosting.layout import Block, StepLayout
from paddock.spaces import Space
from paddock.spaces.json_form import to_json
from paddock.spaces.rows import layout

Build = Callable[[dict[str, Any]], "Env[Any, Any] | VectorEnv[Any, Any, Any]"]

_CONTAINED = (Exception, SystemExit, GeneratorExit)
_NO_NOTES = m.Rows()


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
        self._layout: StepLayout | None = None  # of environment 0
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

    def handle(self, request: m.Request | m.StepJson) -> m.StepReply | m.Outcome:
        """Carry one request out. A failure, an environment's ``sys.exit`` among them, is a Failed reply."""
        try:
            if type(request) is m.StepRows:
                return self._step_row(request)
            if type(request) is m.StepJson:
                return self._step_json(request)
            return m.Done(self._rules[type(request)](request))
        except _Refused as refusal:
            return refusal.reply
        except self._contained as error:
            return self.failed(error)

    def step_rows(self, request: m.StepRows, block: Block) -> m.Rows:
        """Step rows of the memory that the caller shares, and put the results there."""
        notes: list[Any] = []
        loose = block.observations is None
        for place, row in enumerate(request.envs or range(block.rows)):
            block.begin(row)
            result = self._step(row, block.action(row) if request.actions is None else request.actions[place])
            if type(result) is m.Failed:
                notes.append([row, result])
                continue
            try:
                observation, reward, terminated, truncated, info = result
                block.put(row, observation, reward, terminated, truncated)
            except Exception as error:  # an odd result may run code of the environment: __array__, __float__
                notes.append([row, self.failed(error)])
                continue
            if loose:
                notes.append([row, info, observation])
            elif info:
                notes.append([row, info])
        block.idle()
        return m.Rows(notes) if notes else _NO_NOTES

    def _step(self, number: int, action: Any) -> Any:
        """The five results of one environment, or a Failed. It can't hurt the others."""
        try:
            return self._get(number).step(action)
        except self._contained as error:
            return self.failed(error)

    def _step_row(self, request: m.StepRows) -> m.StepReply:
        """Hot: the usual step of one environment by itself."""
        env, layout = self._get(0), self._layout
        if layout is None or request.rows is None:
            raise BadFrame("StepRows came without rows that environment 0 takes.")
        result = env.step(layout.take_action(request.rows, plain=request.plain))
        observation, reward, terminated, truncated, info = result
        rows = layout.pack_result(observation, reward, terminated, truncated)
        if rows is None or type(info) is not dict:
            return m.Done(_as_lists([result]))
        return m.Rows([[0, info]] if info else None, type(observation) is int, rows)

    def _step_json(self, request: m.StepJson) -> m.StepReply | m.Outcome:
        """Step environment 0, whose actions and observations are JSON objects."""
        result = self._get(0).step(msgspec.json.decode(request.action))
        observation, reward, terminated, truncated, _ = result
        usual = type(observation) is dict and type(reward) is float and type(terminated) is type(truncated) is bool
        if usual and len(text := msgspec.json.encode(observation)) <= m.JSON_BYTES:
            return m.Outcome(text, reward, terminated, truncated)
        return m.Done(_as_lists([result]))

    def _step_each(self, request: m.Step) -> list[Any]:
        actions = request.actions
        if len(actions) != len(request.envs):
            raise PaddockError(f"Step: {len(actions)} actions for {len(request.envs)} environments. Expected one each.")
        return _as_lists([self._step(number, action) for number, action in zip(request.envs, actions, strict=True)])

    def _make(self, request: m.Make) -> dict[str, Any]:
        with suppress(Exception):  # of an environment that is being replaced
            self._close(m.Close(request.env))
        made = self._build(request.what)
        if request.autoreset is None:
            self._envs[request.env] = made
        else:
            assert not isinstance(made, VectorEnv), "a vector environment can't be a lane"
            self._envs[request.env] = Lane(made, AutoresetMode(request.autoreset))
        if isinstance(made, VectorEnv):
            lanes, spaces = made.num_envs, (made.single_observation_space, made.single_action_space)
        else:
            lanes, spaces = None, (made.observation_space, made.action_space)
        if request.env == 0:
            self._layout = StepLayout(layout(spaces[0]), layout(spaces[1]), lanes)
        return _describe(made, *spaces, lanes)

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


def _describe(env: Any, observation_space: Space[Any], action_space: Space[Any], lanes: int | None) -> dict[str, Any]:
    """What a client must know about ``env``, as the dict form of a Description."""
    custom: list[str] = []
    return msgspec.structs.asdict(
        m.Description(
            observation_space=_space_text(observation_space, custom),
            action_space=_space_text(action_space, custom),
            metadata={key: one.value if isinstance(one, Enum) else one for key, one in env.metadata.items()},
            render_mode=env.render_mode,
            spec=_spec_text(env.spec),
            custom=", ".join(custom),
            num_envs=lanes,
            rows=True,
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
