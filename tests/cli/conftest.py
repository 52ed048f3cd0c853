"""Running a command in this process, and what every command's output must keep to."""

import json
from typing import Any, NamedTuple

import pytest

import paddock.envs.catalog  # before any fixture remembers what the registry held
from paddock.cli import main
from tests.cli import hostile


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out, parse_constant=pytest.fail)


@pytest.fixture
def paddock(capsys, fresh_registry):
    """``paddock("run", "CartPole-v1")``, checked for raw escapes and tracebacks."""

    def run(*words):
        code = main(list(words))
        result = Result(code, *capsys.readouterr())
        for text in (result.out, result.err):
            assert [c for c in text if not (c.isprintable() or c in "\n\t")] == []
        assert "Traceback" not in result.err
        return result

    return run


@pytest.fixture
def hostile_ids(fresh_registry):
    """An id for every class in hostile.py: ``bad/Loud-v0`` and so on."""
    from paddock import register

    for name, found in vars(hostile).items():
        if isinstance(found, type) and found.__module__ == hostile.__name__:
            register(f"bad/{name}-v0", f"{hostile.__name__}:{name}")


@pytest.fixture
def walled():
    """Skips where this machine has no wall to run folders behind."""
    from paddock.sandbox.promises import holds

    if not holds("sandbox"):
        pytest.skip("this machine can't put up the wall; runs on Linux with user namespaces")
