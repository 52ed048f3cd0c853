"""OpenEnv's names: there, of the same shape as the real ones, and as light as promised."""

import importlib.util
import json
import pkgutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pydantic import ValidationError

import paddock.openenv as ours
from paddock.openenv import (
    Action,
    CompositeTransform,
    ConcurrencyConfig,
    Environment,
    NullTransform,
    Observation,
    SchemaResponse,
    ServerCapacityStatus,
    State,
    Transform,
)
from paddock.openenv.app import create_app
from paddock.openenv.types import BaseModel
from tests.openenv import worlds
from tests.openenv.shapes import shape
from tests.peers import run_with_peer

# Module by module what OpenEnv 0.10 makes public: what listing.py finds, and in a second block what its environments
# import besides.
LISTED, BESIDES = (
    [
        (module, name)
        for line in block.splitlines()
        for module, _, names in [line.partition(": ")]
        for name in names.split()
    ]
    for block in (Path(__file__).parent / "names_0_10.txt").read_text().split("\n\n")
)
REFUSED = [f"openenv.{module}" for module in ours.REFUSALS]
NAMES = [
    (module, name)
    for module, name in LISTED + BESIDES
    if f"{module}.{name}" != "openenv.cli" and not any(f"{module}.".startswith(f"{refused}.") for refused in REFUSED)
]


@pytest.fixture
def openenv():
    """``openenv`` as a program sees it after ``install()``."""
    ours.install()
    yield importlib.import_module("openenv")
    ours.uninstall()


def run(program):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_name_resolves():
    assert [name for name in ours.__all__ if getattr(ours, name, None) is None] == []
    with pytest.raises(AttributeError, match="no_such"):
        ours.no_such


def test_every_name_of_openenv_is_here_and_under_its_own_name_after_install(openenv):
    missing = []
    for module, name in NAMES:
        below = module.removeprefix("openenv").removeprefix(".")
        here = importlib.import_module(f"paddock.openenv.{below}".rstrip("."))
        there = importlib.import_module(module)
        if getattr(here, name, None) is None or getattr(there, name) is not getattr(here, name):
            missing.append((module, name))
    assert missing == [] and len(NAMES) > 250


def test_client_of_an_environment_from_before_openenv_0_2_is_a_client(openenv):
    from openenv_core.http_env_client import HTTPEnvClient, StepResult

    class Client(HTTPEnvClient[worlds.EchoAction, worlds.EchoObservation]):
        def _step_payload(self, action):
            return action.model_dump()

        def _parse_result(self, payload):
            return StepResult(payload)

        def _parse_state(self, payload):
            return payload

    client = Client("http://localhost:8000", request_timeout_s=5.0, default_headers={"Authorization": "Bearer x"})
    assert isinstance(client, ours.EnvClient) and client.base_url == "http://localhost:8000"


@pytest.mark.peers
def test_the_list_of_names_is_that_of_the_real_package():
    program = """
    import json
    from importlib.metadata import distribution
    from tests.openenv.listing import list_names
    print(json.dumps(list_names(distribution("openenv").locate_file(""))))
    """
    real = run_with_peer("openenv10", program)
    assert sorted(LISTED) == sorted((module, name) for module, names in real.items() for name in names)


@pytest.mark.parametrize("module", REFUSED)
def test_refusal_gives_its_reason(openenv, module):
    with pytest.raises(ModuleNotFoundError, match="on purpose: ") as caught:
        importlib.import_module(f"{module}.below")
    assert ours.REFUSALS[module.removeprefix("openenv.")] in str(caught.value)


def test_refusals_are_those_of_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "openenv.md").read_text()
    assert [module for module in REFUSED if f"| `{module}` |" not in page] == []


def test_another_module_is_not_found_and_the_error_says_whose_openenv_it_is(openenv):
    with pytest.raises(ModuleNotFoundError, match=r"no_such.*paddock\.openenv\.install") as caught:
        importlib.import_module("openenv.core.no_such")
    assert caught.value.name == "openenv.core.no_such"
    with pytest.raises(ImportError, match="cannot import name 'no_such'"):
        from openenv.core import no_such  # noqa: F401


def test_installed_modules_are_ours_in_all_spellings(openenv):
    import openenv.core.env_server.types as types
    import openenv_core.env_server.types as old

    assert types is old is importlib.import_module("paddock.openenv.core.env_server.types")
    assert types.Action is ours.Action and openenv.__version__ == "0.10.0"
    assert openenv.core.llm_client is ours.llm_client  # the same module: what a program puts there counts
    assert importlib.util.find_spec("core") is None


