"""Attacks on the program that uses the environment: its registry, its modules, its files, what it keeps in memory."""

from __future__ import annotations

import builtins
import gc
import json
import os
import site
import sys
import warnings
from pathlib import Path
from typing import Any

from paddock.bench.hostile.attacks.attempt import Hostile, first_that_works

MARK = "paddock_hostile_was_here"


def impostor(**kwargs: Any) -> Any:
    """What a tampered registry makes in place of CartPole."""
    raise RuntimeError("an impostor was made")


class Registry(Hostile):
    """Puts an impostor under the id of a built-in environment."""

    def attempt(self) -> str:
        from paddock.core.registry import registry
        from paddock.core.spec import EnvSpec

        entry = f"{__name__}:impostor"
        dict.__setitem__(registry, "CartPole-v1", EnvSpec("CartPole-v1", entry_point=entry))
        return "registered"


class Modules(Hostile):
    """Replaces functions that everybody calls."""

    def attempt(self) -> str:
        json.hostile = MARK  # type: ignore[attr-defined]
        builtins.hostile = MARK  # type: ignore[attr-defined]
        sys.modules[MARK] = sys.modules[__name__]
        return "replaced"


class Surroundings(Hostile):
    """Changes what a process shares within itself: environment variables, sys.path, the filters of warnings."""

    def attempt(self) -> str:
        os.environ[MARK] = "1"
        sys.path.append(f"/{MARK}")
        warnings.simplefilter("ignore", ResourceWarning)
        return "changed"


class Ledger(Hostile):
    """Finds the user's own list of results in memory, and adds to it."""

    def attempt(self) -> str:
        for found in gc.get_objects():
            if type(found) is dict and "hostile ledger" in found:
                found["hostile ledger"] = [MARK]
                return "added"
        raise FileNotFoundError("no ledger in this process")


class SitePackages(Hostile):
    """Leaves a file where Python looks for packages: as .pth it would run in every later program."""

    def attempt(self) -> str:
        def plant(folder: str) -> str:
            path = Path(folder, self.told["name"])
            path.write_text("# harmless\n")
            return str(path)

        folders = [*site.getsitepackages(), *(path for path in sys.path if path.endswith("-packages"))]
        return first_that_works(*(lambda folder=folder: plant(folder) for folder in folders))


class OurFiles(Hostile):
    """Leaves a file in paddock's folders, or in the folder of its compiled files."""

    def attempt(self) -> str:
        import paddock.errors as ours

        folder = Path(ours.__file__).parent / self.told["folder"]
        folder.mkdir(exist_ok=True)
        path = folder / self.told["name"]
        path.write_text("# harmless\n")
        return str(path)


class OurSource(Hostile):
    """Opens paddock's own source for writing, and writes nothing."""

    def attempt(self) -> str:
        import paddock.errors as ours

        os.close(os.open(ours.__file__, os.O_WRONLY | os.O_APPEND))
        return "reached: our source"
