"""The loop over lanes, as source text, generated for a kernel's layout.

One body serves twice: compiled, after lines that turn a block of addresses into arrays, and as plain Python where
Numba is missing. So lanes in Python and compiled lanes can't drift apart.
"""

from __future__ import annotations

from paddock.kernels.layout import Column, Layout
from paddock.kernels.rng import STRIDE

VALIDATE_AND_STEP, RESET, VALIDATE, STEP = range(4)
NEXT_STEP, SAME_STEP, DISABLED, FREE = range(4)  # FREE: one lane whose owner decides when an episode ends
ENDED = -(1 << 40)  # below it, a lane that must be reset first; above it and below 0, a lane with a bad action

SCALARS = ("op", "lanes", "mode", "limit", "strict", "statistics", "rngs")
COUNTERS = (
    ("mask", "bool_"),
    ("reward", "float64"),
    ("terminated", "bool_"),
    ("truncated", "bool_"),
    ("ended", "bool_"),
    ("steps", "int64"),
    ("returns", "float64"),
    ("last_return", "float64"),
    ("last_length", "int64"),
    ("episodes", "int64"),
)


def columns(layout: Layout) -> list[tuple[str, Column]]:
    """Every array with a lane axis beside the counters: its name in the source, and its column."""
    named = [(f"state_{c.name}", c) for c in layout.state]
    for prefix in ("", "final_"):
        named += [(f"{prefix}obs_{at}", c) for at, c in enumerate(layout.observation)]
        named += [(f"{prefix}info_{c.name}", c) for c in layout.info]
    return [("action", layout.action), *named]


def compiled_source(layout: Layout) -> str:
    """``run(address)``: unpack the block, then the body."""
    lines = ["def run(address):", f"    block = carray(pointer(address), ({block_size(layout)},), int64)"]
    lines += [f"    {name} = block[{at}]" for at, name in enumerate(SCALARS)]
    slot = len(SCALARS)
    for name, dtype in COUNTERS:
        lines.append(f"    {name} = carray(pointer(block[{slot}]), (lanes,), {dtype})")
        slot += 1
    for name, column in columns(layout):
        shape = f"(lanes, {column.size})" if column.shape else "(lanes,)"
        lines.append(f"    {name} = carray(pointer(block[{slot}]), {shape}, {_dtype(column)})")
        slot += 1
    bound = "int64" if not layout.action.shape else "float64"
    for name in ("action_low", "action_high"):
        lines.append(f"    {name} = carray(pointer(block[{slot}]), ({max(layout.action.size, 1)},), {bound})")
        slot += 1
    words = sum(1 + len(column.shape) for column in layout.params)
    lines.append(f"    params = {_params(layout, slot)}")
    text = "\n".join([*lines, *_body(layout, compiled=True), ""])
    return text.replace("START", _params(layout, slot + words))


def python_source(layout: Layout) -> str:
    """``run(...)`` over arrays, with the states in a list: what runs where Numba is missing."""
    names = [*SCALARS, *(name for name, _ in COUNTERS)]
    names += [name for name, _ in columns(layout) if not name.startswith("state_")]
    header = f"def run({', '.join([*names, 'action_low', 'action_high', 'params', 'start', 'states'])}):"
    return "\n".join([header, *_body(layout, compiled=False), ""]).replace("START", "start")


def _params(layout: Layout, slot: int) -> str:
    fields = []
    for column in layout.params:
        dims = [f"block[{slot + 1 + axis}]" for axis in range(len(column.shape))]
        array = f"carray(pointer(block[{slot}]), ({', '.join(dims) or 1},), {_dtype(column)})"
        fields.append(array if dims else f"{array}[0]")
        slot += 1 + len(dims)
    return f"Params({', '.join(fields)})"


def block_size(layout: Layout) -> int:
    """How many 64-bit words the block of addresses has."""
    params = sum(1 + len(column.shape) for column in layout.params)
    return len(SCALARS) + len(COUNTERS) + len(columns(layout)) + 2 + 2 * params


