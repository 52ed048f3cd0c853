"""What environments of other libraries have in common: seeds, copies, closing, snapshots, and errors as paddock's own.

Their random streams are their own and of many kinds. So a generator that is assigned to ``np_random`` is not handed to
them: it gives the seed of the next episode that has none.
"""

from __future__ import annotations

import importlib
import inspect
import string
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import paddock.errors as errors
import paddock.spaces as ours
from paddock.core.env import Env
from paddock.core.state import open_snapshot, seal_snapshot
from paddock.core.vector_env import VectorEnv
from paddock.hosting.values import from_wire, to_wire
from paddock.seeding import to_seed
from paddock.sources.families import Family
from paddock.spaces.conform import Nonconforming, conform

Array = np.ndarray[Any, Any]

# What paddock looks for on an environment: another library's attribute of the same name must not be mistaken for it.
OURS = frozenset(("env", "episode", "name_episodes", "public_state", "state_space", "inner"))
_SEED_ARGUMENTS = ("seed", "random_state", "random", "rand_seed")


class ForeignEnv(Env[Any, Any]):
    """Wraps ``inner``. Attributes that an Env does not have are read from the environment inside."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self._closed = False
        self._seed_is_due = False

    def render(self) -> Any:
        return self.inner.render()

    def close(self) -> None:
        if not self._closed:  # not all of them can be closed twice
            self._closed = True
            self.inner.close()

    @property
    def np_random(self) -> np.random.Generator:
        """A stream beside that of the environment inside, which keeps its own."""
        return super().np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self._np_random, self._np_random_seed = value, -1
        self._seed_is_due = True

    def _seed_now(self, seed: int | None) -> int | None:
        """Return the seed for the environment inside at this reset; None if its stream goes on."""
        super().reset(seed=seed)
        due, self._seed_is_due = self._seed_is_due, False
        if seed is not None:
            return int(seed)  # a plain one: some refuse NumPy's integers
        return int(self.np_random.integers(1 << 31)) if due else None

    def snapshot(self) -> bytes:
        name = type(getattr(self.inner, "unwrapped", self.inner)).__name__ if self.spec is None else self.spec.id
        raise errors.SnapshotUnsupported(
            f"{name} can't save its state: its library has no form for it. Repeat the actions from the seed, or try "
            f"copy.deepcopy(env)."
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> ForeignEnv:
        from paddock.sources.gymnasium import copy_env

        other = type(self).__new__(type(self))
        memo[id(self)] = other
        inner = self.inner
        memo[id(inner)] = other.inner = copy_env(inner) if hasattr(inner, "unwrapped") else deepcopy(inner, memo)
        vars(other).update({name: deepcopy(value, memo) for name, value in vars(self).items() if name != "inner"})
        return other

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set the attribute where it exists; a new one goes to the environment inside."""
        mine = name in vars(self) or hasattr(type(self), name)
        if not (mine or force or hasattr(self.inner, name)):
            return False
        setattr(self if mine else self.inner, name, value)
        return True

    def __getattr__(self, name: str) -> Any:
        if name in OURS or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.inner, name)


@dataclass(frozen=True)
class Maker:
    """Makes the environments of one id; ``metadata`` says what may be asked of them before one is made."""

    make: Callable[..., Env[Any, Any]]
    metadata: dict[str, Any]

    def __call__(self, **kwargs: Any) -> Env[Any, Any]:
        return self.make(**kwargs)


@contextmanager
def importing(family: Family, id: str) -> Iterator[None]:
    """Turn a failed import, of what the package forgot to declare, into DependencyNotInstalled with the command."""
    try:
        yield
    except (ImportError, AttributeError) as error:  # AttributeError: beside a version that it does not know
        raise _not_importable(family, id, error) from error


