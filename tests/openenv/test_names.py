"""OpenEnv's names: there, of the same shape as the real ones, and as light as promised."""

import importlib.util
import json
import pkgutil
import subprocess
import sys
import textwrap

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

MODULES = [
    "auto",
    "auto.auto_action",
    "auto.auto_env",
    "core",
    "core.client_types",
    "core.containers",
    "core.containers.runtime",
    "core.containers.runtime.providers",
    "core.containers.runtime.uv_provider",
    "core.env_client",
    "core.env_server",
    "core.env_server.base_transforms",
    "core.env_server.exceptions",
    "core.env_server.http_server",
    "core.env_server.interfaces",
    "core.env_server.mcp_environment",
    "core.env_server.mcp_types",
    "core.env_server.serialization",
    "core.env_server.types",
    "core.generic_client",
    "core.mcp_client",
    "core.sync_client",
]


def run(program):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_name_resolves():
    assert [name for name in ours.__all__ if getattr(ours, name, None) is None] == []
    with pytest.raises(AttributeError, match="no_such"):
        ours.no_such


@pytest.mark.process
@pytest.mark.parametrize("module", MODULES)
def test_modules_have_openenvs_places(module):
    names = run(f"import paddock.openenv.{module} as m; print(*getattr(m, '__all__', ['EnvClient', 'Environment']))")
    assert names.split()
    run(f"from paddock.openenv.{module} import {', '.join(names.split())}")


def test_modules_without_a_file_are_found_by_importlib_and_listed_by_pkgutil():
    listed = [module.name for module in pkgutil.walk_packages(ours.__path__, "paddock.openenv.")]
    aliases = [name for name in listed if name.split(".")[2] in ("auto", "core")]
    assert aliases == [f"paddock.openenv.{name}" for name in sorted(MODULES)]
    for name in MODULES:
        spec = importlib.util.find_spec(f"paddock.openenv.{name}")
        assert importlib.import_module(spec.name).__spec__.origin == "paddock.aliases"
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
@pytest.mark.peers
def test_the_types_have_the_fields_of_the_real_ones():
    models = {
        name for name in ours.__all__ if isinstance(found := getattr(ours, name), type) and issubclass(found, BaseModel)
    }
    program = f"""
    import json
    from openenv.core import mcp_client
    from openenv.core.env_server import mcp_types, types
    from tests.openenv.shapes import shape
    names = {sorted(models)!r}
    everything = {{**vars(mcp_client), **vars(mcp_types), **vars(types)}}
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