def test_install_twice_is_install_once_and_uninstall_takes_all_of_it_back():
    before = list(sys.meta_path)
    ours.install()
    ours.install(bare_core=True)
    try:
        import core.env_server.types
        import openenv.core

        assert core.env_server.types.Action is openenv.core.Action is ours.Action
        assert len(sys.meta_path) == len(before) + 1
    finally:
        ours.uninstall()
        ours.uninstall()
    assert sys.meta_path == before
    assert {name for name in sys.modules if name.partition(".")[0] in ("openenv", "openenv_core", "core")} == set()
    ours.install()
    assert importlib.util.find_spec("core") is None  # asked for once, not for ever
    ours.uninstall()


def test_a_programs_own_core_stays_its_own(tmp_path, monkeypatch):
    (tmp_path / "core").mkdir()  # alone it is no package: still ours
    monkeypatch.syspath_prepend(tmp_path)
    ours.install(bare_core=True)
    try:
        assert importlib.import_module("core.client_types").StepResult is ours.StepResult
        ours.uninstall()
        (tmp_path / "core" / "__init__.py").write_text("own = True")
        importlib.invalidate_caches()
        ours.install(bare_core=True)
        own = importlib.import_module("core")
        assert own.own
        ours.install(bare_core=True)
        ours.uninstall()
        assert sys.modules["core"] is own
    finally:
        sys.modules.pop("core", None)
        ours.uninstall()


@pytest.mark.parametrize("name", ["openenv.core", "openenv_core"])
def test_install_refuses_beside_another_of_that_name(monkeypatch, name):
    other = type(sys)(name)
    other.__file__ = "/elsewhere.py"
    monkeypatch.setitem(sys.modules, name, other)
    with pytest.raises(ImportError, match=f"{name} is already imported, from /elsewhere.py.*before the first import"):
        ours.install()
    assert not any(type(finder).__module__ == "paddock.openenv" for finder in sys.meta_path)


@pytest.mark.process
def test_every_module_can_be_the_first_that_a_process_imports():
    printed = run(
        """
        import os
        import paddock.openenv
        for module in paddock.openenv.ALIASES:
            if os.fork() == 0:
                __import__(f"paddock.openenv.{module}")
                os._exit(0)
            if os.wait()[1]:
                print(module)
        """
    )
    assert printed == ""


def test_modules_without_a_file_are_found_by_importlib_and_listed_by_pkgutil():
    listed = [module.name for module in pkgutil.walk_packages(ours.__path__, "paddock.openenv.")]
    aliases = sorted(f"paddock.openenv.{name}" for name in ours.ALIASES)
    assert [name for name in listed if name in aliases] == aliases
    assert all(importlib.util.find_spec(f"paddock.openenv.{name}") for name in ours.ALIASES)
    assert importlib.util.find_spec("paddock.openenv.core.no_such") is None
    with pytest.raises(ModuleNotFoundError, match=r"paddock\.openenv\.core\.no_such"):
        importlib.import_module("paddock.openenv.core.no_such")


def test_names_are_the_same_objects_in_every_place():
    from paddock.openenv.core import EnvClient, env_server
    from paddock.openenv.core.env_server.types import Action as ActionThere

    assert EnvClient is ours.EnvClient and env_server.Environment is ours.Environment
    assert ActionThere is ours.Action and "Action" in dir(env_server)
    assert set(importlib.import_module("paddock.openenv.core.env_server.types").__all__) <= set(ours.__all__)
    with pytest.raises(ImportError, match="no_such"):
        from paddock.openenv.core.env_server.types import no_such  # noqa: F401


@pytest.mark.peers
def test_the_types_have_the_fields_of_the_real_ones():
    models = {
        name for name in ours.__all__ if isinstance(found := getattr(ours, name), type) and issubclass(found, BaseModel)
    }
    program = f"""
    import json
    from openenv.core import evals, harness, mcp_client
    from openenv.core.env_server import mcp_types, types, web_interface
    from openenv.core.harness import events
    from tests.openenv.shapes import shape
    names = {sorted(models)!r}
    modules = evals, harness, events, mcp_client, mcp_types, types, web_interface
    everything = {{name: value for module in modules for name, value in vars(module).items()}}
    found = {{name: shape(everything[name].model_json_schema()) for name in names}}
    config = {{name: dict(everything[name].model_config) for name in names}}
    print(json.dumps([found, config], default=lambda one: None))
    """
    shapes, configs = run_with_peer("openenv10", program)
    for name in sorted(models):
        mine = getattr(ours, name)
        assert (name, shape(json.loads(json.dumps(mine.model_json_schema())))) == (name, shapes[name])
        theirs = {key: value for key, value in configs[name].items() if key != "json_schema_extra"}
        assert (name, dict(mine.model_config)) == (name, theirs)