@contextmanager
def translate_errors(family: Family, id: str) -> Iterator[None]:
    """Turn errors of Gymnasium or Gym, and missing modules, into ours of the same name. Environments' own stay."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ImportError) or type(error).__name__ == "DependencyNotInstalled":
            raise _not_importable(family, id, error) from error
        if isinstance(error, AssertionError) and not error.args and family.note:
            raise errors.DependencyNotInstalled(
                f"{id!r} can't be made: {family.note}. To install what works: pip install {family.install}"
            ) from error
        if type(error).__module__ != f"{family.library}.error":
            raise
        ours: Any = getattr(errors, type(error).__name__, None)
        known = isinstance(ours, type) and issubclass(ours, errors.PaddockError)
        raise (ours if known else errors.NameNotFound)(f"{family.through}: {error}") from error


def _not_importable(family: Family, id: str, error: Exception) -> errors.DependencyNotInstalled:
    said = str(error).rstrip(".")
    if family.needs:
        hint = f" To install what {family.name} needs: pip install {family.install}"
    else:  # a family for all other ids does not know what your own environment needs
        hint = install_hint(error) or f" Install what the environment needs beside {family.install}."
    return errors.DependencyNotInstalled(f"{id!r} can't be imported: {said}.{hint}")


def install_hint(error: BaseException) -> str | None:
    """Return what to install, by the error alone; "" if it says so itself, None if it does not tell."""
    if "pip install" in str(error):
        return ""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    return f" Install the package that brings the module {package!r}: pip install {package}, if that is its name too."


def import_function(id: str, library: str) -> Callable[..., Any]:
    """Import the function that ``module:function`` names, which makes an environment of another library."""
    module, _, name = id.rpartition(":")
    if not module:
        raise errors.InvalidId(f"{library}:{id} does not name an environment. Expected '{library}:module:function'.")
    found: Any = importlib.import_module(module)
    found = getattr(found, name, None)
    if not callable(found):
        raise errors.NameNotFound(f"{library}:{id}: the module {module!r} has no function {name!r}.")
    return found  # type: ignore[no-any-return]


def find_seed_argument(function: Callable[..., Any]) -> str | None:
    """Return the argument by which the function takes a seed, if it does."""
    try:
        known = inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C
        return None
    return next((name for name in _SEED_ARGUMENTS if name in known), None)


def fit_seed(seed: Any, bits: int) -> int:
    """Return ``seed`` if it has at most that many bits, up to 32; else a number that has, mixed from all of it.

    Other libraries' seeds are smaller than ours. One that fits is passed unchanged, so that the numbers are the
    library's own for that seed.
    """
    value = to_seed(seed)
    if value < 1 << bits:
        return value
    return int(np.random.SeedSequence(value).generate_state(1)[0]) >> (32 - bits)


def check_actions(lanes: VectorEnv[Any, Any, Any], actions: Any) -> Array:
    """Return the actions as an array of the space's dtype, one per lane, or raise InvalidAction. Hot.

    For a library that steps all lanes in one call. Always done: such a library reads memory by them.
    """
    single, count = lanes.single_action_space, lanes.num_envs
    if isinstance(single, ours.Discrete):
        array = np.asarray(actions)
        fits = array.shape == (count,) and array.dtype.kind in "iu"
        if fits and array.min() >= single.start and array.max() < single.start + single.n:
            return array.astype(single.dtype, copy=False)
        raise errors.InvalidAction(
            f"{actions!r}: expected {count} integers of {single}.", action=actions, space=lanes.action_space
        )
    try:
        conforming: Array = conform(lanes.action_space, actions)
    except Nonconforming as error:
        raise errors.InvalidAction(f"{error}", action=actions, space=lanes.action_space) from None
    return conforming


# ── Spaces of Gymnasium and Gym. Neither is imported: the name of a space's class tells what it is ──

_LONGEST_TEXT = 4096


def to_ours(space: Any, library: str = "gymnasium") -> ours.Space[Any]:
    """Return our space with the same members, dtype and order of draws. One that is ours already stays.

    Versions differ in what a space has: ``start`` may be missing, say. ``library`` is for the error.
    """
    if isinstance(space, ours.Space):
        return space
    bases = [(one.__module__.partition(".")[0], one.__name__) for one in type(space).__mro__]
    home, kind = next((base for base in bases if base[0] in ("gymnasium", "gym")), ("", ""))
    match kind:
        case "Box":
            low, high = space.low, space.high
            if home == "gymnasium":
                low = _bound(low, space.bounded_below, -np.inf)
                high = _bound(high, space.bounded_above, np.inf)
            return ours.Box(low, high, space.shape, space.dtype)
        case "Discrete":
            return ours.Discrete(int(space.n), start=int(getattr(space, "start", 0)), dtype=space.dtype)
        case "MultiDiscrete":
            return ours.MultiDiscrete(space.nvec, dtype=space.dtype, start=getattr(space, "start", None))
        case "MultiBinary":
            return ours.MultiBinary(space.n)
        case "Text":
            charset = "".join(space.character_list)
            return ours.Text(space.max_length, min_length=space.min_length, charset=charset)
        case "Tuple":
            return ours.Tuple([to_ours(part, library) for part in space.spaces])
        case "Dict":
            return ours.Dict({key: to_ours(part, library) for key, part in space.spaces.items()}, sort_keys=False)
        case "Sequence":
            return ours.Sequence(to_ours(space.feature_space, library), stack=getattr(space, "stack", False))
        case "Graph" if home == "gymnasium":
            edges = None if space.edge_space is None else to_ours(space.edge_space)
            return ours.Graph(to_ours(space.node_space), edges)
        case "OneOf":
            return ours.OneOf([to_ours(part) for part in space.spaces])
        case "Space" if home == "gymnasium" and getattr(space.dtype, "kind", "") == "U":
            # A package's own space of texts, such as MiniGrid's missions.
            return ours.Text(_LONGEST_TEXT, min_length=0, charset=string.printable)
    name = type(space).__name__ if library == "gymnasium" else f"{type(space).__module__}.{type(space).__name__}"
    raise errors.CustomSpaceError(f"{name} has no counterpart in paddock. Build it from {library}.spaces.")


def _bound(values: Any, bounded: Any, infinity: float) -> Any:
    if values.dtype.kind != "i" or bounded.all():
        return values
    # Wide enough for 64-bit integers beside infinity, where the machine has such floats.
    return np.where(bounded, values.astype(np.longdouble), infinity)


# ── Snapshots that are one value of plain data and arrays: a simulator's state and what stands around it ──
#
# Never pickled: a snapshot may come from anywhere, so the reader checks what it opened. A simulator in C trusts what is
# written into it: nothing that it could take for an address or a count may come from a snapshot.

State = dict[str, Any]


class Simulator(Protocol):
    """The simulator of one environment. ``constants`` are fields of the environment that no snapshot needs.

    ``settings`` are fields that it was made with: a snapshot of one that was made differently is refused.
    """

    constants: frozenset[str]
    settings: frozenset[str]

    def state(self) -> State:
        """Return all of it, as plain data."""

    def check(self, state: State) -> Any:
        """Return what ``enter`` takes, or raise InvalidSnapshot; changes nothing."""

    def enter(self, checked: Any) -> None:
        """Take on that state, or raise InvalidSnapshot and stay in the one before."""


def seal_value(layer: str, value: Any, *, name: str) -> bytes:
    """Return the value as bytes; SnapshotUnsupported, naming the environment, if part of it can't be plain data."""
    pieces: list[Any] = []
    try:
        plain = to_wire(value, pieces, name=name)
    except errors.NotTransferable as error:
        raise errors.SnapshotUnsupported(f"{name} can't be saved: {error}") from None
    return seal_snapshot(layer, plain, b"".join(pieces))


