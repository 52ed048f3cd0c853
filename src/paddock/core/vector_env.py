"""VectorEnv: n lanes with a leading axis. It is not an Env: what it takes and returns is always a batch."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

import numpy as np

from paddock.core.env import ActType, AnyByDefault, Info, ObsType
from paddock.core.infos import add_info
from paddock.errors import InvalidLanes, NoAsyncCallError
from paddock.seeding import np_random

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, TypeVar

    from paddock.core.spec import EnvSpec
    from paddock.core.state import State
    from paddock.spaces import Space

    ArrayType = TypeVar("ArrayType", default=np.ndarray[Any, Any])
else:
    from typing import TypeVar

    ArrayType = TypeVar("ArrayType")

# What becomes of a lane that fails: its error is raised, it begins anew, or it is frozen.
OnFault: TypeAlias = Literal["raise", "restart", "mask"]


class AutoresetMode(Enum):
    """When a lane whose episode ended begins the next one.

    NEXT_STEP: the step after the end ignores the lane's action and returns the first observation, reward 0.
    SAME_STEP: the ending step returns the next episode's first observation; the last one is ``info["final_obs"]``.
    DISABLED: never; the caller resets lanes with ``reset(options={"reset_mask": mask})``.
    """

    NEXT_STEP = "NextStep"
    SAME_STEP = "SameStep"
    DISABLED = "Disabled"


class VectorEnv(AnyByDefault, Generic[ObsType, ActType, ArrayType]):
    """The contract of n lanes. ``step`` is ``send`` and then ``recv``; a subclass writes those two, or ``step``."""

    metadata: dict[str, Any] = {}
    spec: EnvSpec | None = None
    render_mode: str | None = None
    closed: bool = False

    observation_space: Space[ObsType]
    action_space: Space[ActType]
    single_observation_space: Space[Any]
    single_action_space: Space[Any]

    num_envs: int

    _np_random: np.random.Generator | None = None
    _np_random_seed: int | None = None

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        """Begin an episode in every lane, or in those of ``options["reset_mask"]``. Lane i is seeded with seed + i."""
        if seed is not None:
            self._np_random, self._np_random_seed = np_random(seed)
        return None  # type: ignore[return-value]  # as Env.reset

    def step(self, actions: ActType) -> tuple[ObsType, ArrayType, ArrayType, ArrayType, Info]:
        """Step every lane: observations, rewards, terminations, truncations, infos."""
        self.send(actions)
        return self.recv()

    _sent: Any = None  # what `send` left for `recv`

    def _take_sent(self) -> Any:
        sent, self._sent = self._sent, None
        if sent is None:
            raise NoAsyncCallError("recv() has no step to bring back. Call send(actions) first.", "recv")
        return sent

    def send(self, actions: ActType) -> None:
        """Begin a step; ``recv`` brings its result."""
        raise NotImplementedError

    def recv(self) -> tuple[ObsType, ArrayType, ArrayType, ArrayType, Info]:
        """The result of the step begun by ``send``."""
        raise NotImplementedError

    def hold(self, lanes: np.ndarray[Any, Any]) -> None:
        """Leave these lanes, bool[n], alone in the next step: same observation, reward 0, flags False, no info.

        Their actions are ignored, ended lanes stay ended, and the step after that moves all lanes again. Wrappers that
        take several steps at once need it, for lanes that are done before the others.
        """
        raise InvalidLanes(f"{type(self).__name__} can't hold lanes while others move: it defines no hold().")

    def render(self) -> tuple[Any, ...] | None:
        """A frame a lane."""
        raise NotImplementedError

    def state(self) -> tuple[State, ...]:
        """The state of each lane. See :func:`paddock.state`."""
        raise NotImplementedError

    def close(self, **kwargs: Any) -> None:
        """Close every lane, once."""
        if not self.closed:
            self.close_extras(**kwargs)
            self.closed = True

    def close_extras(self, **kwargs: Any) -> None:
        """What a subclass has to free."""

    @property
    def np_random(self) -> np.random.Generator:
        """The batch's own random stream; lanes have theirs."""
        if self._np_random is None:
            self._np_random, self._np_random_seed = np_random()
        return self._np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self._np_random = value
        self._np_random_seed = -1

    @property
    def np_random_seed(self) -> int | None:
        """The seed of ``np_random``; -1 when a generator was assigned from outside."""
        if self._np_random_seed is None:
            self._np_random, self._np_random_seed = np_random()
        return self._np_random_seed

    @property
    def unwrapped(self) -> VectorEnv[Any, Any, Any]:
        """The vector environment under all wrappers."""
        return self

    def _add_info(self, vector_infos: Info, env_info: Info, env_num: int) -> Info:
        return add_info(vector_infos, env_info, env_num, self.num_envs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        name = type(self).__name__
        where = f"num_envs={self.num_envs}" if hasattr(self, "num_envs") else ""
        return f"{name}({where})" if self.spec is None else f"{name}({self.spec.id}, {where})"
