"""What compiled kernels stand on: addresses as arrays, PCG64 on NumPy's own memory, and libm without shortcuts.

Imported only when something is compiled. The random state is laid out as NumPy lays out its PCG64, so that a single
environment's compiled lane draws from ``env.np_random`` itself, and lanes of a batch from words of the same form.
Functions that Numba compiles, or compares with what it compiles, carry no annotations: it would stumble over them.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, make_attribute_wrapper, models, overload, overload_method, register_model

from paddock.kernels import numeric

_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_I32, _I64, _I128 = ir.IntType(32), ir.IntType(64), ir.IntType(128)


@intrinsic
def pointer(typingctx: Any, address: Any) -> Any:
    """An integer as the address of memory, for ``carray``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), codegen


@intrinsic
def claim(typingctx: Any, address: Any) -> Any:
    """Put 1 at an address and return what was there: of several threads, one gets the 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = builder.inttoptr(args[0], _I64.as_pointer())
        return builder.atomic_rmw("xchg", at, ir.Constant(_I64, 1), "seq_cst")

    return types.int64(types.int64), codegen


class _LaneRngType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="LaneRng")


_rng_type = _LaneRngType()


@register_model(_LaneRngType)
class _LaneRngModel(models.StructModel):
    def __init__(self, manager: Any, type_: Any) -> None:
        super().__init__(manager, type_, [("address", types.int64)])


make_attribute_wrapper(_LaneRngType, "address", "address")


@intrinsic
def rng_at(typingctx: Any, address: Any) -> Any:
    """The generator whose state lies at an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(_rng_type)(context, builder)
        proxy.address = args[0]
        return proxy._getvalue()

    return _rng_type(types.int64), codegen


@intrinsic
def _next64(typingctx: Any, address: Any) -> Any:
    """PCG64: state * multiplier + increment, then XSL-RR of it. NumPy's struct: a pointer, then 32-bit halves."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = builder.load(builder.inttoptr(args[0], _I64.as_pointer()))
        at_state = builder.inttoptr(where, _I128.as_pointer())
        at_increment = builder.inttoptr(builder.add(where, ir.Constant(_I64, 16)), _I128.as_pointer())
        product = builder.mul(builder.load(at_state, align=8), ir.Constant(_I128, _MULTIPLIER))
        state = builder.add(product, builder.load(at_increment, align=8))
        builder.store(state, at_state, align=8)
        high = builder.trunc(builder.lshr(state, ir.Constant(_I128, 64)), _I64)
        mixed = builder.xor(high, builder.trunc(state, _I64))
        turn = builder.lshr(high, ir.Constant(_I64, 58))
        back = builder.and_(builder.sub(ir.Constant(_I64, 64), turn), ir.Constant(_I64, 63))
        return builder.or_(builder.lshr(mixed, turn), builder.shl(mixed, back))

    return types.uint64(types.int64), codegen


def _half(offset: int, *, store: bool) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = builder.inttoptr(builder.add(args[0], ir.Constant(_I64, offset)), _I32.as_pointer())
        if not store:
            return builder.load(at)
        builder.store(args[1], at)
        return context.get_dummy_value()

    return codegen


@intrinsic
def _has_half(typingctx: Any, address: Any) -> Any:
    return types.uint32(types.int64), _half(8, store=False)


@intrinsic
def _set_has_half(typingctx: Any, address: Any, value: Any) -> Any:
    return types.void(types.int64, types.uint32), _half(8, store=True)


@intrinsic
def _kept_half(typingctx: Any, address: Any) -> Any:
    return types.uint32(types.int64), _half(12, store=False)


@intrinsic
def _keep_half(typingctx: Any, address: Any, value: Any) -> Any:
    return types.void(types.int64, types.uint32), _half(12, store=True)


@njit
def _next32(address):
    # The low half of a 64-bit draw first; the high half waits in the generator for the next 32-bit draw.
    if _has_half(address) != 0:
        _set_has_half(address, np.uint32(0))
        return np.uint64(_kept_half(address))
    drawn = _next64(address)
    _set_has_half(address, np.uint32(1))
    _keep_half(address, np.uint32(drawn >> np.uint64(32)))
    return drawn & np.uint64(0xFFFFFFFF)


@njit
def _random(address):
    return (_next64(address) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit
def _integers(address, low, high):
    # Lemire's method on 32-bit draws, as NumPy's; a range of one draws nothing.
    span = np.uint64(high - low)
    if span <= np.uint64(1):
        return low
    product = _next32(address) * span
    left = product & np.uint64(0xFFFFFFFF)
    if left < span:
        threshold = (np.uint64(1 << 32) - span) % span
        while left < threshold:
            product = _next32(address) * span
            left = product & np.uint64(0xFFFFFFFF)
    return low + np.int64(product >> np.uint64(32))


@overload_method(_LaneRngType, "random")
def _method_random(self):
    return lambda self: _random(self.address)


@overload_method(_LaneRngType, "uniform")
def _method_uniform(self, low, high):
    return lambda self, low, high: low + (high - low) * _random(self.address)


@overload_method(_LaneRngType, "integers")
def _method_integers(self, low, high):
    return lambda self, low, high: _integers(self.address, np.int64(low), np.int64(high))


@overload_method(_LaneRngType, "choice")
def _method_choice(self, options):
    return lambda self, options: options[_integers(self.address, np.int64(0), np.int64(len(options)))]


def _libm(name: str, symbol: str, signature: Any) -> Any:
    # Under its own name LLVM knows pow and folds pow(x, 2) into x*x, which is another number in its last bit.
    library = ctypes.CDLL(ctypes.util.find_library("m") or None)
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    llvmlite.binding.add_symbol(symbol, address)
    return types.ExternalFunction(symbol, signature)


_pow = _libm("pow", "paddock_pow", types.float64(types.float64, types.float64))
_powf = _libm("powf", "paddock_powf", types.float32(types.float32, types.float32))


@overload(numeric.power)
def _compiled_power(x, y):
    return lambda x, y: _pow(float(x), float(y))


@overload(numeric.power32)
def _compiled_power32(x, y):
    return lambda x, y: float(_powf(np.float32(x), np.float32(y)))


@overload(numeric.f32)
def _compiled_f32(x):
    return lambda x: float(np.float32(x))


@intrinsic
def _fma32(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float32(types.float32, types.float32, types.float32), codegen


# NumPy's polynomials for float32: highest power first.
_COSINE = np.array(
    [float.fromhex(c) for c in ("0x1.98e616p-16", "-0x1.6c06dcp-10", "0x1.55553cp-05", "-0x1p-01", "0x1p+00")],
    np.float32,
)
_SINE = np.array(
    [float.fromhex(c) for c in ("0x1.7d3bbcp-19", "-0x1.a06bbap-13", "0x1.11119ap-07", "-0x1.555556p-03")], np.float32
)


@njit
def _cos32(x):
    square = x * x
    sum_ = _COSINE[0]
    for at in range(1, 5):
        sum_ = _fma32(sum_, square, _COSINE[at])
    return sum_


@njit
def _sin32(x):
    square = x * x
    sum_ = _SINE[0]
    for at in range(1, 4):
        sum_ = _fma32(sum_, square, _SINE[at])
    sum_ = sum_ * square
    return _fma32(sum_, x, x)


@overload(numeric.cos32)
def _compiled_cos32(x):
    return lambda x: float(_cos32(np.float32(x)))


@overload(numeric.sin32)
def _compiled_sin32(x):
    return lambda x: float(_sin32(np.float32(x)))
