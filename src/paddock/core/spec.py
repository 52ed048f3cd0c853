"""EnvSpec: data that says what to make. Two specs that are equal make the same environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from paddock.core.ids import parse_id
from paddock.errors import RegistryConflict

if TYPE_CHECKING:
    from paddock.core.env import Env
    from paddock.core.vector_env import VectorEnv

EnvCreator: TypeAlias = "Callable[..., Env[Any, Any]]"
VectorEnvCreator: TypeAlias = "Callable[..., VectorEnv[Any, Any, Any]]"

_CODE = ("id", "entry_point", "vector_entry_point")
# Python's id() of specs whose code nobody may change. They stay in the registry, so that no other object gets the id.
_sealed: set[int] = set()


@dataclass(eq=False)
class WrapperSpec:
    """A wrapper as data. ``kwargs`` is None when the wrapper's arguments were not recorded."""

    name: str
    entry_point: str
    kwargs: dict[str, Any] | None

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
        """``paddock.make`` of this spec; ``disable_env_checker``, Gymnasium's word for no validation, is one too."""
        import paddock  # the public door: what stands behind it is above this layer

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
        for name in _SHOWN_UNLESS_DEFAULT:
            value = getattr(self, name)
            if print_all or value != getattr(plain, name):
                lines.append(f"{name}={value}")
        if self.additional_wrappers:
            lines += ["additional_wrappers=[", *map(_wrapper_line, self.additional_wrappers), "]"]
        elif print_all:
            lines.append("additional_wrappers=[]")
        return lines


def _same_fields(one: object, other: object) -> bool:
    """By their data: what went through JSON has lists for tuples, and arrays do not compare with ``==``."""
    from paddock.core.spec_values import same_arguments  # when first used: specs are made without NumPy

    return type(one) is type(other) and same_arguments(vars(one), vars(other))


def seal(spec: EnvSpec) -> None:
    """Let nobody change the code that a spec names; copies of it are free."""
    _sealed.add(id(spec))


def entry_point_text(entry_point: Callable[..., Any] | str) -> str:
    """``module:attribute``; a class or function is named as its text form would be, whether or not that loads."""
    if isinstance(entry_point, str):
        return entry_point
    module = getattr(entry_point, "__module__", "?")
    return f"{module}:{getattr(entry_point, '__qualname__', type(entry_point).__name__)}"


_SHOWN_UNLESS_DEFAULT = (
    "reward_threshold",
    "nondeterministic",
    "max_episode_steps",
    "order_enforce",
    "disable_env_checker",
    "kwargs",
)


def _wrapper_line(entry: WrapperSpec) -> str:
    return f"\tname={entry.name}, kwargs={entry.kwargs}"
