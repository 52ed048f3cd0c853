"""Snapshots of tool environments in plain Python, as bytes that go to any distance. Nothing is pickled.

What a snapshot may hold is a closed list: plain data, and objects of the environment's own classes, with who refers to
whom. Anything else is refused by its place. A snapshot has the environment's private state: it is not for agents.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import re
import sys
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from copyreg import __newobj__ as newobj  # type: ignore[attr-defined]
from types import FunctionType
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from paddock.core.problem import kind
from paddock.core.state import open_snapshot, seal_snapshot
from paddock.errors import InvalidSnapshot, SnapshotUnsupported

if TYPE_CHECKING:
    from paddock.agentic.env import ToolEnv

_LAYER = "tools"
# Known to every environment of this class, or made again: no snapshot has them.
NOT_STATE = frozenset(
    {"action_space", "observation_space", "spec", "render_mode", "metadata", "tasks", "servers", "task", "rubric"}
    | {"tools", "_thread", "_grader", "_links"}
)
_TEXTS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    complex: (lambda v: [v.real, v.imag], lambda v: complex(*v)),
    range: (lambda v: [v.start, v.stop, v.step], lambda v: range(*v)),
    bytearray: (bytes, bytearray),
    datetime.datetime: (datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    datetime.date: (datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.timedelta: (lambda v: [v.days, v.seconds, v.microseconds], lambda v: datetime.timedelta(*v)),
    decimal.Decimal: (str, decimal.Decimal),
    fractions.Fraction: (str, fractions.Fraction),
    uuid.UUID: (str, uuid.UUID),
    pathlib.PurePosixPath: (str, pathlib.PurePosixPath),
    pathlib.PosixPath: (str, pathlib.PosixPath),
    re.Pattern: (lambda v: [v.pattern, v.flags], lambda v: re.compile(*v)),
    int: (hex, lambda v: int(v, 16)),  # of more than 64 bits
}
_TEXT_NAMES = {cls.__name__: cls for cls in _TEXTS}
_FACTORIES = {cls.__name__: cls for cls in (list, dict, set, int, float, str)}
_DICTS: dict[str, type] = {cls.__name__: cls for cls in (dict, OrderedDict, Counter)}
_OURS = ("paddock.agentic.messages", "paddock.agentic.tasks", "paddock.agentic.rubrics.rubric", "paddock.agentic.envs")
_ARRAYS = frozenset("biufcSUmM")  # kinds of arrays whose elements are not objects


def save(env: ToolEnv) -> bytes:
    """Return the state of an environment; SnapshotUnsupported names what can't be copied."""
    if env.servers:
        raise SnapshotUnsupported(f"{type(env).__name__} can't be saved: part of its state is in its MCP servers.")
    if env._thread.busy or env._grader.busy:
        raise SnapshotUnsupported(f"{type(env).__name__} can't be saved while a tool that timed out still runs.")
    writer = _Writer(env)
    state = {name: value for name, value in vars(env).items() if name not in NOT_STATE | {*env.constants}}
    root = writer.node({"state": state, "rubric": _rubric_memory(env.rubric)}, "")
    writer.fill()
    task = env.task.public() if "task" in vars(env) else None
    try:
        return seal_snapshot(_LAYER, [_class_name(type(env)), task, root, writer.table], b"")
    except (UnicodeEncodeError, RecursionError) as error:  # a lone surrogate is not text
        raise SnapshotUnsupported(f"{type(env).__name__} can't be saved: {error}.") from None


def restore(env: ToolEnv, snapshot: bytes) -> None:
    """Go on from what ``save`` returned for such an environment; refuse anything else and change nothing."""
    parts, _ = open_snapshot(_LAYER, snapshot, tuple[str, Any, Any, list[list[Any]]])
    name, task, root, table = parts
    if name != _class_name(type(env)):
        raise InvalidSnapshot(f"This is a snapshot of {ascii(name)[:80]}, expected one of {_class_name(type(env))}.")
    try:
        place = _Reader(env, table).peek_place(root)
        chosen = None if task is None else env.tasks.get(place["split"], place["index"])
        if chosen is not None and msgspec.to_builtins(chosen.public()) != task:
            raise InvalidSnapshot(f"The task {place} of this snapshot is another one here: the tasks have changed.")
        found = _Reader(env, table, chosen).read(root)
        state, memory = found["state"], found["rubric"]
        present = vars(env)
        for key in state:
            if not isinstance(key, str) or key.startswith("__") or key in NOT_STATE or key in env.constants:
                raise InvalidSnapshot(f"The attribute {ascii(key)[:60]} is not part of a snapshot.")
            if key not in present and isinstance(getattr(type(env), key, None), (FunctionType, property)):
                raise InvalidSnapshot(f"The attribute {ascii(key)[:60]} in this snapshot would hide a method.")
        rubric = env._new_rubric()
        named = dict(_named(rubric))
        if memory.keys() != named.keys():
            raise InvalidSnapshot("The rubric of this snapshot has other parts than the one here.")
    except InvalidSnapshot:
        raise
    except Exception as error:  # whatever a made-up snapshot leads to
        raise InvalidSnapshot(f"Not a snapshot of {type(env).__name__}: {type(error).__name__}.") from error
    for key in [key for key in present if key not in NOT_STATE and key not in env.constants and key not in state]:
        del present[key]
    present.update(state)
    if chosen is not None:
        env.task = chosen
    if rubric is not None:
        env.rubric = rubric
        for part, remembered in memory.items():
            vars(named[part]).update(remembered)
    env._settle_threads()


