"""Runs the cases of an area, in a process with one of the two packages, and prints what each recorded as JSON."""

import dataclasses
import enum
import json
import math
import sys

from pydantic import BaseModel, ValidationError


def plain(value):
    if isinstance(value, BaseModel):
        return {"class": type(value).__name__, **plain(value.model_dump())}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"class": type(value).__name__, **plain(vars(value))}
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [plain(item) for item in value]
        return sorted(items, key=str) if isinstance(value, (set, frozenset)) else items
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return f"a {getattr(value, '__name__', type(value).__name__)}"


def undescribed(schema):
    """Without the descriptions, which are prose."""
    if isinstance(schema, list):
        return [undescribed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: undescribed(item) for key, item in schema.items() if key != "description" or isinstance(item, dict)}


def record(case, names):
    lines = case.strip().splitlines()
    lines[-1] = lines[-1] if lines[-1].startswith((" ", "return ", "raise ")) else f"return {lines[-1]}"
    exec("def case():\n" + "\n".join(f"    {line}" for line in lines), names)
    try:
        return plain(names["case"]())
    except ValidationError as error:
        return {"invalid": [[one["type"], list(map(str, one["loc"])), one["msg"]] for one in error.errors()]}
    except BaseException as error:
        kinds = [k for k in type(error).__mro__ if k.__module__ == "builtins" or k.__module__.endswith("exceptions")]
        # Our words are our own; those of a server's error are the wire's.
        words = str(error) if str(error).startswith("Server error") else ""
        return {"raises": [kind.__name__ for kind in kinds], "text": words}


def main(imports, cases):
    names = dict(globals())
    try:
        exec(f"import asyncio\nfrom world import *\n{imports}", names)
    except ImportError as error:
        return {name: {"missing": str(error)} for name in cases}
    return {name: record(case, names) for name, case in cases.items()}


if __name__ == "__main__":
    area = json.load(sys.stdin)
    print(json.dumps(main(area["imports"], area["cases"])))
