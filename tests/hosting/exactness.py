"""Whether two values are the same to the last bit: types, dtypes, the sign of zero and the payload of NaN."""

import struct

import numpy as np

from paddock.core.spec import EnvSpec
from paddock.spaces import Space


def assert_same(got, expected, path="value"):
    if type(got) is memoryview:  # rows that came before other parts of a body
        got = bytearray(got)
    assert type(got) is type(expected), f"{path}: {type(got)} is not {type(expected)}"
    if isinstance(expected, np.ndarray):
        assert got.dtype == expected.dtype and got.dtype.str == expected.dtype.str, path
        assert got.shape == expected.shape, path
        assert got.flags.writeable and got.flags.c_contiguous, path
        if expected.dtype.kind == "O":
            _assert_all(list(got.flat), list(expected.flat), path)
        else:
            assert got.tobytes() == expected.tobytes(), path
    elif isinstance(expected, (bytearray, np.str_, np.bytes_)):
        assert got == expected, path
    elif isinstance(expected, np.generic):
        assert got.tobytes() == expected.tobytes(), path
    elif isinstance(expected, float):
        assert struct.pack("<d", got) == struct.pack("<d", expected), path
    elif isinstance(expected, complex):
        assert_same([got.real, got.imag], [expected.real, expected.imag], path)
    elif isinstance(expected, (list, tuple)):
        _assert_all(got, expected, path)
    elif isinstance(expected, dict):
        _assert_all(list(got), list(expected), f"keys of {path}")
        _assert_all(list(got.values()), list(expected.values()), path)
    elif isinstance(expected, np.random.Generator):
        assert got.bit_generator.state == expected.bit_generator.state, path
    elif hasattr(expected, "__struct_fields__"):
        for name in expected.__struct_fields__:
            assert_same(getattr(got, name), getattr(expected, name), f"{path}.{name}")
    else:
        assert isinstance(expected, (type(None), bool, int, str, bytes, Space, EnvSpec)), path
        assert got == expected, path


def _assert_all(got, expected, path):
    assert len(got) == len(expected), path
    for i, (one, other) in enumerate(zip(got, expected, strict=True)):
        assert_same(one, other, f"{path}[{i}]")
