"""Snapshots: lanes' states and random streams as bytes. They may come from anywhere: typed, bounded, never pickled."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import numpy as np

from paddock.errors import InvalidKernel, InvalidSnapshot
from paddock.kernels.kernel import Kernel
from paddock.kernels.lanes import Lanes

MAX_BYTES = 1 << 20
MAX_BYTES_PER_LANE = 1 << 16


class _Random(msgspec.Struct, forbid_unknown_fields=True):
    state: bytes  # 16 bytes, little endian
    increment: bytes
    has_half: bool
    half: int


class _Lane(msgspec.Struct, forbid_unknown_fields=True, tag="paddock.lane.1"):
    kernel: bytes
    state: list[bytes] | None
    random: _Random


def encode_lane(kernel: Kernel, params: Any, state: Any, generator: np.random.Generator) -> bytes:
    """One lane as bytes."""
    columns = kernel.layout(params).state
    fields = None
    if state is not None:
        fields = [np.asarray(value, c.dtype).tobytes() for c, value in zip(columns, state, strict=True)]
    return msgspec.msgpack.encode(_Lane(_identity(kernel, params), fields, _encode_random(generator)))


def decode_lane(kernel: Kernel, params: Any, snapshot: bytes) -> tuple[Any, np.random.Generator]:
    """The state and generator in a snapshot of this kernel under these params."""
    lane = _decode(snapshot, _Lane, MAX_BYTES)
    if lane.kernel != _identity(kernel, params):
        raise InvalidSnapshot("This snapshot is of another environment, or of one with other parameters.")
    state = None if lane.state is None else _decode_state(kernel, params, lane.state)
    return state, _decode_random(lane.random)


class _Lanes(msgspec.Struct, forbid_unknown_fields=True, tag="paddock.lanes.1"):
    kernel: bytes
    columns: dict[str, bytes]
    random: list[_Random]


# What a batch carries from one step to the next; the next step writes the rest.
_CARRIED = ("ended", "steps", "returns", "episodes", "reward", "terminated", "truncated")


def encode_lanes(lanes: Lanes) -> bytes:
    """All lanes as bytes."""
    kernel, params = lanes.kernel, lanes.params
    columns = {name: lanes.columns[name].tobytes() for name in _carried_columns(lanes)}
    states = [lanes.get_state(lane) for lane in range(lanes.count)]
    for column in lanes.layout.state:
        rows = np.array([getattr(state, column.name) for state in states], column.dtype)
        columns[f"state_{column.name}"] = rows.tobytes()
    random = [_encode_random(lanes.generator(lane)) for lane in range(lanes.count)]
    return msgspec.msgpack.encode(_Lanes(_identity(kernel, params), columns, random))


def decode_lanes(lanes: Lanes, snapshot: bytes) -> None:
    """Put a snapshot into lanes of the same kernel, params and number; anything else changes nothing."""
    message = _decode(snapshot, _Lanes, MAX_BYTES_PER_LANE * lanes.count + MAX_BYTES)
    if message.kernel != _identity(lanes.kernel, lanes.params):
        raise InvalidSnapshot("This snapshot is of another environment, or of one with other parameters.")
    names = [*_carried_columns(lanes), *(f"state_{c.name}" for c in lanes.layout.state)]
    if sorted(message.columns) != sorted(names) or len(message.random) != lanes.count:
        raise InvalidSnapshot(f"This snapshot does not hold {lanes.count} lanes of this environment.")
    arrays: dict[str, Any] = {}
    for name in names:
        raw, like = message.columns[name], lanes.columns[name]
        if len(raw) != like.nbytes or (like.dtype.kind == "b" and set(raw) - {0, 1}):
            raise InvalidSnapshot(f"The column {name} in this snapshot does not fit {lanes.count} lanes.")
        arrays[name] = np.frombuffer(raw, like.dtype).reshape(like.shape)
    fields = [arrays[f"state_{c.name}"] for c in lanes.layout.state]
    states = [
        _check_state(lanes.kernel, lanes.params, [_value(rows[lane]) for rows in fields]) for lane in range(lanes.count)
    ]
    generators = [_decode_random(one) for one in message.random]
    for name in _carried_columns(lanes):
        lanes.columns[name][...] = arrays[name]
    for lane, (state, generator) in enumerate(zip(states, generators, strict=True)):
        lanes.set_state(lane, state)
        lanes.use_generator(lane, generator)


def _carried_columns(lanes: Lanes) -> list[str]:
    observations = [f"obs_{at}" for at in range(len(lanes.layout.observation))]
    return [*_CARRIED, *observations, *(f"info_{c.name}" for c in lanes.layout.info)]


def _value(row: Any) -> Any:
    return row.copy() if isinstance(row, np.ndarray) and row.ndim else row.item()


def _check_state(kernel: Kernel, params: Any, values: list[Any]) -> Any:
    try:
        return kernel.check_state(kernel.state_type(*values), params)
    except InvalidKernel as error:
        raise InvalidSnapshot(str(error)) from None


def _decode(snapshot: Any, kind: Any, limit: int) -> Any:
    if not isinstance(snapshot, (bytes, bytearray, memoryview)):
        raise InvalidSnapshot(f"A snapshot is bytes, got {type(snapshot).__name__}.")
    if len(snapshot) > limit:
        raise InvalidSnapshot(f"A snapshot of {len(snapshot)} bytes is larger than {limit}.")
    try:
        return msgspec.msgpack.decode(snapshot, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidSnapshot(f"Not a snapshot of this kind of environment: {error}.") from None


def _decode_state(kernel: Kernel, params: Any, fields: list[bytes]) -> Any:
    columns = kernel.layout(params).state
    if len(fields) != len(columns):
        raise InvalidSnapshot(f"This snapshot has {len(fields)} state fields, expected {len(columns)}.")
    values = []
    for column, raw in zip(columns, fields, strict=True):
        if len(raw) != column.dtype.itemsize * max(column.size, 1):
            raise InvalidSnapshot(f"The state field {column.name} has {len(raw)} bytes in this snapshot.")
        if column.dtype.kind == "b" and set(raw) - {0, 1}:
            raise InvalidSnapshot(f"The state field {column.name} is neither true nor false in this snapshot.")
        array = np.frombuffer(raw, column.dtype).reshape(column.shape).copy()
        values.append(array if column.shape else array.item())
    return _check_state(kernel, params, values)


def _identity(kernel: Kernel, params: Any) -> bytes:
    """Which dynamics a snapshot belongs to: the state's fields, and the params with their values."""
    fields = [(c.name, c.dtype.str, c.shape) for c in kernel.layout(params).state]
    digest = hashlib.sha256(repr((kernel.step.__qualname__, fields)).encode())
    for name, value in zip(params._fields, params, strict=True):
        digest.update(name.encode() + (value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()))
    return digest.digest()


def _encode_random(generator: np.random.Generator) -> _Random:
    state = generator.bit_generator.state
    if state.get("bit_generator") != "PCG64":
        raise InvalidSnapshot(f"Only PCG64 streams have snapshots, this one is {state.get('bit_generator')}.")
    numbers = state["state"]
    return _Random(
        numbers["state"].to_bytes(16, "little"),
        numbers["inc"].to_bytes(16, "little"),
        bool(state["has_uint32"]),
        int(state["uinteger"]),
    )


def _decode_random(fields: _Random) -> np.random.Generator:
    increment = int.from_bytes(fields.increment, "little")
    if len(fields.state) != 16 or len(fields.increment) != 16 or not increment & 1 or not 0 <= fields.half < 1 << 32:
        raise InvalidSnapshot("The random stream in this snapshot is malformed.")
    bits = np.random.PCG64(0)
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": int.from_bytes(fields.state, "little"), "inc": increment},
        "has_uint32": int(fields.has_half),
        "uinteger": fields.half,
    }
    return np.random.Generator(bits)