@pytest.mark.peers
def test_the_environment_has_the_methods_of_the_real_one():
    program = """
    import inspect, json
    from openenv.core.env_server.interfaces import Environment
    print(json.dumps({name: list(inspect.signature(value).parameters) for name, value in vars(Environment).items()
                      if inspect.isfunction(value)}))
    """
    theirs = run_with_peer("openenv10", program)
    import inspect

    missing = {
        name: names
        for name, names in theirs.items()
        if name not in ("render_web", "web_actions")  # of a web page that is not ours
        and list(inspect.signature(getattr(Environment, name)).parameters) != names
    }
    assert missing == {}


@pytest.mark.process
def test_clients_need_no_pydantic():
    printed = run(
        """
        import sys
        sys.modules["pydantic"] = sys.modules["pydantic_core"] = None
        from paddock.openenv import EnvClient, GenericAction, GenericEnvClient, StepResult, SyncEnvClient
        GenericEnvClient(base_url="http://host")
        try:
            from paddock.openenv import Action
        except Exception as error:
            print(type(error).__name__, error)
        """
    )
    assert printed.startswith("DependencyNotInstalled")
    assert printed.rstrip().endswith("pip install pydantic")


@pytest.mark.process
def test_clients_import_no_server_and_no_framework():
    heavy = run(
        """
        import sys
        from paddock.openenv import GenericEnvClient
        heavy = {"fastapi", "starlette", "uvicorn", "pydantic", "mcp", "fastmcp", "gradio", "websockets", "httpx"}
        print(*sorted(heavy & {name.split(".")[0] for name in sys.modules}))
        """
    )
    assert heavy.split() == []


def test_actions_and_observations_take_no_unknown_fields_and_states_do():
    for cls in (Action, Observation):
        with pytest.raises(ValidationError):
            cls(more=1)
    assert State(more=1).more == 1
    with pytest.raises(ValidationError):
        State(step_count=-1)


def test_a_schema_response_leaves_out_what_nobody_declared():
    assert "reset_observation" not in SchemaResponse(action={}, observation={}, state={}).model_dump()


def test_capacity_counts():
    status = ServerCapacityStatus.from_counts(2, 3)
    assert (status.available_slots, status.is_at_capacity) == (1, False)
    with pytest.raises(ValidationError):
        ServerCapacityStatus.from_counts(4, 3)


class Plus(Transform):
    def __call__(self, observation):
        observation.length += 1
        return observation


def test_transforms_and_rubrics_are_applied():
    resets = []

    class Scores:
        def __call__(self, action, observation):
            return len(action.text) + observation.length

        def reset(self):
            resets.append(1)

    env = worlds.EchoEnv()
    env.transform, env.rubric = CompositeTransform([Plus(), NullTransform(), Plus()]), Scores()
    observation = env._apply_transform(worlds.EchoObservation(length=1))
    assert env._apply_rubric(worlds.EchoAction(text="ab"), observation) == 5
    env._reset_rubric()
    assert resets == [1]
    env.rubric = lambda action, observation: 0.5  # nothing to reset
    env._reset_rubric()
    assert env._apply_rubric(None, None) == 0.5


def test_create_app_refuses_what_openenv_refuses():
    classes = worlds.EchoAction, worlds.EchoObservation
    with pytest.raises(TypeError, match="env must be a callable"):
        create_app(worlds.EchoEnv(), *classes)
    with pytest.raises(ValueError, match="not both"):
        create_app(worlds.EchoEnv, *classes, max_concurrent_envs=2, concurrency_config=ConcurrencyConfig())
    with pytest.raises(ours.ConcurrencyConfigurationError):
        create_app(worlds.Lonely, *classes, max_concurrent_envs=2)
    with pytest.raises(ValueError, match="other"):
        create_app(worlds.EchoEnv, *classes, mode="other")


def test_errors_carry_their_facts():
    error = ours.SessionCapacityError(2, 2)
    assert (error.active_sessions, error.max_sessions) == (2, 2)
    assert str(error) == "Server at capacity: 2/2 sessions active. Cannot accept new connections."
    assert ours.EnvironmentFactoryError("X").factory_name == "X"
    assert issubclass(ours.SessionNotFoundError, ours.OpenEnvError)
