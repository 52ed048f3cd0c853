"""Code goes from parent to worker here, and only here: by cloudpickle. Replies are not pickled."""

from __future__ import annotations

import pickle
import pickletools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from paddock.errors import PlanError
from paddock.sandbox.workspaces import is_walled


def dumps(value: Any) -> bytes:
    """``value`` by cloudpickle: functions and classes of ``__main__`` by value, others by their import path."""
    import cloudpickle  # on first use: an import of paddock must stay light

    return cloudpickle.dumps(value)  # type: ignore[no-any-return]


def dumps_for_worker(value: Any, before: Any = None) -> bytes:
    """The same for a worker behind a wall, with the code of modules that have no file: it could not import those.

    ``loads_in_worker`` loads it, and first loads ``before``.
    """
    import cloudpickle

    value = before, value
    data = _dumps(value)
    fileless = [module for module in _modules_in(data) if not is_importable(module)]
    for module in fileless:
        cloudpickle.register_pickle_by_value(module)
    try:
        return _dumps(value) if fileless else data
    finally:
        for module in fileless:
            cloudpickle.unregister_pickle_by_value(module)


def _dumps(value: tuple[Any, Any]) -> bytes:
    try:
        return dumps(value)
    except Exception as error:  # pickling runs code of what is pickled
        raise PlanError(
            f"{value[1]!r:.120} can't be sent to a worker: {error}. Open files, locks and connections in the "
            "environment's constructor, or put a function without a closure into a module of its own."
        ) from error


def modules_in(data: bytes) -> list[str]:
    """The modules that loading a pickle imports, and perhaps some more."""
    return [module.__name__ for module in _modules_in(data) if is_importable(module)]


def _modules_in(data: bytes) -> list[ModuleType]:
    texts = {argument for _, argument, _ in pickletools.genops(data) if isinstance(argument, str)}
    names = {text.split(" ")[0] for text in texts} - {"__main__"}  # an old opcode has "module name" in one text
    return [module for name in sorted(names) if (module := sys.modules.get(name)) is not None]


def is_importable(module: ModuleType) -> bool:
    """Whether a worker could import it as well."""
    name, spec = module.__name__.partition(".")[0], module.__spec__
    file = None if spec is None else spec.origin
    return name in sys.stdlib_module_names or hasattr(module, "__path__") or (file is not None and Path(file).is_file())


def loads(data: bytes) -> Any:
    """What the parent of this worker sent. Never call it with bytes from anyone else."""
    return pickle.loads(data)  # noqa: S301 - from the process that started this one


def loads_in_worker(data: bytes) -> Any:
    """What ``dumps_for_worker`` was given. Only behind a wall: a stranger's spec may hold such bytes too."""
    if not is_walled():
        raise PlanError("Code that came as bytes runs only behind a wall. Pass isolation='sandbox'.")
    return loads(data)[1]
