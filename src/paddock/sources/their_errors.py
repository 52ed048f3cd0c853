"""Errors of the libraries that environments are written for, as ours. What an environment itself raises stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import paddock.errors as errors
from paddock.sources.families import Family


@contextmanager
def importing(family: Family, id: str) -> Iterator[None]:
    """What can't be imported, for what its package did not declare, as DependencyNotInstalled with the command."""
    try:
        yield
    except (ImportError, AttributeError) as error:  # AttributeError: beside a version that it does not know
        raise _not_importable(family, id, error) from error


@contextmanager
def our_errors(family: Family, id: str) -> Iterator[None]:
    """Errors of Gymnasium or Gym, and missing modules, as ours of the same name."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ImportError) or type(error).__name__ == "DependencyNotInstalled":
            raise _not_importable(family, id, error) from error
        if isinstance(error, AssertionError) and not error.args and family.note:
            raise errors.DependencyNotInstalled(
                f"{id!r} can't be made: {family.note}. To install what works: pip install {family.install}"
            ) from error
        if type(error).__module__ != f"{family.library}.error":
            raise
        ours: Any = getattr(errors, type(error).__name__, None)
        known = isinstance(ours, type) and issubclass(ours, errors.PaddockError)
        raise (ours if known else errors.NameNotFound)(f"{family.through}: {error}") from error


def _not_importable(family: Family, id: str, error: Exception) -> errors.DependencyNotInstalled:
    said = str(error).rstrip(".")
    if family.needs:
        help = f" To install what {family.name} needs: pip install {family.install}"
    else:  # a family for all other ids does not know what an environment of someone's own needs
        help = help_for(error) or f" Install what the environment needs beside {family.install}."
    return errors.DependencyNotInstalled(f"{id!r} can't be imported: {said}.{help}")


def help_for(error: BaseException) -> str | None:
    """What to install, by the error alone; nothing where it says so itself, None where it does not tell."""
    if "pip install" in str(error):
        return ""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    return f" Install the package that brings the module {package!r}: pip install {package}, if that is its name too."
