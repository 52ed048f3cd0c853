"""An agent's program in PythonCode changes nothing but its own answers, whatever it tries.

Each attempt is made twice: on a grader that was written carelessly, where it succeeds (or it would show nothing), and
in PythonCode, where the score is that of any wrong answer, and of a right one for a program that is right besides.
"""

import http.server
import os
import threading
from pathlib import Path

import pytest

import paddock
from paddock.agentic import CallTool
from paddock.agentic.envs.python_code import PROBLEMS
from tests.agentic.envs.solutions import solution
from tests.agentic.tampering.attempts import ATTEMPTS, WRONG
from tests.agentic.tampering.careless import graded
from tests.sandbox.workers import needs_linux

pytestmark = needs_linux
INDEX = next(at for at, one in enumerate(PROBLEMS["test"]) if one.family.name == "digit_sum")
PROBLEM = PROBLEMS["test"][INDEX]
TESTS = PROBLEM.task(INDEX).hidden["tests"]
SOURCE = Path(paddock.__file__).resolve().parents[1]


@pytest.fixture(scope="module", params=["sandbox", "landlock"])
def env(request):
    """One for all attempts: what one of them leaves behind would show in the next."""
    with paddock.make("paddock/PythonCode", isolation=request.param) as env:
        yield env


class _Answers(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.asked.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def listener():
    """Whoever can reach it could reach a server of environments."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def places(tmp_path, listener):
    """What the attempts are told: more than an agent would know."""
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"type": "header"}\n')
    trace.chmod(0o666)
    listener.asked.clear()
    return {"source": SOURCE, "trace": trace, "port": listener.server_port, "index": INDEX}


def submit(env, code):
    """The score, as the environment and its verdict tell it."""
    env.reset(options={"split": "test", "index": INDEX})
    observation, reward, terminated, truncated, info = env.step(CallTool("submit", {"code": code}))
    assert (terminated, truncated, observation.error) == (True, False, None)
    assert info["rubric"]["score"] == reward
    assert (observation.result["passed"], observation.result["tests"]) == (info["passed"], info["tests"])
    return reward, info["passed"], info["tests"]


@pytest.mark.process
def test_scores_of_plain_answers(env, tmp_path):
    assert submit(env, WRONG) == (0.0, 0, 10)
    assert submit(env, solution(PROBLEM)) == (1.0, 10, 10)


@pytest.mark.process
def test_the_careless_graders_score_plain_answers_alike(tmp_path):
    for apart in (False, True):
        assert graded(WRONG, TESTS, tmp_path, apart=apart).by_file == 0.0
        assert graded(solution(PROBLEM), TESTS, tmp_path, apart=apart).by_file == 1.0


@pytest.mark.process
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
def test_without_the_wall_it_would_bite(attempt, places, tmp_path):
    if attempt.apart and os.geteuid() != 0 and Path("/proc/sys/kernel/yama/ptrace_scope").exists():
        pytest.skip("a child may not look into its parent here (yama): runs as root")
    code = attempt.program(control=True, **places)
    try:
        assert attempt.bites(graded(code, TESTS, tmp_path, apart=attempt.apart))
    finally:
        for folder in ("/tmp", "/"):  # where one of them leaves a module, which here is the machine's
            Path(folder, "csv.py").unlink(missing_ok=True)


@pytest.mark.process
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
def test_it_changes_nothing(attempt, env, places, listener):
    code = attempt.program(**places)
    assert submit(env, code) == (0.0, 0, 10)
    if not attempt.ends_itself:
        env.reset(options={"split": "test", "index": INDEX})
        _, reward, terminated, _, _ = env.step(CallTool("run_code", {"code": code}))
        assert (reward, terminated) == (0.0, False)
        assert submit(env, attempt.program(solve=solution(PROBLEM), **places)) == (1.0, 10, 10)
    assert submit(env, WRONG) == (0.0, 0, 10)
    assert submit(env, solution(PROBLEM)) == (1.0, 10, 10)
    assert places["trace"].read_text() == '{"type": "header"}\n'
    assert listener.asked == []


def test_there_are_enough_attempts():
    assert len({attempt.name for attempt in ATTEMPTS}) == len(ATTEMPTS) >= 15


@pytest.mark.process
def test_no_process_can_be_made_at_all(env, places):
    attempt = next(one for one in ATTEMPTS if one.name == "make many processes")
    env.reset(options={"split": "test", "index": INDEX})
    found = env.step(CallTool("run_code", {"code": attempt.program(**places) + "print(made)"}))[0].result
    assert found["stdout"] == "0\n"


@pytest.mark.process
def test_hidden_arguments_do_not_come_back_with_the_verdict(env):
    """They must go into the workspace; what it says of them goes nowhere."""
    tell = "def solve(*a):\n    print(a)\n    raise type(str(a), (Exception,), {})(a)\n"
    env.reset(options={"split": "test", "index": INDEX})
    observation, *_, info = env.step(CallTool("submit", {"code": tell}))
    for arguments, _ in TESTS:
        if arguments[0] > 99:
            assert str(arguments[0]) not in repr(observation) + repr(info)
