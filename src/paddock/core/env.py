"""Env: one episode at a time. The base class seeds and forwards; it never checks, so that step costs nothing extra."""

from __future__ import annotations

import importlib
import sys
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Generic, Literal, SupportsFloat, TypeAlias

import numpy as np

from paddock.errors import SnapshotUnsupported
from paddock.seeding import np_random

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType, TracebackType

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

        def __class_getitem__(cls, types: Any) -> Any:
            if not cls.__parameters__:
                return cls  # a wrapper that has types of its own, and is generic in Gymnasium
            types = types if isinstance(types, tuple) else (types,)
            return super().__class_getitem__((*types, *[Any] * (len(cls.__parameters__) - len(types))))


class Root(AnyByDefault):
    """What one environment and n lanes share: a random stream, and ``with``."""

    _np_random: np.random.Generator | None = None
    _np_random_seed: int | None = None
    _isolation: str = "none"  # the tier that its code runs in; `making` sets it on what stands for one elsewhere

    @property
    def np_random(self) -> np.random.Generator:
        """The random stream, made from the system's entropy if it was never seeded. Lanes have their own."""
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

    def close(self) -> None:
        """Free what the environment holds. Calling it twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        self.close()
        return False


class Env(Root, Generic[ObsType, ActType]):
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

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        """Advance by one action: observation, reward, terminated, truncated, info."""
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        """Begin an episode. With a seed the random stream starts from it; without one it goes on."""
        if seed is not None:
            self._np_random, self._np_random_seed = np_random(seed)
        return None  # type: ignore[return-value]  # a subclass returns (observation, info); Gymnasium's base returns None

    def render(self) -> Any:
        """A frame, a list of frames, text or nothing, as ``render_mode`` says."""
        raise NotImplementedError

    def snapshot(self) -> bytes:
        """The whole state of the episode, its random stream included, as bytes; ``restore`` goes on from it."""
        raise SnapshotUnsupported(f"{type(self).__name__} can't save its state: it defines no snapshot().")

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot of such an environment; anything else is refused and changes nothing."""
        raise SnapshotUnsupported(f"{type(self).__name__} can't restore a state: it defines no restore().")

    def fork(self) -> Self:
        """Another environment in the same state, at the same distance; both go on by themselves. Close both."""
        return deep_copy(self, {})  # type: ignore[no-any-return]

    @property
    def unwrapped(self) -> Env[ObsType, ActType]:
        """The environment under all wrappers."""
        return self

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


def deep_copy(env: Any, memo: dict[int, Any]) -> Any:
    """Copy an environment or wrapper, except for what ``memo`` has; SnapshotUnsupported where Python can't."""
    try:
        return deepcopy(env, memo)
    except (TypeError, RecursionError, NotImplementedError) as error:
        raise SnapshotUnsupported(f"{type(env).__name__} can't be forked: {error}.") from error


def isolation_of(env: Any) -> str:
    """Return the tier that an environment's code runs in: none is this process."""
    return str(getattr(env.unwrapped, "_isolation", "none"))


# ── Gymnasium's classes among the bases of ours ──
#
# Trainers check isinstance(env, gymnasium.Env) and isinstance(space, gymnasium.spaces.Box). Nothing here imports
# gymnasium: the first program line that does, before or after paddock, joins the classes. Our methods come first.

# Our module: their module, and the classes. Vector environments are not among them: their metadata has
# paddock's AutoresetMode, which code written for Gymnasium would compare with its own and take for another mode.
_CLASSES = {
    "paddock.core.env": ("gymnasium", ("Env",)),
    "paddock.core.wrapper": ("gymnasium", ("Wrapper", "ObservationWrapper", "ActionWrapper", "RewardWrapper")),
    "paddock.spaces": (
        "gymnasium.spaces",
        (
            "Space",
            "Box",
            "Dict",
            "Discrete",
            "Graph",
            "MultiBinary",
            "MultiDiscrete",
            "OneOf",
            "Sequence",
            "Text",
            "Tuple",
        ),
    ),
}


def join() -> None:
    """Put gymnasium's classes among the bases of ours. Gymnasium is imported by now."""
    for module, (home, names) in _CLASSES.items():
        for name in names:
            ours = getattr(importlib.import_module(module), name)
            theirs = getattr(sys.modules.get(home), name, None)
            # Not issubclass(): of Dict and Tuple, Python would remember its "no". They are the same classes where
            # `gymnasium` is another name for paddock.gym, and none where a test has put something in its place.
            if isinstance(theirs, type) and theirs not in ours.__mro__:
                first, *others = ours.__bases__
                ours.__bases__ = (first, theirs, *others)


class Watch:
    """Finds no module itself; when gymnasium is found, ``join`` follows its import.

    If it was found before, and its import is going on (in another thread, or it loads a plugin that imports paddock),
    ``join`` follows when it looks for its next part.
    """

    _joined = False

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.startswith("gymnasium.") and not self._joined:
            self._joined = _join_if_ready()
        if name != "gymnasium":
            return None
        finders = (one for one in sys.meta_path if one is not self)
        spec = next((found for one in finders if (found := one.find_spec(name, path, target)) is not None), None)
        loader: Any = None if spec is None else spec.loader
        if hasattr(loader, "exec_module"):  # a folder that only looks like gymnasium has none
            execute = loader.exec_module

            def execute_and_join(module: ModuleType) -> None:
                execute(module)
                join()

            loader.exec_module = execute_and_join
        return spec


def _join_if_ready() -> bool:
    ready = hasattr(sys.modules.get("gymnasium"), "make")  # its classes are there before
    if ready:
        join()
    return ready


def watch_for_gymnasium() -> None:
    """Join now if gymnasium is imported, and otherwise when it is."""
    watch = Watch()
    sys.meta_path.insert(0, watch)  # before the look: another thread may be importing it
    if _join_if_ready():
        sys.meta_path.remove(watch)


watch_for_gymnasium()
