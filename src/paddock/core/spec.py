"""EnvSpec: data that says what to make, and the ids of environments. Equal specs make the same environment.

An id is ``[namespace/]Name[-vN]``. Its parser is total: any string gives parts or one InvalidId.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from paddock.errors import InvalidId, RegistryConflict

if TYPE_CHECKING:
    from paddock.core.env import Env
    from paddock.core.vector_env import VectorEnv

MAX_ID_LENGTH = 256
# ASCII only, so that no two ids look alike; nine digits at most, so that a version is always a small int.
_ID = re.compile(r"(?:(?P<namespace>[\w:-]+)/)?(?P<name>[\w:.-]+?)(?:-v(?P<version>0|[1-9][0-9]{0,8}))?", re.ASCII)
_LOOKS_VERSIONED = re.compile(r".*-v[0-9]+", re.ASCII | re.DOTALL)
_NAMESPACE = re.compile(r"[\w:-]+", re.ASCII)


class EnvId(NamedTuple):
    """The parts of an id; ``str()`` of it is the id again."""

    namespace: str | None
    name: str
    version: int | None

    def __str__(self) -> str:
        text = self.name if self.version is None else f"{self.name}-v{self.version}"
        return text if self.namespace is None else f"{self.namespace}/{text}"


def parse_id(text: str) -> EnvId:
    """Split an id into its parts."""
    match = _ID.fullmatch(text) if isinstance(text, str) and len(text) <= MAX_ID_LENGTH else None
    # "Maze-v01" would read as a name without a version, and format as an id that was never registered.
    if match is None or (match["version"] is None and _LOOKS_VERSIONED.fullmatch(match["name"])):
        raise InvalidId(
            f"Malformed environment ID: {_ascii(text)}. Expected [namespace/]Name[-vN] of ASCII letters, digits, "
            f"'_', '-', '.' and ':', a version without leading zeros, at most {MAX_ID_LENGTH} characters."
        )
    version = match["version"]
    return EnvId(match["namespace"], match["name"], None if version is None else int(version))


def format_id(namespace: str | None, name: str, version: int | None) -> str:
    """The id with these parts."""
    return str(EnvId(namespace, name, version))


def check_namespace(text: str) -> str:
    """``text`` if it can be a namespace."""
    if not isinstance(text, str) or len(text) > MAX_ID_LENGTH or not _NAMESPACE.fullmatch(text):
        raise InvalidId(f"Malformed namespace: {_ascii(text)}. Expected ASCII letters, digits, '_', '-' and ':'.")
    return text


def _ascii(text: object) -> str:
    safe = ascii(text)
    return safe if len(safe) <= 80 else safe[:77] + "..."


EnvCreator: TypeAlias = "Callable[..., Env[Any, Any]]"
VectorEnvCreator: TypeAlias = "Callable[..., VectorEnv[Any, Any, Any]]"

_CODE = ("id", "entry_point", "vector_entry_point")
# The packages that export the classes of paddock's own that specs name.
_EXPORTERS = ("paddock.wrappers.vector", "paddock.wrappers", "paddock.envs", "paddock.agentic.envs", "paddock.sources")
# Python's id() of specs whose code can't be changed. They stay in the registry, so no other object gets the same id().
_sealed: set[int] = set()


@dataclass(eq=False)
class WrapperSpec:
    """A wrapper as data. ``kwargs`` is None when the wrapper's arguments were not recorded."""

    name: str
    entry_point: str
    kwargs: dict[str, Any] | None

    def __post_init__(self) -> None:
        self.entry_point = public_path(self.entry_point)

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return _same_fields(self, other)


