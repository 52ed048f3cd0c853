"""What every test gets. Runs repeat exactly: Hypothesis derandomized, other random tests from the printed seed."""

import atexit
import copy
import gc
import os
import shutil
import signal
import sys
import tempfile
import zlib

import pytest
from hypothesis import settings

# Keys, decisions and the log of whoever runs the tests stay out of them.
os.environ["PADDOCK_HOME"] = tempfile.mkdtemp(prefix="paddock-home-")
atexit.register(shutil.rmtree, os.environ["PADDOCK_HOME"], ignore_errors=True)
os.environ.pop("PADDOCK_TRUST", None)

SEED = int(os.environ.get("PADDOCK_SEED", "20"))

# `pytest --hypothesis-profile=explore` looks for new examples instead of repeating the known ones.
settings.register_profile("repeat", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("repeat")

# A shell without job control starts what it puts into the background with Ctrl-C ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header():
    return f"paddock: seed {SEED} (another: PADDOCK_SEED=N), Hypothesis profile {settings.get_current_profile_name()}"


# Ten thousand tests are a large heap. Collecting them makes no garbage worth the search, and every `gc.collect()` in
# them would go through it again and again.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Side by side, files with long counts go first, or all would wait for one that began last.

    Those of one folder load the same things, so they go apart.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        long = {item.path for item in items if item.get_closest_marker("full")}
        items.sort(key=lambda item: (item.path not in long, zlib.crc32(item.nodeid.partition("::")[0].encode())))


def pytest_collection_finish():
    gc.enable()
    gc.collect()
    gc.freeze()


# Audit events of a process that is about to start.
STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
_quick = None  # the running test, where it may start none


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """`make quick` stays quick: there a test that starts a process fails."""
    global _quick
    _quick = item.nodeid if "not process" in item.config.option.markexpr else None
    try:
        return (yield)
    finally:
        _quick = None


@sys.addaudithook
def _refuse_processes(event, arguments):
    # ldconfig is how Python looks for the C library.
    if _quick is not None and event in STARTS and not str(arguments[:1]).startswith("('/sbin/ldconfig"):
        pytest.fail(f"{_quick} starts a process: mark it with @pytest.mark.process")


@pytest.fixture
def interruptible():
    """Ctrl-C raises, whatever started this process thinks of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def seed():
    """The seed for tests that draw their own random cases; the report's first lines show it."""
    return SEED


@pytest.fixture
def fresh_registry():
    """The registry, put back after the test as it was before."""
    import paddock.envs.catalog  # noqa: F401 - else a first import inside a test would be rolled back
    from paddock.core.registry import registry

    specs, attributes = dict(registry), copy.deepcopy(vars(registry))
    yield registry
    # dict's own methods: the registry's refuse to drop or replace protected ids.
    dict.clear(registry)
    dict.update(registry, specs)
    vars(registry).update(attributes)


@pytest.fixture
def pygame(monkeypatch):
    """It, with a screen that nobody sees."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    module = pytest.importorskip("pygame", reason="draws a window; runs where pygame-ce is installed, as in .[test]")
    yield module
    module.quit()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user whose keys, settings and packages are in a folder of this test."""
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PADDOCK_TRUST", raising=False)
    monkeypatch.delenv("PADDOCK_KEY_PASSWORD", raising=False)
    return tmp_path / "home"
