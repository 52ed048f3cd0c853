"""Env: one episode at a time. The base class seeds and forwards; it never checks, so that step costs nothing extra."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, SupportsFloat, TypeAlias

import numpy as np

from paddock.core.kinship import watch_for_gymnasium
from paddock.errors import SnapshotUnsupported
from paddock.seeding import np_random

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, TypeVar

    from paddock.core.spec import EnvSpec
    from paddock.spaces import Space

    # Defaults let a plain `Env` mean `Env[Any, Any]`; the runtime TypeVar has them only from Python 3.13 on.
    ObsType = TypeVar("ObsType", default=Any)
    ActType = TypeVar("ActType", default=Any)
    RenderFrame = TypeVar("RenderFrame", default=Any)
else:
    from typing import TypeVar

    ObsType = TypeVar("ObsType")
    ActType = TypeVar("ActType")
    RenderFrame = TypeVar("RenderFrame")

Info: TypeAlias = dict[str, Any]


class AnyByDefault:
    """``Env[np.ndarray]`` is ``Env[np.ndarray, Any]``: to leave arguments out, a TypeVar needs Python 3.13."""

    if not TYPE_CHECKING:

        def __class_getitem__(cls, given: Any) -> Any:
            if not cls.__parameters__:
                return cls  # a wrapper that has types of its own, and is generic in Gymnasium
            given = given if isinstance(given, tuple) else (given,)
            return super().__class_getitem__((*given, *[Any] * (len(cls.__parameters__) - len(given))))


class Env(AnyByDefault, Generic[ObsType, ActType]):
    """The contract between an agent and a world.

    A subclass sets ``observation_space`` and ``action_space`` and writes ``reset`` and ``step``; ``reset`` begins with
    ``super().reset(seed=seed)``, which seeds ``self.np_random``. An environment that wants to publish some of its
    state defines ``public_state()``; see :func:`paddock.state`.
    """

    metadata: dict[str, Any] = {"render_modes": []}
    render_mode: str | None = None
    spec: EnvSpec | None = None

    action_space: Space[ActType]
    observation_space: Space[ObsType]

    _np_random: np.random.Generator | None = None
    _np_random_seed: int | None = None

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        """Advance by one action: observation, reward, terminated, truncated, info."""
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        """Begin an episode. With a seed the random stream starts anew; without one it goes on where it was."""
        if seed is not None:
            self._np_random, self._np_random_seed = np_random(seed)
        return None  # type: ignore[return-value]  # a subclass returns (observation, info); Gymnasium's base returns None

    def render(self) -> Any:
        """A frame, a list of frames, text or nothing, as ``render_mode`` says."""
        raise NotImplementedError

    def close(self) -> None:
        """Free what the environment holds. Calling it twice is fine."""

    def snapshot(self) -> bytes:
        """The whole state of the episode, its random stream included, as bytes; ``restore`` goes on from it."""
        raise SnapshotUnsupported(f"{type(self).__name__} can't save its state: it defines no snapshot().")

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot of such an environment; anything else is refused and changes nothing."""
        raise SnapshotUnsupported(f"{type(self).__name__} can't restore a state: it defines no restore().")

    @property
    def unwrapped(self) -> Env[ObsType, ActType]:
        """The environment under all wrappers."""
        return self

    @property
    def np_random(self) -> np.random.Generator:
        """The environment's random stream; made from the system's entropy if nobody seeded it."""
        if self._np_random is None:
            self._np_random, self._np_random_seed = np_random()
        return self._np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self._np_random = value
        self._np_random_seed = -1  # a generator from outside: its seed is not known

    @property
    def np_random_seed(self) -> int:
        """The seed of ``np_random``; -1 when a generator was assigned from outside."""
        if self._np_random_seed is None:
            self._np_random, self._np_random_seed = np_random()
        return self._np_random_seed

    def has_wrapper_attr(self, name: str) -> bool:
        """Whether this environment or one that it wraps has the attribute."""
        return hasattr(self, name)

    def get_wrapper_attr(self, name: str) -> Any:
        """The attribute of the outermost wrapper or environment that has it."""
        return getattr(self, name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set the attribute where it exists, or here if ``force``; whether it was set."""
        if force or hasattr(self, name):
            setattr(self, name, value)
            return True
        return False

    def __str__(self) -> str:
        name = type(self).__name__
        return f"<{name} instance>" if self.spec is None else f"<{name}<{self.spec.id}>>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        self.close()
        return False


watch_for_gymnasium()