@dataclass(eq=False)
class EnvSpec:
    """An environment as data; the field names, their order and the JSON are Gymnasium's.

    ``namespace``, ``name`` and ``version`` are read from ``id``. ``disable_env_checker`` means no validation.
    """

    id: str
    entry_point: EnvCreator | str | None = None
    reward_threshold: float | None = None
    nondeterministic: bool = False
    max_episode_steps: int | None = None
    order_enforce: bool = True
    disable_env_checker: bool = False
    kwargs: dict[str, Any] = field(default_factory=dict)
    namespace: str | None = field(init=False)
    name: str = field(init=False)
    version: int | None = field(init=False)
    additional_wrappers: tuple[WrapperSpec, ...] = field(default_factory=tuple)
    vector_entry_point: VectorEnvCreator | str | None = None

    def __post_init__(self) -> None:
        self.namespace, self.name, self.version = parse_id(self.id)

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return _same_fields(self, other)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CODE and id(self) in _sealed:
            raise RegistryConflict(
                f"{self.id!r} is built in: its {name} can't be set. Make a copy with another id: "
                f"dataclasses.replace(spec, id='me/{self.name}')."
            )
        super().__setattr__(name, value)

    def make(self, **kwargs: Any) -> Env[Any, Any]:
        """``paddock.make`` of this spec. ``disable_env_checker=True`` is Gymnasium's word for ``validate=False``."""
        import paddock  # through the root: `make` is above this layer

        unchecked = kwargs.pop("disable_env_checker", None)
        if unchecked is not None:
            kwargs.setdefault("validate", not unchecked)
        env: Env[Any, Any] = paddock.make(self, **kwargs)
        return env

    def to_json(self) -> str:
        """Gymnasium's JSON for specs. Entry points must be text, kwargs plain data."""
        from paddock.core.spec_json import encode_spec

        return encode_spec(self)

    @staticmethod
    def from_json(json_env_spec: str) -> EnvSpec:
        """The spec whose ``to_json`` is this text; anything else is one InvalidSpec."""
        from paddock.core.spec_json import decode_spec

        return decode_spec(json_env_spec)

    def pprint(
        self, disable_print: bool = False, include_entry_points: bool = False, print_all: bool = False
    ) -> str | None:
        """The fields as aligned lines, those at their default left out unless ``print_all``."""
        text = "\n".join(self._lines(include_entry_points, print_all))
        if disable_print:
            return text
        print(text)
        return None

    def _lines(self, include_entry_points: bool, print_all: bool) -> list[str]:
        lines = [f"id={self.id}"]
        if include_entry_points or print_all:
            lines.append(f"entry_point={self.entry_point}")
        plain = EnvSpec(self.id)
        for name in _HIDDEN_AT_DEFAULT:
            value = getattr(self, name)
            if print_all or value != getattr(plain, name):
                lines.append(f"{name}={value}")
        if self.additional_wrappers:
            wrappers = [f"\tname={entry.name}, kwargs={entry.kwargs}" for entry in self.additional_wrappers]
            lines += ["additional_wrappers=[", *wrappers, "]"]
        elif print_all:
            lines.append("additional_wrappers=[]")
        return lines


def _same_fields(one: object, other: object) -> bool:
    """Compare as data: what went through JSON has lists for tuples, and arrays do not compare with ``==``."""
    from paddock.core.spec_json import same_arguments  # when first used: specs are made without NumPy

    return type(one) is type(other) and same_arguments(vars(one), vars(other))


def seal(spec: EnvSpec) -> None:
    """Fix the code that a spec names. A copy can be changed."""
    _sealed.add(id(spec))


def entry_point_text(entry_point: Callable[..., Any] | str) -> str:
    """``module:attribute``. A class or function gets the text that would name it, whether or not that text loads."""
    if isinstance(entry_point, str):
        return entry_point
    module = getattr(entry_point, "__module__", "?")
    return f"{module}:{getattr(entry_point, '__qualname__', type(entry_point).__name__)}"


def public_path(entry_point: str) -> str:
    """Name paddock's own code by the package that exports it, so that specs outlive files. Other code stays as it is.

    >>> public_path("paddock.wrappers.some_file:TimeLimit")
    'paddock.wrappers:TimeLimit'
    """
    module, _, name = entry_point.partition(":")
    exporter = next((package for package in _EXPORTERS if module.startswith(f"{package}.")), module)
    return f"{exporter}:{name}" if name else entry_point


_HIDDEN_AT_DEFAULT = (
    "reward_threshold",
    "nondeterministic",
    "max_episode_steps",
    "order_enforce",
    "disable_env_checker",
    "kwargs",
)