def _body(layout: Layout, *, compiled: bool) -> list[str]:
    # In compiled code a new state's scalars are held in local variables of the column's type until all is known, and
    # stored once: a float that an author returns as int has one type on every path, and nothing is read back at once.
    rng, load, new = "rngs[i]", "states[i]", "new"
    take, keep = ["new = state"], ["states[i] = new"]
    if compiled:
        rng = f"rng_at(rngs + {STRIDE} * i)"
        load = f"State({', '.join(f'state_{c.name}[i]' for c in layout.state)})"
        new = f"State({', '.join(f'state_{c.name}[i]' if c.shape else f'new_{c.name}' for c in layout.state)})"
        scalars = [column for column in layout.state if not column.shape]
        take = [f"new_{c.name} = {_CASTS[c.dtype.kind]}(state.{c.name})" for c in scalars]
        take += [line for c in layout.state if c.shape for line in _store(f"state_{c.name}", c, f"state.{c.name}")]
        keep = [f"state_{c.name}[i] = new_{c.name}" for c in scalars]
    text = _TEMPLATE
    for name, lines in {
        "BEGUN": [*take, "steps[i] = 0", "returns[i] = 0.0", "episodes[i] += 1"],
        "TAKE": take,
        "VALIDATE": _validate(layout.action),
        "KEEP": keep,
        "OBSERVE": [f"state = {new}", *_observe(layout, ""), *_inform(layout, "")],
        "FINAL": [f"state = {new}", *_observe(layout, "final_"), *_inform(layout, "final_")],
    }.items():
        text = _fill(text, name, lines)
    return text.replace("RNG", rng).replace("LOAD", load).replace("ACTION", _action(layout.action)).splitlines()


_CASTS = {"f": "float", "i": "int", "b": "bool"}
_TEMPLATE = f"""\
    if op == {RESET}:
        for i in range(lanes):
            if mask[i]:
                rng = RNG
                state = initial(rng, START)
                @BEGUN
                ended[i] = False
                reward[i] = 0.0
                terminated[i] = False
                truncated[i] = False
                @KEEP
                @OBSERVE
        return 0
    if op != {STEP}:
        for i in range(lanes):
            @VALIDATE
        if mode == {DISABLED}:
            for i in range(lanes):
                if ended[i] and mask[i]:
                    return {ENDED} - i
    if op == {VALIDATE}:
        return 0
    count = 0
    for i in range(lanes):
        if not mask[i]:
            reward[i] = 0.0
            terminated[i] = False
            truncated[i] = False
            continue
        rng = RNG
        if ended[i]:
            state = initial(rng, params)
            @BEGUN
            ended[i] = False
            reward[i] = 0.0
            terminated[i] = False
            truncated[i] = False
        else:
            state, gain, done = step(LOAD, ACTION, rng, params)
            @TAKE
            taken = steps[i] + 1
            late = limit > 0 and taken >= limit
            steps[i] = taken
            if statistics:
                returns[i] += gain
            reward[i] = gain
            terminated[i] = done
            truncated[i] = late
            if (done or late) and mode != {FREE}:
                count += 1
                last_return[i] = returns[i]
                last_length[i] = taken
                if mode == {SAME_STEP}:
                    @FINAL
                    state = initial(rng, params)
                    @BEGUN
                else:
                    ended[i] = True
        @KEEP
        @OBSERVE
    return count
"""


def _fill(text: str, name: str, lines: list[str]) -> str:
    filled = []
    for line in text.splitlines():
        if line.strip() == f"@{name}":
            indent = line[: len(line) - len(line.lstrip())]
            filled += [indent + new for new in lines]
        else:
            filled.append(line)
    return "\n".join(filled)


def _store(array: str, column: Column, value: str) -> list[str]:
    if not column.shape:
        return [f"{array}[i] = {value}"]
    return [f"for j in range({column.size}):", f"    {array}[i, j] = {value}[j]"]


def _observe(layout: Layout, prefix: str) -> list[str]:
    lines = ["observation = observe(state, params)"]
    for at, column in enumerate(layout.observation):
        name = f"{prefix}obs_{at}"
        if layout.scalar_observation:
            lines.append(f"{name}[i, 0] = observation" if column.shape else f"{name}[i] = observation")
        elif column.shape:
            # Written out: a tuple of mixed types can't be indexed by a loop variable when compiled.
            lines += [f"{name}[i, {j}] = observation[{j}]" for j in range(column.size)]
        else:
            lines.append(f"{name}[i] = observation[{at}]")
    return lines


def _inform(layout: Layout, prefix: str) -> list[str]:
    if not layout.info:
        return []
    stores = [line for c in layout.info for line in _store(f"{prefix}info_{c.name}", c, f"record.{c.name}")]
    return ["record = info(state, params)", *stores]


def _validate(action: Column) -> list[str]:
    if not action.shape:
        return ["if action[i] < action_low[0] or action[i] > action_high[0]:", "    return -1 - i"]
    return [
        f"for j in range({action.size}):",
        "    number = action[i, j]",  # NaN is not equal to itself
        "    if number != number or (strict and (number < action_low[j] or number > action_high[j])):",
        "        return -1 - i",
    ]


def _action(action: Column) -> str:
    if not action.shape:
        return "action[i]"
    return "(" + "".join(f"float(action[i, {j}]), " for j in range(action.size)) + ")"


def _dtype(column: Column) -> str:
    return "bool_" if column.dtype.kind == "b" else column.dtype.name