# ── Rubrics: the tree is made again by the environment; what each part remembers is data. ──


def _named(rubric: Any) -> Iterator[tuple[str, Any]]:
    if rubric is not None:
        yield "", rubric
        yield from rubric.named_rubrics()


def _rubric_memory(rubric: Any) -> dict[str, dict[str, Any]]:
    """Return what each part remembers. Its children, hooks and functions are settings."""
    return {
        name: {
            key: value
            for key, value in vars(part).items()
            if key not in ("_children", "_forward_hooks", "_forward_pre_hooks")
            and not callable(value)
            and not _holds_rubrics(value)
        }
        for name, part in _named(rubric)
    }


def _holds_rubrics(value: Any) -> bool:
    from paddock.agentic.rubrics import Rubric

    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else (value,)
    return any(isinstance(part, Rubric) for part in parts)


# ── Values: a table of objects that refer to each other by number, so what was shared stays shared. ──
#
# A node is a number, text, bytes, None, or [n] for the n-th object.


class _Writer:
    def __init__(self, env: ToolEnv) -> None:
        self._env = env
        self.table: list[Any] = []
        self._known: dict[int, int] = {}
        self._waiting: deque[tuple[int, Any, str]] = deque()
        self._alive: list[Any] = []  # an id must not be used twice

    def node(self, value: Any, path: str) -> Any:
        if value is None or type(value) in (bool, float, str, bytes):
            return value
        if type(value) is int and -(1 << 63) <= value < 1 << 63:
            return value
        if id(value) not in self._known:
            self._known[id(value)] = len(self.table)
            self._waiting.append((len(self.table), value, path))
            self._alive.append(value)
            self.table.append(None)
        return [self._known[id(value)]]

    def fill(self) -> None:
        while self._waiting:  # not by recursion: a linked list may be long
            at, value, path = self._waiting.popleft()
            self.table[at] = self._entry(value, path)

    def _entry(self, value: Any, path: str) -> list[Any]:
        cls, name = type(value), type(value).__name__
        if value is self._env:
            return ["env"]
        if value is vars(self._env).get("task"):  # found again by its place: what it hides stays here
            return ["task"]
        if cls in (list, tuple, set, frozenset):
            return [name, self._items(value, path)]
        if cls is deque:
            return [name, self._items(value, path), value.maxlen]
        if cls in _DICTS.values():
            return [name, self._pairs(value, path)]
        if cls is defaultdict and getattr(value.default_factory, "__name__", "") in _FACTORIES:
            return [name, self._pairs(value, path), value.default_factory.__name__]
        if cls in _TEXTS and getattr(value, "tzinfo", None) is None:
            return ["text", name, _TEXTS[cls][0](value)]
        if cls is np.ndarray and value.dtype.kind in _ARRAYS:
            return ["array", value.dtype.str, list(value.shape), value.tobytes()]
        if isinstance(value, np.generic) and value.dtype.kind in _ARRAYS:
            return ["scalar", value.dtype.str, value.tobytes()]
        if cls is np.random.Generator:
            bits = value.bit_generator
            return ["generator", type(bits).__name__, self.node(bits.state, f"{path}.bit_generator.state")]
        if _class_name(cls) == "random:Random":
            return ["random", self.node(value.getstate(), path)]
        return self._instance(value, cls, path)

    def _instance(self, value: Any, cls: type, path: str) -> list[Any]:
        if not _may_copy(cls, self._env):
            self._refuse(value, path)
        name = _class_name(cls)
        if isinstance(value, enum.Enum):
            return ["enum", name, value.name]
        if isinstance(value, msgspec.Struct):
            fields = {field: getattr(value, field) for field in value.__struct_fields__}
            return ["struct", name, self._pairs(fields, path, dot=True)]
        if isinstance(value, tuple) and hasattr(cls, "_fields"):
            return ["named", name, self._items(value, path)]
        own = {"__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__del__"} & {
            attribute for part in cls.__mro__[:-1] for attribute in vars(part)
        }
        if own and not dataclasses.is_dataclass(cls):  # slots and frozen bring a __getstate__ of dataclasses' own
            self._refuse(value, path, f"has a {min(own)} of its own")
        try:  # Python refuses what has state in C
            made, arguments, state, items, pairs = (*object.__reduce_ex__(value, 2), None, None)[:5]
        except TypeError:
            self._refuse(value, path)
        if made is not newobj or arguments != (cls,) or items or pairs:
            self._refuse(value, path)
        if dataclasses.is_dataclass(cls) and own:
            state = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        both = state if isinstance(state, tuple) else (state,)
        fields = {key: one for part in both if part for key, one in part.items()}
        return ["object", name, self._pairs(fields, path, dot=True)]

    def _items(self, values: Any, path: str) -> list[Any]:
        return [self.node(value, f"{path}[{at}]") for at, value in enumerate(values)]

    def _pairs(self, values: dict[Any, Any], path: str, *, dot: bool = False) -> list[list[Any]]:
        return [
            [self.node(key, f"a key of {path}"), self.node(value, _below(path, key, dot))]
            for key, value in values.items()
        ]

    def _refuse(self, value: Any, path: str, why: str = "") -> Any:
        cls, env = type(value), type(self._env).__name__
        what = f"{path.removeprefix('state.')} is {kind(value)} of {cls.__module__}"
        raise SnapshotUnsupported(
            f"{env} can't be saved: {what}{f', which {why}' if why else ''}. A snapshot has plain data, and objects of "
            f"the environment's own modules whose attributes are all there is to them. Name what all copies may share "
            f"in {env}.constants, and classes of other libraries in {env}.plain_classes."
        )