def open_value(layer: str, snapshot: bytes) -> Any:
    """Return what was sealed; anything else is an InvalidSnapshot."""
    plain, body = open_snapshot(layer, snapshot, Any)
    try:
        return from_wire(plain, bytearray(body))
    except errors.BadFrame as error:
        raise errors.InvalidSnapshot(f"This snapshot is malformed: {error}") from None


def fits_in(array: Any, like: Any) -> bool:
    """Whether it is an array that may take the place of ``like``."""
    return isinstance(array, np.ndarray) and array.dtype == like.dtype and array.shape == like.shape


def is_finite(array: Any) -> bool:
    """Whether a simulator could have computed it: none of them goes on from a NaN."""
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def fields_fit(fields: Any, layer: Any, present: dict[str, Any], settings: Collection[str]) -> bool:
    """Whether they may take the place of the ``present`` fields of ``layer``, and have the same ``settings``.

    A field that the layer does not have yet is fine, since the first ``reset`` makes many; but it must not hide a
    method.
    """
    if not isinstance(fields, dict) or any(name in present and name not in fields for name in settings):
        return False
    for name, new in fields.items():
        if not isinstance(name, str) or name.startswith("__") or (name in vars(layer) and name not in present):
            return False
        of_class = getattr(type(layer), name, None)
        if name not in present and of_class is not None and type(new) is not type(of_class):
            return False
        if name in present and not _may_follow(new, present[name]):
            return False
        if name in settings and new != present.get(name):
            return False
    return True


def _may_follow(new: Any, old: Any) -> bool:
    """Whether both are of one kind. A number that was 0 may become 0.5, and None may become anything."""
    if isinstance(old, np.ndarray):
        return new is None or fits_in(new, old)
    if isinstance(old, (bool, np.bool_)):
        return isinstance(new, (bool, np.bool_))
    if isinstance(old, (int, float, np.number)):
        return new is None or (isinstance(new, (int, float, np.number)) and not isinstance(new, bool))
    return old is None or new is None or type(new) is type(old)


def class_of(thing: Any) -> str:
    """The name by which a snapshot knows what it belongs to."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
