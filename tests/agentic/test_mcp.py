"""External MCP servers as tools of an environment: as a program behind a wall, and by HTTP."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import paddock
from paddock import Policy
from paddock.agentic import CallTool, Mcp, Say, Task, Tasks, ToolEnv, rollout, tool
from paddock.errors import EpisodeFailed, InvalidTool, PlanError, SnapshotUnsupported
from paddock.record.trace import TraceReader
from tests.agentic.mcp_server import Server

PROGRAM = Path(__file__).with_name("mcp_server.py")
PYTHON = "/usr/bin/python3"  # behind a wall there is no venv
ALLOWED = Policy(programs=(PYTHON,), processes=8, read=(str(PROGRAM),), call_s=60.0)


class Desk(ToolEnv):
    """Has a tool of its own, and those of others."""

    tasks = Tasks(train=[Task(prompt="Work.")])
    note_of = None

    def __init__(self, *servers):
        self.servers = servers

    @tool
    def stop(self) -> str:
        """Stop."""
        self.award(1.0)
        self.finish()
        return "bye"


class Wire(BaseHTTPRequestHandler):
    """Answers by plain JSON, or by events; each session has a server of its own."""

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        kept = self.server
        kept.tokens.append(self.headers.get("authorization"))
        session = self.headers.get("mcp-session-id")
        if message.get("method") == "initialize":
            session = f"s{len(kept.sessions)}"
            kept.sessions[session] = Server()
        elif session not in kept.sessions:
            return self.respond(404, b"")
        elif self.headers.get("mcp-protocol-version") != "2025-11-25":
            return self.respond(400, b"no version")
        answers = kept.sessions[session].answer(message)
        if answers is None:
            return self.connection.close()
        if not answers:
            return self.respond(202, b"")
        if kept.events:
            body = b"".join(b"event: message\ndata: " + json.dumps(one).encode() + b"\n\n" for one in answers)
            return self.respond(200, body, "text/event-stream", session)
        return self.respond(200, json.dumps(answers[-1]).encode(), "application/json", session)

    def do_DELETE(self):
        self.server.ended.append(self.headers["mcp-session-id"])
        self.respond(204, b"")

    def respond(self, status, body, kind="text/plain", session=None):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if session:
            self.send_header("mcp-session-id", session)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(params=[False, True], ids=["json", "events"])
def wire(request):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Wire)
    server.sessions, server.ended, server.tokens, server.events = {}, [], [], request.param
    server.url = f"http://127.0.0.1:{server.server_port}/mcp"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def program():
    return Mcp([PYTHON, str(PROGRAM)], policy=ALLOWED)


def call(env, name, text="a"):
    return env.step(CallTool(name, {"text": text}))[0]


def check_all_tools(env):
    observation, info = env.reset()
    assert [one.name for one in observation.tools][:3] == ["stop", "echo", "count"] and len(observation.tools) == 11
    assert info["servers"] == [{"name": "trouble", "version": "1"}]
    assert call(env, "echo", "hé").content[0].text == "hé"
    assert call(env, "odd_name", "b").content[0].text == "b"
    assert call(env, "structured", "c").result == [1, "c"]
    assert call(env, "picture").content[0].data == "aGk="
    assert (call(env, "fail").error.error_type, call(env, "fail").error.message) == ("execution_error", "It failed.")
    assert call(env, "refuse", "x").error.message == "I refuse x."
    assert call(env, "nope").error.error_type == "tool_not_found"
    assert env.step(CallTool("echo", {"text": "z"}))[1] == 0.0


def test_tools_of_a_server_by_http(wire):
    with paddock_env(Desk(Mcp(wire.url))) as env:
        check_all_tools(env)
    assert wire.ended == ["s0"]


@pytest.mark.process
def test_tools_of_a_program_behind_a_wall(program):
    with paddock_env(Desk(program)) as env:
        check_all_tools(env)


def paddock_env(env):
    paddock.register("test/Desk-v0", lambda: env)
    try:
        return paddock.make("test/Desk-v0")
    finally:
        del paddock.registry["test/Desk-v0"]


@pytest.mark.process
def test_program_reaches_neither_files_nor_variables(program, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("sesame")
    monkeypatch.setenv("SECRET_KEY", "sesame")
    with Desk(program) as env:
        env.reset()
        assert call(env, "wander", str(tmp_path / "secret")).content[0].text in ("FileNotFoundError", "PermissionError")
        assert call(env, "wander", "$SECRET_KEY").content[0].text == "None"


@pytest.mark.process
def test_program_that_ends_breaks_the_episode_and_the_next_one_has_another(program):
    with Desk(program) as env:
        env.reset()
        with pytest.raises(EpisodeFailed, match="was lost in a call of die"):
            call(env, "die")
        env.reset()
        assert call(env, "echo").content[0].text == "a"


def test_each_episode_has_a_session_of_its_own_unless_it_is_kept(wire):
    for keep, counts in ((False, ["1", "2", "1"]), (True, ["1", "2", "3"])):
        with Desk(Mcp(wire.url, keep=keep)) as env:
            env.reset()
            first = [call(env, "count").content[0].text for _ in range(2)]
            env.reset()
            assert [*first, call(env, "count").content[0].text] == counts


def test_answer_that_never_comes_by_http_breaks_the_episode(wire):
    with Desk(Mcp(wire.url)) as env:
        env.reset()
        with pytest.raises(EpisodeFailed, match="was lost in a call of hang"):
            call(env, "hang")


@pytest.mark.process
def test_program_that_does_not_answer_is_a_timeout_and_a_late_answer_is_not_taken_for_another():
    with Desk(Mcp([PYTHON, str(PROGRAM)], policy=ALLOWED, timeout_s=2.0)) as env:
        env.reset()
        assert call(env, "hang").error.error_type == "timeout"
        assert call(env, "echo", "b").content[0].text == "b"


def test_tools_can_be_chosen_and_have_a_prefix(wire):
    with Desk(Mcp(wire.url, prefix="x_", tools=["echo"]), Mcp(wire.url, tools=["echo"])) as env:
        assert [one.name for one in env.reset()[0].tools] == ["stop", "x_echo", "echo"]
    with Desk(Mcp(wire.url, tools=["nope"])) as env, pytest.raises(InvalidTool, match="has no tool 'nope'"):
        env.reset()
    with Desk(Mcp(wire.url), Mcp(wire.url)) as env, pytest.raises(InvalidTool, match="Pass prefix="):
        env.reset()


def test_token_is_read_from_a_variable_and_goes_nowhere_else(wire, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "sesame")
    server = Mcp(wire.url, token_env="MY_TOKEN")
    with Desk(server) as env:
        env.reset()
        call(env, "echo")
    assert set(wire.tokens) == {"Bearer sesame"} and "sesame" not in repr(server)


def test_calls_are_in_traces(wire, tmp_path):
    moves = [CallTool("echo", {"text": "a"}), CallTool("nope", {}), CallTool("stop", {})]
    played = rollout(
        lambda: Desk(Mcp(wire.url)), lambda turn: moves[turn.number], trace=tmp_path / "run.jsonl", progress=False
    )
    assert played[0].total_return == 1.0
    (episode,) = TraceReader(tmp_path / "run.jsonl")
    assert episode.info["servers"] == [{"name": "trouble", "version": "1"}]
    assert episode.steps[0].observation.content[0].text == "a"
    assert episode.steps[1].observation.error.error_type == "tool_not_found"


def test_server_that_is_not_there_fails_the_episode():
    with Desk(Mcp("http://127.0.0.1:1/mcp")) as env, pytest.raises(EpisodeFailed, match="can't be used"):
        env.reset()
    with Desk(Mcp(["no-such-program"])) as env, pytest.raises(EpisodeFailed, match="no program 'no-such-program'"):
        env.reset()


def test_mistakes_are_told_before_anything_starts(monkeypatch):
    for wrong in ([], "ftp://a/mcp", "http://user:secret@a/mcp"):
        with pytest.raises(PlanError):
            Mcp(wrong)
    with pytest.raises(PlanError, match="Use https"):
        Mcp("http://elsewhere.example/mcp", token_env="MY_TOKEN")


def test_environment_with_servers_has_no_snapshot(wire):
    with Desk(Mcp(wire.url)) as env:
        env.reset()
        with pytest.raises(SnapshotUnsupported, match="MCP servers"):
            env.fork()


@pytest.mark.process
def test_environment_behind_the_wall_starts_its_server_by_its_permissions(tmp_path):
    folder = tmp_path / "desk"
    folder.mkdir()
    (folder / "desk_env.py").write_text(
        f"""
from paddock.agentic import Mcp, Task, Tasks, ToolEnv


class Desk(ToolEnv):
    "Has a server's tools."
    tasks = Tasks(train=[Task(prompt="Work.")])
    servers = [Mcp([{PYTHON!r}, {str(PROGRAM)!r}])]
"""
    )
    (folder / "paddock.toml").write_text(
        """
[package]
name = "desk"
version = "1.0"
[[env]]
id = "Desk-v0"
entry = "desk_env:Desk"
"""
    )
    granted = Policy(workspaces=1, workspace=ALLOWED)
    with paddock.make(folder, isolation=granted) as env:
        env.reset()
        assert env.step(CallTool("echo", {"text": "b"}))[0].content[0].text == "b"
        assert any(one["name"] == "echo" for one in env.metadata["tools"])
    with pytest.raises(Exception, match="workspaces"):
        paddock.make(folder, isolation=Policy())


def test_words_still_reach_the_environment(wire):
    with Desk(Mcp(wire.url)) as env:
        env.reset()
        assert env.step(Say("done"))[2]