def _below(path: str, key: Any, dot: bool) -> str:
    if path in ("", "state") or dot:
        return f"{path}.{key}" if path else str(key)
    return f"{path}[{str(key)[:40]!r}]"


class _Reader:
    """Makes the objects of a table again. What refers to others is filled when all are there."""

    def __init__(self, env: ToolEnv, table: list[list[Any]], task: Any = None) -> None:
        self._env, self._table, self._task = env, table, task
        self._made: dict[int, Any] = {}
        self._fill: deque[Callable[[], Any]] = deque()
        self._hashed: list[Callable[[], Any]] = []  # last: what is hashed must be whole

    def peek_place(self, root: Any) -> Any:
        """Return the split and index of the task, before anything else is made."""

        def find(node: Any, name: str) -> Any:
            return dict(map(tuple, self._table[node[0]][1])).get(name)

        place = find(find(root, "state"), "_place")
        return {} if place is None else dict(map(tuple, self._table[place[0]][1]))

    def read(self, root: Any) -> Any:
        value = self._value(root)
        self._drain()
        for fill in reversed(self._hashed):
            fill()
        return value

    def _drain(self) -> None:
        while self._fill:
            self._fill.popleft()()

    def _value(self, node: Any) -> Any:
        if type(node) is not list:
            return node
        (at,) = node
        if at not in self._made:
            tag, *rest = self._table[at]
            self._made[at] = getattr(self, f"_read_{tag}")(*rest)
        return self._made[at]

    def _values(self, nodes: list[Any]) -> list[Any]:
        return [self._value(node) for node in nodes]

    def _later(self, shell: Any, fill: Callable[[], Any]) -> Any:
        self._fill.append(fill)
        return shell

    def _read_env(self) -> Any:
        return self._env

    def _read_task(self) -> Any:
        return self._task

    def _read_list(self, nodes: list[Any]) -> Any:
        made: list[Any] = []
        return self._later(made, lambda: made.extend(self._values(nodes)))

    def _read_deque(self, nodes: list[Any], most: int | None) -> Any:
        made: deque[Any] = deque(maxlen=most)
        return self._later(made, lambda: made.extend(self._values(nodes)))

    def _read_tuple(self, nodes: list[Any]) -> Any:
        return tuple(self._values(nodes))

    def _read_frozenset(self, nodes: list[Any]) -> Any:
        values = self._values(nodes)
        self._drain()
        return frozenset(values)

    def _read_set(self, nodes: list[Any]) -> Any:
        made: set[Any] = set()

        def fill() -> None:
            values = self._values(nodes)
            self._hashed.append(lambda: made.update(values))

        return self._later(made, fill)

    def _read_dict(self, pairs: list[Any], made: Any = None) -> Any:
        made = {} if made is None else made

        def fill() -> None:
            found = [(self._value(key), self._value(value)) for key, value in pairs]
            self._hashed.append(lambda: dict.update(made, found))

        return self._later(made, fill)

    def _read_OrderedDict(self, pairs: list[Any]) -> Any:  # noqa: N802 - the class's name
        made: Any = OrderedDict()

        def fill() -> None:
            found = [(self._value(key), self._value(value)) for key, value in pairs]
            self._hashed.append(lambda: made.update(found))

        return self._later(made, fill)

    def _read_Counter(self, pairs: list[Any]) -> Any:  # noqa: N802
        return self._read_dict(pairs, Counter())

    def _read_defaultdict(self, pairs: list[Any], factory: str) -> Any:
        return self._read_dict(pairs, defaultdict(_FACTORIES[factory]))

    def _read_text(self, name: str, plain: Any) -> Any:
        return _TEXTS[_TEXT_NAMES[name]][1](plain)

    def _read_array(self, dtype: str, shape: list[int], raw: bytes) -> Any:
        return np.frombuffer(raw, _plain_dtype(dtype)).reshape(shape).copy()

    def _read_scalar(self, dtype: str, raw: bytes) -> Any:
        return np.frombuffer(raw, _plain_dtype(dtype))[0]

    def _read_generator(self, name: str, state: Any) -> Any:
        bits = {"PCG64": np.random.PCG64, "PCG64DXSM": np.random.PCG64DXSM, "Philox": np.random.Philox}[name](0)
        found = _Reader(self._env, self._table).read(state)
        bits.state = found
        return np.random.Generator(bits)

    def _read_random(self, state: Any) -> Any:
        made = sys.modules["random"].Random()  # a stream of the environment's own, seeded by its state
        made.setstate(_Reader(self._env, self._table).read(state))
        return made

    def _read_enum(self, name: str, member: str) -> Any:
        return self._find(name, enum.Enum)[member]

    def _read_named(self, name: str, nodes: list[Any]) -> Any:
        return tuple.__new__(self._find(name, tuple), self._values(nodes))

    def _read_struct(self, name: str, pairs: list[Any]) -> Any:
        cls = self._find(name, msgspec.Struct)
        fields = {key: self._value(value) for key, value in pairs}
        if cls.__struct_config__.frozen:
            self._drain()
        return cls(**fields)

    def _read_object(self, name: str, pairs: list[Any]) -> Any:
        cls = self._find(name, object)
        made = object.__new__(cls)

        def fill() -> None:
            for key, value in pairs:
                if not isinstance(key, str) or isinstance(getattr(cls, key, None), (FunctionType, property)):
                    raise InvalidSnapshot(f"{ascii(key)[:60]} is not an attribute of {name}.")
                object.__setattr__(made, key, self._value(value))

        return self._later(made, fill)

    def _find(self, name: str, kind_of: type) -> Any:
        """Return the class of that name, if the environment may have objects of it."""
        module, _, path = name.partition(":")
        methods = (one for part in type(self._env).__mro__ for one in vars(part).values())
        # A class that came by value, from a main program, is where the environment's own code looks for it.
        homes = [vars(sys.modules[module])] if module in sys.modules else []
        for home in [*homes, *(one.__globals__ for one in methods if type(one) is FunctionType)]:
            first, *others = path.split(".")
            found: Any = home.get(first)
            for one in others:
                found = getattr(found, one, None)
            ours = isinstance(found, type) and issubclass(found, kind_of) and _may_copy(found, self._env)
            if ours and _class_name(found) == name:
                return found
        env = type(self._env).__name__
        raise InvalidSnapshot(f"This snapshot has a {ascii(name)[:80]}, which is not a class of {env}'s own.")


def _plain_dtype(name: str) -> np.dtype[Any]:
    dtype = np.dtype(name)
    if dtype.kind not in _ARRAYS:
        raise InvalidSnapshot(f"An array of {ascii(name)[:40]} is not plain data.")
    return dtype


def _class_name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _may_copy(cls: type, env: ToolEnv) -> bool:
    """Whether it belongs to the environment's own modules, or the author said that it is plain."""
    if cls in env.plain_classes:
        return True
    if "<locals>" in cls.__qualname__ or issubclass(cls, (type, BaseException)):
        return False
    if any(cls.__module__ == ours or cls.__module__.startswith(f"{ours}.") for ours in _OURS):
        return True
    own = {part.__module__.partition(".")[0] for part in type(env).__mro__} - _NOT_OWN
    return cls.__module__.partition(".")[0] in own


_NOT_OWN = frozenset({"paddock", "builtins", "abc", "typing", "gymnasium"})
