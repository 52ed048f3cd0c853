"""PythonCode: programs run apart, results come back as data, and the machine's faults are never the agent's."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import paddock
from paddock.agentic import CallTool, Say
from paddock.agentic.envs.coding import workspace
from paddock.agentic.envs.coding.families import FAMILIES
from paddock.agentic.envs.python_code import MAX_CODE_CHARS, PROBLEMS, Problem, PythonCode
from paddock.errors import EpisodeFailed, ResetNeeded, SandboxUnavailable
from paddock.sandbox import Policy
from paddock.testing import check_env
from tests.agentic.envs.solutions import nearly, solution
from tests.sandbox.workers import leftovers, needs_linux
from tests.serving import serving

pytestmark = needs_linux
TASK = {"split": "test", "index": 4}
TRACE = """\
Traceback (most recent call last):
  File "main.py", line 1, in <module>
ZeroDivisionError: division by zero
"""


@pytest.fixture
def env():
    with paddock.make("paddock/PythonCode") as env:
        env.reset(options=TASK)
        yield env


def run(env, code):
    return env.step(CallTool("run_code", {"code": code}))[0].result


def submit(env, code):
    observation, reward, terminated, truncated, info = env.step(CallTool("submit", {"code": code}))
    assert (terminated, truncated) == (True, False)
    assert (observation.result["passed"], observation.result["tests"]) == (info["passed"], info["tests"])
    return reward, observation.result


@pytest.mark.process
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_right_solution_is_worth_1_and_one_that_is_nearly_right_nothing(family):
    problem = Problem(family, family.variants[-1])

    class Only(PythonCode):
        """One problem."""

        tasks = paddock.agentic.Tasks(train=[problem.task(7)])

    env = Only()
    env.reset()
    assert submit(env, solution(problem)) == (1.0, {"passed": 10, "tests": 10, "ended": "exit", "remark": ""})
    env.reset()
    reward, verdict = submit(env, nearly(problem, problem.task(7).hidden["tests"][-1][0]))
    assert (reward, verdict["passed"]) == (0.0, 9)
    env.close()


@pytest.mark.process
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print('out')\nimport sys\nprint('err', file=sys.stderr)", ("out\n", "err\n", 0, "exit")),
        ("raise SystemExit(7)", ("", "", 7, "exit")),
        ("exit_code = 3\nimport sys; sys.exit('no')", ("", "no\n", 1, "exit")),
        ("import os\nprint('é', flush=True)\nos._exit(5)", ("é\n", "", None, "exit")),
        ("import os\nos.kill(os.getpid(), 11)", ("", "", None, "crash")),
        ("print(input())", ("", ..., 1, "exit")),
        (
            "1/0",
            (
                "",
                TRACE,
                1,
                "exit",
            ),
        ),
        ("def f(:", ("", ..., 1, "exit")),
        ("import atexit\natexit.register(print, 'late')\nprint('soon')", ("soon\nlate\n", "", 0, "exit")),
        ("x = bytearray(1 << 30)", (..., ..., ..., ...)),
        ("import dataclasses, json, re, decimal, itertools\nprint(__name__)", ("__main__\n", "", 0, "exit")),
    ],
)
def test_a_run_tells_what_was_printed_and_how_it_ended(env, code, expected):
    found = run(env, code)
    for name, wanted in zip(("stdout", "stderr", "exit_code", "ended"), expected, strict=True):
        assert wanted is ... or found[name] == wanted, (name, found)


@pytest.mark.process
def test_too_much_memory_ends_a_run(env):
    found = run(env, "x = []\nwhile True: x.append(bytearray(1 << 24))")
    assert found["ended"] == "memory" or "MemoryError" in found["stderr"]  # the latter where there is no cgroup


@pytest.mark.process
def test_a_flood_is_cut_and_ended(env):
    found = run(env, "while True: print('x' * 1000)")
    assert found["ended"] == "flood"
    assert len(found["stdout"]) < 17_000
    assert found["stdout"].endswith("more bytes]")


@pytest.mark.process
def test_much_output_is_cut_and_told(env):
    found = run(env, "print('x' * 100_000)")
    assert (found["ended"], found["exit_code"]) == ("exit", 0)
    assert found["stdout"].endswith("\n[84001 more bytes]")


@pytest.mark.process
def test_a_run_that_waits_too_long_is_ended_and_what_it_printed_is_told(env, monkeypatch):
    monkeypatch.setattr(workspace, "RUN_S", 0.5)
    found = run(env, "print('begun')\nimport time\ntime.sleep(60)")
    assert (found["stdout"], found["ended"], found["exit_code"]) == ("begun\n", "timeout", None)


@pytest.mark.process
def test_a_run_that_computes_too_long_is_ended(env):
    found = run(env, "import resource\nprint(resource.getrlimit(resource.RLIMIT_CPU)[0])\nwhile True: pass")
    assert (found["stdout"], found["ended"]) == ("5\n", "timeout")


@pytest.mark.process
def test_a_solution_that_never_ends_has_what_it_answered_until_then(env, monkeypatch):
    monkeypatch.setattr(workspace, "RUN_S", 1.0)
    reward, verdict = submit(env, "def solve(*a):\n    while True: pass")
    assert (reward, verdict["passed"], verdict["ended"]) == (0.0, 0, "timeout")


@pytest.mark.process
def test_nothing_of_a_run_is_there_in_the_next(env):
    assert run(env, "open('/tmp/note', 'w').write('x')\nprint(open('/tmp/note').read())")["stdout"] == "x\n"
    assert "FileNotFoundError" in run(env, "open('/tmp/note')")["stderr"]


@pytest.mark.process
def test_code_that_does_not_fit_through_the_socket_at_once_arrives_whole(env):
    code = "#" * 49_000 + "\nprint('whole')"
    assert run(env, code)["stdout"] == "whole\n"


@pytest.mark.process
@pytest.mark.parametrize(
    "code", ["", "solve = 3", "def other(): pass", "1/0", "import os; os._exit(0)", "def solve(:", "raise SystemExit"]
)
def test_a_program_without_answers_is_a_wrong_one(env, code):
    reward, verdict = submit(env, code)
    assert (reward, verdict["passed"], verdict["tests"]) == (0.0, 0, 10)


@pytest.mark.process
def test_a_program_with_the_function_but_an_error_afterwards_still_answers(env):
    problem = PROBLEMS["test"][TASK["index"]]
    assert submit(env, solution(problem) + "\n1/0")[0] == 1.0


@pytest.mark.process
def test_a_program_between_fences_is_submitted_by_saying_it(env):
    problem = PROBLEMS["test"][TASK["index"]]
    text = f"First:\n```python\nnot this\n```\nthen\n```python\n{solution(problem)}```\nDone."
    observation, reward, terminated, _, info = env.step(Say(text))
    assert (reward, terminated, info["passed"]) == (1.0, True, 10)
    assert observation.content[0].text == "10 of 10 tests passed."


def test_words_alone_end_the_episode_without_reward(env):
    observation, reward, terminated, _, info = env.step(Say("I give up."))
    assert (reward, terminated) == (0.0, True)
    assert "passed" not in info


def test_a_program_that_is_too_long_is_a_tool_error(env):
    observation, reward, terminated, _, _ = env.step(CallTool("submit", {"code": "#" * (MAX_CODE_CHARS + 1)}))
    assert (observation.error.error_type, reward, terminated) == ("execution_error", 0.0, False)


@pytest.mark.process
def test_a_machine_without_a_wall_fails_the_episode_and_not_the_agent(env, monkeypatch):
    def none(*_):
        raise SandboxUnavailable("no namespaces here")

    with monkeypatch.context() as patched:
        patched.setattr(workspace, "workspace", none)
        for tool in ("run_code", "submit"):
            with pytest.raises(EpisodeFailed, match="no namespaces here"):
                env.step(CallTool(tool, {"code": ""}))
            env.reset(options=TASK)
        with pytest.raises(EpisodeFailed):
            env.step(Say("```\n```"))
    with pytest.raises(ResetNeeded):
        run(env, "")
    env.reset(options=TASK)
    assert run(env, "print(1)")["stdout"] == "1\n"


@pytest.mark.process
def test_a_workspace_that_does_not_start_fails_the_episode(env, monkeypatch):
    monkeypatch.setattr(workspace, "_program", lambda: "raise SystemExit")
    with pytest.raises(EpisodeFailed, match="did not start"):
        run(env, "print(1)")


@pytest.mark.process
def test_behind_a_wall_without_workspaces_the_episode_fails():
    with paddock.make("paddock/PythonCode", isolation=Policy()) as env:
        env.reset(options=TASK)
        with pytest.raises(EpisodeFailed, match="grants no workspaces"):
            env.step(CallTool("run_code", {"code": ""}))


def episode(env, index):
    """A whole one: what it printed, and its reward."""
    problem = PROBLEMS["test"][index]
    env.reset(options={"split": "test", "index": index})
    printed = env.step(CallTool("run_code", {"code": f"print({index})"}))[0].result["stdout"]
    return printed, env.step(CallTool("submit", {"code": solution(problem)}))[1]


@pytest.mark.process
@pytest.mark.parametrize("isolation", [None, "process", "landlock", "sandbox", "auto"])
def test_it_works_behind_every_wall(isolation):
    with paddock.make("paddock/PythonCode", isolation=isolation) as env:
        assert [episode(env, index) for index in (0, 1)] == [("0\n", 1.0), ("1\n", 1.0)]


@pytest.mark.process
def test_many_at_once_do_not_mix_and_leave_nothing_behind():
    before = leftovers()
    with paddock.warm("paddock/PythonCode", spares=2), ThreadPoolExecutor(6) as threads:
        envs = list(threads.map(lambda _: paddock.make("paddock/PythonCode", isolation="sandbox"), range(6)))
        found = [one for first in (0, 6) for one in threads.map(episode, envs, range(first, first + 6))]
        for env in envs:
            env.close()
    assert found == [(f"{index}\n", 1.0) for index in range(12)]
    assert not {one for one in leftovers() - before if one[0] != "descriptor"}


@pytest.mark.process
def test_lanes_in_one_worker_share_its_door():
    with paddock.make_vec("paddock/PythonCode", 2, isolation="sandbox", lanes=paddock.LaneOptions(workers=1)) as envs:
        envs.reset(seed=0)
        actions = [CallTool("run_code", {"code": f"print({lane})"}) for lane in range(2)]
        observations = envs.step(tuple(actions))[0]
        assert [one.result["stdout"] for one in observations] == ["0\n", "1\n"]


@pytest.mark.process
def test_it_works_over_a_server():
    with serving("paddock/PythonCode") as server, ThreadPoolExecutor(3) as threads:
        envs = [paddock.make(server.with_token("/paddock%2FPythonCode")) for _ in range(3)]
        try:
            assert list(threads.map(episode, envs, range(3))) == [(f"{index}\n", 1.0) for index in range(3)]
        finally:
            for env in envs:
                env.close()


@pytest.mark.process
def test_threads_of_one_process_may_run_programs_at_the_same_time():
    start = threading.Barrier(4)

    def one(number):
        start.wait()
        return workspace.run_program(f"print({number})").stdout

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(one, range(4))) == [f"{number}\n" for number in range(4)]


def test_python_code_passes_the_checker():
    check_env(PythonCode())
