"""OpenEnv's providers, with programs on PATH that write down what they are called with."""

import gc
import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import paddock.openenv.containers as containers
from paddock.errors import PlanError
from paddock.openenv import GenericEnvClient
from paddock.openenv.containers import (
    ContainerProvider,
    DockerSwarmProvider,
    KubernetesProvider,
    LocalDockerProvider,
    ProviderError,
    RuntimeProvider,
    UVProvider,
    is_healthy,
)
from tests.openenv import fake_docker

pytestmark = pytest.mark.process


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder that is all of PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def docker(home):
    program(home, "docker", f'exec "{sys.executable}" "{fake_docker.__file__}" "{home}" "$@"')
    return lambda: [json.loads(line) for line in (home / "calls").read_text().splitlines()]


def words(call):
    return call["words"]


def test_a_container_starts_answers_and_is_removed(docker, home):
    provider = LocalDockerProvider()
    url = provider.start_container("org/echo-env:latest")
    provider.wait_for_ready(url)
    assert is_healthy(url)
    provider.stop_container()
    provider.stop_container()
    assert not is_healthy(url)
    assert [words(call)[0] for call in docker()] == ["run", "port", "stop", "rm"]
    assert words(docker()[2])[1:3] == ["-t", "10"]


def test_a_container_is_published_on_this_machine_only(docker):
    provider = LocalDockerProvider(arguments=("--memory", "1g"))
    provider.start_container("echo-env")
    provider.stop_container()
    provider.start_container("echo-env", port=7007)
    provider.stop_container()
    runs = [words(call) for call in docker() if words(call)[0] == "run"]
    assert [run[run.index("--publish") + 1] for run in runs] == ["127.0.0.1::8000", "127.0.0.1:7007:8000"]
    assert runs[0][-3:] == ["--memory", "1g", "echo-env"]
    names = [run[run.index("--name") + 1] for run in runs]
    assert len(set(names)) == 2 and all(name.startswith("echo-env-") for name in names)


def test_secrets_stand_on_no_command_line_and_their_file_is_private_and_gone(docker):
    provider = LocalDockerProvider()
    provider.start_container("echo-env", env_vars={"KEY": "s3cret", "N": 5})
    provider.stop_container()
    run = docker()[0]
    assert "s3cret" not in json.dumps([call["words"] for call in docker()] + [call["environ"] for call in docker()])
    assert (run["variables"], run["mode"]) == ("KEY=s3cret\nN=5\n", 0o600)
    assert not Path(words(run)[words(run).index("--env-file") + 1]).exists()


@pytest.mark.parametrize("variables", [{"A=B": "x"}, {"": "x"}, {"A": "x\ny"}, {"A": "x\0"}])
def test_variables_that_would_become_others_are_refused(docker, variables):
    with pytest.raises(PlanError, match="env_vars"):
        LocalDockerProvider().start_container("echo-env", env_vars=variables)


@pytest.mark.parametrize(("image", "options"), [("--privileged", {}), ("", {}), ("echo-env", {"memory": "1g"})])
def test_what_would_be_an_option_or_be_ignored_is_refused(docker, image, options):
    with pytest.raises(PlanError, match="is not the name of an image|no memory="):
        LocalDockerProvider().start_container(image, **options)


def test_a_container_that_cannot_start_leaves_nothing(docker, home):
    with pytest.raises(ProviderError, match="docker run failed with exit code 1: Unable to find image"):
        LocalDockerProvider().start_container("unknown")
    assert words(docker()[-1])[0] == "rm"


def test_a_container_that_ends_early_says_its_last_words(docker):
    provider = LocalDockerProvider()
    url = provider.start_container("dying")
    with pytest.raises(RuntimeError, match="(?s)exit code 3.*it broke"):
        provider.wait_for_ready(url)
    provider.stop_container()


def test_a_server_that_does_not_become_healthy_is_a_timeout(docker):
    provider = LocalDockerProvider()
    url = provider.start_container("sick")
    with pytest.raises(TimeoutError, match=r"did not become ready within 0\.5 s"):
        provider.wait_for_ready(url, timeout_s=0.5)
    provider.stop_container()


def test_a_second_container_of_one_provider_is_refused(docker):
    provider = LocalDockerProvider()
    provider.start_container("echo-env")
    with pytest.raises(PlanError, match="already"):
        provider.start_container("echo-env")
    provider.stop_container()


def test_a_container_that_nobody_stopped_is_removed_with_its_provider(docker):
    url = LocalDockerProvider().start_container("echo-env")
    gc.collect()
    assert not is_healthy(url)
    assert words(docker()[-1])[0] == "rm"


def test_a_container_that_cannot_be_removed_is_told_and_tried_again(docker, home):
    provider = LocalDockerProvider()
    provider.start_container("echo-env")
    working = (home / "docker").read_text()
    program(home, "docker", "echo the daemon sleeps >&2; exit 1")
    with pytest.raises(ProviderError, match="docker rm failed with exit code 1: the daemon sleeps"):
        provider.stop_container()
    (home / "docker").write_text(working)
    provider.stop_container()
    assert words(docker()[-1])[0] == "rm"


