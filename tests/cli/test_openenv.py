"""``paddock openenv``: OpenEnv's commands write, read and report what OpenEnv's own do."""

import io
import json
import sys
from contextlib import redirect_stdout
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

import paddock as package
from paddock.cli.program import main
from tests.peers import run_with_peer
from tests.serving import serving, shared

server = shared(lambda folder: serving("CartPole-v1"))

FILES = {
    *("README.md", "__init__.py", "client.py", "models.py", "openenv.yaml", "pyproject.toml"),
    *(
        f"server/{name}"
        for name in ("__init__.py", "app.py", "my_env_environment.py", "Dockerfile", "requirements.txt")
    ),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A new environment, in the working folder."""
    monkeypatch.chdir(tmp_path)
    with redirect_stdout(io.StringIO()):
        assert main(["openenv", "init", "my_env"]) == 0
    return tmp_path / "my_env"


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """A docker that prints its arguments, with a colour, and fails for the tag `bad`."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "docker"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\nopen({str(tmp_path / 'said')!r}, 'w').write(json.dumps(sys.argv[1:]))\n"
        "print('\\x1b[31mred')\nsys.exit('bad' in sys.argv)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return lambda: json.loads((tmp_path / "said").read_text())


def result(report, id):
    return next(one for one in report["results"] if one["check_id"] == id)


def test_init_writes_openenvs_files(tmp_path, paddock, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = paddock("openenv", "init", "my_env", "-o", "new/place", "--json").document
    made = tmp_path / "new" / "place" / "my_env"
    assert (tmp_path / told["folder"], set(told["files"])) == (made, FILES)
    assert {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()} == FILES
    texts = "".join((made / name).read_text() for name in FILES)
    assert "class MyAction(" in texts and "@name@" not in texts and "@Name@" not in texts and "@image@" not in texts


@pytest.mark.parametrize("name", ["my-env", "2d", "a b", "", "class", "../up"])
def test_init_refuses_what_is_not_a_python_name(tmp_path, paddock, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    answer = paddock("openenv", "init", name)
    assert answer.code == 2 and "is not a Python name" in answer.err and not any(tmp_path.iterdir())


def test_init_overwrites_nothing(folder, paddock):
    before = (folder / "models.py").read_text()
    answer = paddock("openenv", "init", "my_env")
    assert answer.code == 2 and "overwrites nothing" in answer.err
    assert (folder / "models.py").read_text() == before


def test_image_runs_as_another_user_and_runs_no_script_of_a_stranger(folder):
    lines = (folder / "server" / "Dockerfile").read_text().splitlines()
    assert "USER 1000" in lines and not any("curl" in line for line in lines)


def test_what_init_writes_is_valid(folder, paddock):
    (folder / "uv.lock").touch()
    report = paddock("openenv", "validate", "my_env", "--json").document
    assert (report["verdict"], [one["status"] for one in report["results"]]) == ("pass", ["pass", "pass"])
    assert report["manifest"]["reward"] == {
        "range": [0.0, 1.0],
        "oracle_tolerance": 0.0,
        "floor_margin": 0.1,
        "variance_tolerance": None,
    }


MANIFESTS = {
    "no `validation:` block": ("validation:", "other:"),
    "is not valid YAML": ("port: 8000", "port: ["),
    "has aliases": ("port: 8000", "port: &a 8000\nother: *a"),
    "`floor_margin`": ("    floor_margin: 0.1\n", ""),
    "at least 0.1 is allowed": ("floor_margin: 0.1", "floor_margin: 0.0"),
    "3600.0 is allowed": ("60.0", "4000"),
    "unknown field": ("cpu: 1.0", "cpu: 1.0\n    gas: 2"),
    "range must rise": ("[0.0, 1.0]", "[1.0, 0.0]"),
    "entry belongs to the kind script": ("reward_channel", "script"),
    "needs reward.variance_tolerance": (
        "  capabilities:",
        "  judge: {model: m, version: v}\n  capabilities:\n    llm_judged: true",
    ),
    "judge belongs to": ("  capabilities:", "  judge: {model: m, version: v}\n  capabilities:"),
    "Expected `array` of length >= 1": ("[demo]", "[]"),
    "matching regex": ("  types:", "  execution: {dockerfile: ../x}\n  types:"),
}


@pytest.mark.parametrize("why", MANIFESTS)
def test_manifest_that_openenv_refuses_fails(folder, paddock, why):
    file = folder / "openenv.yaml"
    file.write_text(file.read_text().replace(*MANIFESTS[why]))
    answer = paddock("openenv", "validate", "my_env", "--json")
    found = result(answer.document, "static.manifest")
    assert (answer.code, answer.document["verdict"], found["status"]) == (1, "fail", "fail")
    assert why in found["evidence"][0] or why.strip("`") in found["evidence"][0]


LAYOUTS = {
    "Missing pyproject.toml": ("pyproject.toml", None),
    "Missing [project.scripts] server entry point": ("pyproject.toml", ("server = ", "serve = ")),
    "Server entry point should reference main function, got: my_env.server.app:run": (
        "pyproject.toml",
        (":main", ":run"),
    ),
    "Missing required dependency: openenv>=0.2.0": ("pyproject.toml", ('"openenv>=0.10"', '"openenv-tools"')),
    "Missing server/app.py": ("server/app.py", None),
    "server/app.py missing main() function": ("server/app.py", ("def main(", "def start(")),
    "Missing server/Dockerfile": ("server/Dockerfile", None),
    "app: server.app:app: it names no module of the folder that calls create_app": (
        "server/app.py",
        ("app = create_app(", "app = dict("),
    ),
}


@pytest.mark.parametrize("why", LAYOUTS)
def test_layout_that_lacks_something_warns(folder, paddock, why):
    (folder / "uv.lock").touch()
    name, change = LAYOUTS[why]
    if change is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text((folder / name).read_text().replace(*change))
    answer = paddock("openenv", "validate", "my_env", "--json")
    assert (answer.code, answer.document["verdict"]) == (0, "warn")
    assert any(why in line for line in result(answer.document, "static.layout")["evidence"])


def test_link_in_a_folder_is_an_error(folder, paddock):
    (folder / "link").symlink_to("/etc/hostname")
    report = paddock("openenv", "validate", "my_env", "--json").document
    assert (report["verdict"], [one["status"] for one in report["results"]]) == ("fail", ["error"])


@pytest.mark.parametrize("app", ["../../etc/passwd", "/etc:app", "[1]", "server.app", "server..app:app"])
def test_app_that_names_no_module_of_the_folder_warns(folder, paddock, app):
    file = folder / "openenv.yaml"
    file.write_text(file.read_text().replace("app: server.app:app", f"app: {app}"))
    report = paddock("openenv", "validate", "my_env", "--json").document
    assert report["verdict"] == "warn" and "names no module" in result(report, "static.layout")["evidence"][-1]


def test_manifest_that_is_too_deep_or_holds_a_date_is_reported(folder, paddock, tmp_path):
    file = folder / "openenv.yaml"
    judge = "  judge: {model: m, version: v, params: {day: 2026-01-01}}\n  capabilities:\n    llm_judged: true"
    text = file.read_text().replace("floor_margin: 0.1", "floor_margin: 0.1\n    variance_tolerance: 0.1")
    file.write_text(text.replace("  capabilities:", judge))
    assert paddock("openenv", "validate", "my_env", "--output", "report.json").code == 0
    assert "2026" in (tmp_path / "report.json").read_text()
    file.write_text("validation: " + "[" * 50_000)
    assert paddock("openenv", "validate", "my_env").code == 1


@pytest.mark.parametrize(
    "words",
    [["nowhere"], ["."], [".", "--url", "http://localhost"], ["my_env", "--level", "runtime"], ["--policy", "v2"]],
    ids=" ".join,
)
def test_validate_says_what_it_can_not_do(folder, paddock, words):
    assert paddock("openenv", "validate", *words).code == 2


def test_report_is_written_to_a_file(folder, paddock, tmp_path):
    assert paddock("openenv", "validate", "my_env", "--output", "report.json").code == 0
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "warn"


@pytest.mark.process
def test_running_server_is_checked(server, paddock):
    report = paddock("openenv", "validate", "--url", server.with_token(), "--json")
    refused = paddock("openenv", "validate", server.url, "--json")
    assert (report.code, report.document["passed"], report.document["mode"]) == (0, True, "simulation")
    assert report.document["standard_profile"] == "openenv-http/1.x"
    assert (refused.code, refused.document["summary"]["passed_count"]) == (1, 1)  # /health alone


class Silent(WSGIRequestHandler):
    def log_message(self, *words):
        pass


def test_server_with_half_of_the_routes_fails(paddock):
    answers = {"/openapi.json": {"info": {"version": "1.0"}, "paths": {"/reset": {}}}, "/health": {"status": "ill"}}

    def application(environ, start):
        found = answers.get(environ["PATH_INFO"])
        start("200 OK" if found else "404 Not Found", [])
        return [json.dumps(found).encode()]

    with make_server("127.0.0.1", 0, application, handler_class=Silent) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        answer = paddock("openenv", "validate", "--url", f"127.0.0.1:{server.server_port}", "--json")
        server.shutdown()
    passed = {one["id"]: one["passed"] for one in answer.document["criteria"]}
    assert answer.code == 1 and [id for id, right in passed.items() if right] == ["openapi_version_available"]
    assert answer.document["summary"]["failed_criteria"] == [id for id, right in passed.items() if not right]


def test_server_that_does_not_answer_fails(paddock):
    answer = paddock("openenv", "validate", "--url", "http://127.0.0.1:9", "--timeout", "1")
    assert answer.code == 1 and "Request failed" in answer.out


@pytest.mark.process
def test_build_hands_everything_to_the_engine(folder, engine, paddock):
    answer = paddock("openenv", "build", "my_env", "--no-cache", "--build-arg", "A=1=2", "--json")
    assert (answer.code, answer.document["image"]) == (0, "openenv-my")
    assert "\\x1b[31mred" in answer.err
    file, context = str(folder / "server" / "Dockerfile"), str(folder)
    given = ["A=1=2", "BUILD_MODE=standalone", "ENV_NAME=my"]
    arguments = [word for one in given for word in ("--build-arg", one)]
    assert engine() == ["build", "-t", "openenv-my", "-f", file, "--no-cache", *arguments, context]


@pytest.mark.process
def test_build_takes_tag_dockerfile_and_context(folder, engine, paddock, tmp_path):
    (tmp_path / "Other").write_text("FROM scratch\n")
    assert paddock("openenv", "build", "my_env", "-t", "x", "-f", "Other", "-c", ".").code == 0
    assert engine()[:5] == ["build", "-t", "x", "-f", str(tmp_path / "Other")] and engine()[-1] == str(tmp_path)


@pytest.mark.process
def test_build_that_fails_is_said(folder, engine, paddock):
    answer = paddock("openenv", "build", "my_env", "-t", "bad", "--json")
    assert (answer.code, answer.document["error"]["code"]) == (1, "BUILD_FAILED")


@pytest.mark.parametrize(
    ("words", "why"),
    [([], "no openenv.yaml"), (["my_env", "--build-arg", "A"], "has no '='"), (["no"], "not a folder")],
)
def test_build_refuses_before_anything_runs(folder, engine, paddock, words, why, tmp_path):
    answer = paddock("openenv", "build", *words)
    assert answer.code == 2 and why in answer.err and not (tmp_path / "said").exists()


def test_build_without_an_engine_says_so(folder, paddock, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = paddock("openenv", "build", "my_env")
    assert answer.code == 2 and "An image needs docker (apt install docker.io) or podman" in answer.err


def test_serve_refuses_to_reload(folder, paddock):
    answer = paddock("openenv", "serve", "my_env", "--reload")
    assert answer.code == 2 and "--reload" in answer.err


def test_serve_is_paddock_serve_of_the_folder(folder, monkeypatch, paddock):
    from paddock.cli import serve

    calls = []
    monkeypatch.setattr(serve, "run", lambda arguments, output: calls.append(arguments) or 0)
    assert paddock("openenv", "serve", "my_env", "-p", "9", "--grant").code == 0
    assert (calls[0].targets, calls[0].port, calls[0].host, calls[0].grant) == ([str(folder)], 9, "127.0.0.1", True)


PLAY = """
import json, sys
sys.path.insert(0, {folder!r})
from starlette.testclient import TestClient
from server.app import app
with TestClient(app).websocket_connect("/ws") as socket:
    answers = []
    messages = [{{"type": "step", "data": {{"guess": guess}}}} for guess in (18, 101)]
    messages = [{{"type": "reset", "data": {{"seed": 1}}}}, *messages, {{"type": "state"}}]
    for message in messages:
        socket.send_json(message)
        answers.append(socket.receive_json())
print(json.dumps(answers))
"""


@pytest.mark.process
def test_what_init_writes_is_served_behind_the_wall(folder):
    with serving(str(folder)) as server, package.make(server.with_token()) as env:
        assert env.reset(seed=1)[0]["tries_left"] == 10
        observation, reward, terminated, *_ = env.step({"guess": 18})
        assert (observation["hint"], reward, terminated) == ("right", 1.0, True)


@pytest.mark.peers
def test_what_init_writes_runs_with_the_real_package(folder):
    reset, step, refused, state = run_with_peer("openenv10", PLAY.format(folder=str(folder)))
    assert reset["data"]["observation"]["tries_left"] == 10
    assert step["data"]["observation"]["hint"] == "right" and step["data"]["done"] and step["data"]["reward"] == 1.0
    assert (refused["data"]["code"], state["data"]["step_count"]) == ("VALIDATION_ERROR", 1)


@pytest.mark.peers
def test_reports_agree_with_openenvs_own(folder, paddock):
    program = f"""
    import json
    from pathlib import Path
    from openenv.validation import Level, run_validation
    print(run_validation(Path({str(folder)!r}), max_level=Level.STATIC).model_dump_json())
    """
    theirs, ours = run_with_peer("openenv10", program), paddock("openenv", "validate", str(folder), "--json").document
    for report in (theirs, ours):
        report["results"] = [{**report["results"][0], "duration_s": 0, "evidence": []}]
        report["verdict"] = ""
    assert ours == theirs
