"""The rubric that ``module:Name`` names: code of the user's own, from Python's path or the working folder."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

from paddock.cli.environment import find_modules_here
from paddock.cli.failures import environment_code, mistake
from paddock.core.problem import kind

if TYPE_CHECKING:
    from paddock.agentic.rubrics import Rubric


def named_rubric(text: str) -> Rubric:
    """An instance: the one that is named, or what the class or function that is named makes without arguments."""
    from paddock.agentic.rubrics import Rubric

    module, colon, name = text.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise mistake(f"--rubric {text!r}: expected module:Name, such as my_rubrics:Strict.")
    find_modules_here()
    found = _found(module, name)
    if not isinstance(found, Rubric) and (inspect.isclass(found) or inspect.isroutine(found)):
        with environment_code(lambda: f"making {text}"):
            found = found()
    if not isinstance(found, Rubric):
        raise mistake(f"--rubric {text}: it is {kind(found)}, expected a Rubric or what makes one.")
    return found


def _found(module: str, name: str) -> Any:
    with environment_code(lambda: f"importing {module}"):
        try:
            found: Any = import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise
            raise mistake(f"--rubric: there is no module {module!r} here or on Python's path.") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise mistake(f"--rubric: {module} has no {name!r}.")
        found = getattr(found, part)
    return found