def test_podman_serves_where_no_docker_answers_and_a_command_may_be_chosen(home):
    with pytest.raises(RuntimeError, match=r"An image needs docker \(.* or podman \(apt install podman\)"):
        LocalDockerProvider()
    program(home, "docker", "echo the daemon sleeps >&2; exit 1")
    with pytest.raises(
        ProviderError, match=r"a docker that answers \(docker info failed: the daemon sleeps\) or podman"
    ):
        LocalDockerProvider()
    program(home, "podman", '[ "$1" = info ] || exit 9')
    with pytest.raises(ProviderError, match="podman run failed with exit code 9"):
        LocalDockerProvider().start_container("echo-env")
    with pytest.raises(ProviderError, match="docker run failed with exit code 1: the daemon sleeps"):
        LocalDockerProvider("docker").start_container("echo-env")
    with pytest.raises(ProviderError, match="no nerdctl on PATH"):
        LocalDockerProvider("nerdctl")


def test_a_client_runs_the_image_of_its_own_provider(docker):
    with pytest.raises(ConnectionError):  # the server has no websocket
        GenericEnvClient.from_docker_image("echo-env").sync()
    assert [words(call)[0] for call in docker()] == ["run", "port", "stop", "rm"]


def test_providers_that_are_not_offered_say_why():
    with pytest.raises(PlanError, match="every interface"):
        DockerSwarmProvider()
    assert issubclass(KubernetesProvider, ContainerProvider) and issubclass(UVProvider, RuntimeProvider)


def test_the_names_have_openenvs_places():
    from paddock.openenv.core.containers import runtime
    from paddock.openenv.core.containers.runtime import providers, uv_provider

    assert runtime.LocalDockerProvider is providers.LocalDockerProvider is LocalDockerProvider
    assert runtime.UVProvider is uv_provider.UVProvider is UVProvider


# uv


UV = """
import json, os, sys
sys.path.insert(0, {root!r})
from tests.openenv.fake_docker import serve
words = sys.argv[1:]
with open({home!r} + "/calls", "a") as calls:
    calls.write(json.dumps({{"words": words, "environ": dict(os.environ)}}) + "\\n")
port = int(words[words.index("--port") + 1])
"""


@pytest.fixture
def uv(home):
    def made(then="serve(port)"):
        root = str(Path(__file__).parents[2])
        (home / "uv.py").write_text(textwrap.dedent(UV.format(home=str(home), root=root)) + then)
        program(home, "uv", f'exec "{sys.executable}" "{home}/uv.py" "$@"')
        return lambda: [json.loads(line) for line in (home / "calls").read_text().splitlines()]

    return made


def test_uv_runs_a_folder_on_this_machine_only(uv, tmp_path):
    calls = uv()
    with UVProvider(project_path=str(tmp_path), reload=True) as provider:
        provider.wait_for_ready()
        assert is_healthy(provider.base_url)
        url = provider.base_url
        with pytest.raises(RuntimeError, match="already running"):
            provider.start()
    assert not is_healthy(url)
    port = url.rpartition(":")[2]
    serving = ["uvicorn", "server.app:app", "--host", "127.0.0.1", "--port", port, "--workers", "1", "--reload"]
    assert words(calls()[0]) == ["run", "--isolated", "--project", str(tmp_path), "--", *serving]
    provider.stop()
    with pytest.raises(RuntimeError, match="not been started"):
        provider.base_url


def test_uv_gets_only_the_variables_it_needs(uv, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "s3cret")
    calls = uv()
    provider = UVProvider(project_path=str(tmp_path), env_vars={"MINE": "1", "BOTH": "1"})
    provider.start(env_vars={"BOTH": "2"}, workers=3)
    provider.wait_for_ready()
    provider.stop()
    environ = calls()[0]["environ"]
    assert "s3cret" not in json.dumps(environ)
    assert (environ["MINE"], environ["BOTH"], environ["PATH"]) == ("1", "2", str(tmp_path))
    assert words(calls()[0])[-2:] == ["--workers", "3"]


def test_a_server_that_ends_early_is_told_at_once(uv, tmp_path):
    uv("sys.exit(7)")
    provider = UVProvider(project_path=str(tmp_path))
    provider.start()
    with pytest.raises(RuntimeError, match="exited prematurely with code 7"):
        provider.wait_for_ready()
    provider.stop()


def test_a_server_that_ignores_the_signal_is_killed_with_its_children(uv, tmp_path, monkeypatch):
    monkeypatch.setattr(containers, "STOP_S", 0.2)
    uv("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork() and signal.pause(); serve(port)")
    provider = UVProvider(project_path=str(tmp_path))
    provider.start()
    provider.wait_for_ready()
    process, url = provider._process, provider.base_url
    provider.stop()
    assert process.returncode == -signal.SIGKILL
    assert not is_healthy(url)


def test_a_server_that_nobody_stopped_ends_with_the_interpreter(uv, tmp_path):
    uv()
    text = """
    from paddock.openenv.containers import UVProvider
    provider = UVProvider(project_path=".")
    provider.start()
    provider.wait_for_ready()
    print(provider.base_url)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not is_healthy(done.stdout.split()[-1])


def test_uv_downloads_nothing_and_its_absence_names_the_command(home):
    with pytest.raises(PlanError, match="behind a wall"):
        UVProvider(project_path="git+https://example.org/space")
    with pytest.raises(RuntimeError, match="pip install uv"):
        UVProvider(project_path=".")
