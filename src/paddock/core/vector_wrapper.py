"""VectorWrapper: changes what passes between agent and lanes, a whole batch at a time.

A subclass writes ``step``, or ``send`` and ``recv``; the other form follows from it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np

from paddock.core.env import ActType, Info, ObsType
from paddock.core.problem import warn_user
from paddock.core.vector_env import ArrayType, AutoresetMode, VectorEnv
from paddock.core.wrapper import WrapperActType, WrapperObsType, assigned_here, forwarded
from paddock.errors import WrongClass
from paddock.spaces.batch import concatenate, create_empty_array, iterate

if TYPE_CHECKING:
    from paddock.core.state import State

    AnyWrapper: TypeAlias = "VectorWrapper[Any, Any, Any, Any, Any]"

StepType = TypeVar("StepType", bound=Callable[..., Any])
Result = tuple[Any, Any, Any, Any, Info]  # observations, rewards, terminations, truncations, infos


def shortcut(step: StepType) -> StepType:
    """Mark a ``step`` that only does faster what ``send`` and ``recv`` do: these stay as they are."""
    step.is_shortcut = True  # type: ignore[attr-defined]
    return step


def _join_step_and_halves(cls: type[AnyWrapper]) -> None:
    """Give a class that writes ``step`` the halves that go through it, and one that writes a half the ``step``."""

    # These name the class and not `self`'s methods: a subclass that calls super() would come back to itself for ever.
    def keep(self: AnyWrapper, actions: Any) -> None:
        self._sent = (actions,)

    def step_kept(self: AnyWrapper) -> Result:
        (actions,) = self._take_sent()
        return cls.step(self, actions)

    def send_and_recv(self: AnyWrapper, actions: Any) -> Result:
        cls.send(self, actions)
        return cls.recv(self)

    written: set[str] = set()
    for layer in cls.__mro__:  # plain classes mixed in have not passed here: they count as this class's own
        here = vars(layer).keys() & {"step", "send", "recv"}
        if hasattr(vars(layer).get("step"), "is_shortcut"):
            here -= {"step"}
        if "step" in here and len(here) > 1:
            break
        written |= here
    if written == {"step"}:
        cls.send, cls.recv = keep, step_kept  # type: ignore[method-assign]
    elif written and "step" not in written:
        cls.step = send_and_recv  # type: ignore[method-assign]


class VectorWrapper(
    VectorEnv[WrapperObsType, WrapperActType, ArrayType],
    Generic[WrapperObsType, WrapperActType, ObsType, ActType, ArrayType],
):
    """Passes everything through; subclasses override what they change.

    Spaces and metadata are the wrapped environment's until a wrapper assigns its own. Write ``step``, or ``send`` and
    ``recv``: the other way follows. Other attributes of what is wrapped are not forwarded; ask ``unwrapped``.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _join_step_and_halves(cls)

    def __init__(self, env: VectorEnv[ObsType, ActType, ArrayType]) -> None:
        if not isinstance(env, VectorEnv):
            raise WrongClass(
                f"Expected env to be a `gymnasium.vector.VectorEnv` but got {type(env)}. "
                "paddock.make_vec(id, num_envs=n) makes one; a single environment takes a paddock.Wrapper."
            )
        self.env = env
        self._observation_space = self._action_space = self._metadata = None
        self._single_observation_space = self._single_action_space = None

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[WrapperObsType, Info]:
        return self.env.reset(seed=seed, options=options)  # type: ignore[return-value]

    def step(self, actions: WrapperActType) -> tuple[WrapperObsType, ArrayType, ArrayType, ArrayType, Info]:
        # Not send and recv: the wrapped environment may have a quicker `step`, or nothing but one.
        return self._on_the_way_out(self.env.step(self._on_the_way_in(actions)))

    def send(self, actions: WrapperActType) -> None:
        self.env.send(self._on_the_way_in(actions))

    def recv(self) -> tuple[WrapperObsType, ArrayType, ArrayType, ArrayType, Info]:
        return self._on_the_way_out(self.env.recv())

    def hold(self, lanes: np.ndarray[Any, Any]) -> None:
        self.env.hold(lanes)

    def _on_the_way_in(self, actions: Any) -> Any:
        return actions

    def _on_the_way_out(self, result: Result) -> Result:
        return result

    def render(self) -> tuple[Any, ...] | None:
        return self.env.render()

    def close(self, **kwargs: Any) -> None:
        self.env.close(**kwargs)

    def close_extras(self, **kwargs: Any) -> None:
        self.env.close_extras(**kwargs)

    def state(self) -> tuple[State, ...]:
        return self.env.state()

    def snapshot(self) -> bytes:
        """The wrapped environment's; a wrapper with a memory of its own adds it with :func:`seal_snapshot`."""
        return self._lanes.snapshot()  # type: ignore[no-any-return]

    def restore(self, snapshot: bytes) -> None:
        self._lanes.restore(snapshot)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each lane's attribute, called with the arguments if it is callable."""
        return self._lanes.call(name, *args, **kwargs)  # type: ignore[no-any-return]

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Each lane's attribute."""
        return self._lanes.get_attr(name)  # type: ignore[no-any-return]

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Set an attribute in every lane: one value for all, or a list or tuple with one per lane."""
        self._lanes.set_attr(name, values)

    @property
    def _lanes(self) -> Any:
        # Not every VectorEnv has lanes to ask, or a snapshot: one without says so with its own AttributeError.
        return self.env

    if not TYPE_CHECKING:  # their types are those of VectorEnv
        unwrapped = property(attrgetter("env.unwrapped"))
        num_envs = property(attrgetter("env.num_envs"))
        spec = property(attrgetter("env.spec"))
        render_mode = property(attrgetter("env.render_mode"))
        closed = forwarded("env", "closed")
        np_random = forwarded("env", "np_random")
        np_random_seed = property(attrgetter("env.np_random_seed"))
        metadata = assigned_here("metadata")
        observation_space = assigned_here("observation_space")
        action_space = assigned_here("action_space")
        single_observation_space = assigned_here("single_observation_space")
        single_action_space = assigned_here("single_action_space")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {self.env}>"


class VectorObservationWrapper(VectorWrapper[WrapperObsType, ActType, ObsType, ActType, ArrayType]):
    """Changes observations: write ``observations``, and set ``observation_space`` and ``single_observation_space``.

    Under SAME_STEP the last observations in ``infos["final_obs"]`` are changed too, before those of the new episodes.
    """

    def __init__(self, env: VectorEnv[ObsType, ActType, ArrayType]) -> None:
        super().__init__(env)
        if "autoreset_mode" not in env.metadata:
            warn_user(f"Vector environment ({env}) is missing `autoreset_mode` metadata key.")

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[WrapperObsType, Info]:
        observations, infos = self.env.reset(seed=seed, options=options)
        return self.observations(observations), infos

    def observations(self, observations: ObsType) -> WrapperObsType:
        """The batch that the agent sees in place of ``observations``; row i is lane i's."""
        raise NotImplementedError

    def final_observations(self, observations: ObsType, ended: np.ndarray[Any, Any]) -> WrapperObsType:
        """The same for the last observations of the lanes that ``ended``, bool[n]; the other rows are ignored.

        A wrapper that learns from what it sees overrides this: the other rows hold what ``observations`` gets next.
        """
        return self.observations(observations)

    def _on_the_way_out(self, result: Result) -> Result:
        observations, rewards, terminations, truncations, infos = result
        if "_final_obs" in infos and self.env.metadata.get("autoreset_mode") in (AutoresetMode.SAME_STEP, None):
            infos = {**infos, "final_obs": self._changed_finals(observations, infos)}
        return self.observations(observations), rewards, terminations, truncations, infos

    def _changed_finals(self, observations: Any, infos: Info) -> np.ndarray[Any, Any]:
        # A batch of all lanes, though only some ended: what `observations` does may depend on the lane.
        single, ended = self.env.single_observation_space, infos["_final_obs"]
        rows = list(iterate(self.env.observation_space, observations))
        for lane in np.flatnonzero(ended):
            rows[lane] = infos["final_obs"][lane]
        batch: Any = concatenate(single, rows, create_empty_array(single, len(rows)))
        changed = list(iterate(self.observation_space, self.final_observations(batch, ended)))
        finals = np.full(len(ended), None, dtype=object)
        for lane in np.flatnonzero(ended):
            finals[lane] = deepcopy(changed[lane])  # a view, perhaps of a buffer that the next batch is written to
        return finals


class VectorActionWrapper(VectorWrapper[ObsType, WrapperActType, ObsType, ActType, ArrayType]):
    """Changes actions: write ``actions``."""

    def actions(self, actions: WrapperActType) -> ActType:
        """The batch that the lanes get in place of ``actions``."""
        raise NotImplementedError

    def _on_the_way_in(self, actions: Any) -> Any:
        return self.actions(actions)


class VectorRewardWrapper(VectorWrapper[ObsType, ActType, ObsType, ActType, ArrayType]):
    """Changes rewards: write ``rewards``."""

    def rewards(self, rewards: ArrayType) -> ArrayType:
        """The rewards that the agent sees in place of ``rewards``."""
        raise NotImplementedError

    def _on_the_way_out(self, result: Result) -> Result:
        observations, rewards, terminations, truncations, infos = result
        return observations, self.rewards(rewards), terminations, truncations, infos
