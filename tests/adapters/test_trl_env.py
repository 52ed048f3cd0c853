"""The classes that TRL gets, used as TRL uses them; TRL itself is in test_trl.py."""

import asyncio
import gc
import inspect
import json
import pickle
import subprocess
import sys
import textwrap
import time
import urllib.request
from types import SimpleNamespace
from typing import Literal

import pytest

from paddock.adapters.trl import SeatRules, env_reward, environment_factory, rollout_func, task_rows
from paddock.agentic import Image, Message, Task, Tasks, Text, ToolEnv, tool
from paddock.core.registry import register
from paddock.errors import DependencyNotInstalled, InvalidTask, NameNotFound, PlanError, ToolFailed
from tests.peers import ROOT
from tests.server.serving import wait_until
from tests.serving import serving, shared

FOLDER = ROOT / "tests" / "adapters" / "buttons"
BUTTONS, ANSWERS = f"{FOLDER}:Buttons-v0", f"{FOLDER}:Answers-v0"


class Counter(ToolEnv):
    """Counts."""

    tasks = Tasks(
        train=lambda i: Task(prompt=f"Count from {i}.", seed=i),
        test=[Task(prompt=[Message("system", [Text("Be brief.")]), Message("user", [Text("Count.")])])],
    )

    def begin(self, task):
        self.count, self.drawn = 0, int(self.np_random.integers(1_000_000))

    @tool
    def add(self, number: int, kind: Literal["up", "down"] = "up") -> str:
        """Add a number.

        Args:
            number: how much.
            kind: which way.
        """
        self.count += number if kind == "up" else -number
        self.award(0.5)
        if self.count > 9:
            self.finish()
        return f"{self.count}"

    @tool
    def draw(self) -> int:
        """Draw a number."""
        return self.drawn

    @tool
    def show(self) -> list[Text | Image]:
        """Show a picture."""
        return [Text("see"), Image("aGk=")]

    @tool(on_error="end")
    def collapse(self) -> str:
        """Fail, and end the episode."""
        raise RuntimeError("dust")

    @tool
    def episode(self) -> str:
        """A tool by a name that is taken."""
        return "mine"

    def listen(self, text):
        return f"You said {text}."


@pytest.fixture
def counter(fresh_registry):
    register("test/Counter-v0", entry_point=Counter)
    return "test/Counter-v0"


def call(coroutine):
    return asyncio.run(coroutine)


def test_public_functions_are_the_tools_and_what_trl_asks_for(counter):
    made = environment_factory(counter)
    public = {name for name, _ in inspect.getmembers(made, inspect.isfunction) if not name.startswith("_")}
    assert public == {"add", "draw", "show", "collapse", "episode_", "reset", "get_reward"}
    assert all(inspect.iscoroutinefunction(getattr(made, name)) for name in public - {"reset", "get_reward"})


def test_method_looks_like_the_tool(counter):
    made = environment_factory(counter)
    assert str(inspect.signature(made.add)) == "(self, number: int, kind: Literal['down', 'up'] = 'up') -> str"
    assert inspect.getdoc(made.add) == "Add a number.\n\nArgs:\n    number: how much.\n    kind: which way."
    assert (made.__name__, made.__doc__, made.add.__name__) == ("Counter", "Counts.", "add")


def test_an_episode_as_trl_plays_it(counter):
    env = environment_factory(counter)()
    assert env.reset(prompt=[{"role": "user", "content": "ignored"}], index=4, answer="ignored") == "Count from 4."
    assert call(env.add(number=3)) == "3"
    assert call(env.add(2, "down")) == "1"
    assert (env.get_reward(), env.episode.over) == (1.0, False)
    assert call(env.add(number=9)) == "10"
    assert (env.get_reward(), env.episode.terminated) == (1.5, True)
    with pytest.raises(ToolFailed, match=r"The episode is over\."):
        call(env.add(number=1))
    assert call(_after(env)) == "mine"


async def _after(env):
    env.reset()
    return await env.episode_()


def test_errors_of_a_tool_are_raised_with_words_for_the_model(counter):
    env = environment_factory(counter)()
    env.reset()
    for bad in ({"number": "x"}, {"number": 1, "other": 2}, {}, {"number": float("nan")}):
        with pytest.raises(ToolFailed, match="number|other"):
            call(env.add(**bad))
    assert call(env.add(number=1)) == "1"
    assert env.get_reward() == 0.5


def test_episode_that_fails_has_no_reward_and_the_next_one_has(counter):
    made = environment_factory(counter)
    env = made()
    env.reset()
    call(env.add(number=1))
    with pytest.raises(ToolFailed, match="does not count"):
        call(env.collapse())
    assert env.get_reward() is None
    assert "collapse failed: RuntimeError" in env.episode.failure
    with pytest.raises(ToolFailed, match="does not count"):
        call(env.add(number=1))
    env.reset()
    call(env.add(number=1))
    assert (env.get_reward(), made.failures.failed) == (0.5, 1)


def test_calls_of_one_turn_are_done_in_their_order(counter):
    env = environment_factory(counter)()
    env.reset()

    async def turn():
        return await asyncio.gather(*(env.add(number=1) for _ in range(5)))

    assert call(turn()) == ["1", "2", "3", "4", "5"]


def test_row_chooses_split_index_and_seed(counter):
    made = environment_factory(counter)
    one, other = made(), made()
    assert one.reset(split="test") == "Be brief.\nCount."
    one.reset(index=3), other.reset(index=3)
    assert call(one.draw()) == call(other.draw())
    one.reset(seed=8, index=4), other.reset(seed=8, index=5)
    assert call(one.draw()) == call(other.draw())
    other.reset(index=None, split=None, seed=None)
    with pytest.raises(InvalidTask):
        one.reset(split="none")


def test_seed_of_the_factory_begins_each_instance_otherwise_and_runs_repeat(counter):
    def drawn():
        made = environment_factory(counter, seed=5)
        instances = [made() for _ in range(3)]
        found = []
        for _ in range(2):
            for one in instances:
                one.reset()
                found.append(call(one.draw()))
        return found

    first = drawn()
    assert len(set(first)) == 6
    assert first == drawn()


def test_prompt_may_be_left_to_the_dataset(counter):
    assert environment_factory(counter, prompt=False)().reset() is None


def test_images_come_as_blocks_by_pillow(counter, monkeypatch):
    env = environment_factory(counter)()
    env.reset()
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DependencyNotInstalled, match="pillow"):
        call(env.show())
    monkeypatch.setitem(sys.modules, "PIL", SimpleNamespace(Image=SimpleNamespace(open=lambda file: file.read())))
    assert call(env.show()) == [{"type": "text", "text": "see"}, {"type": "image", "image": b"hi"}]


def test_words_are_a_tool_where_that_is_asked_for(counter):
    made = environment_factory(counter, say="answer")
    env = made()
    env.reset()
    assert call(env.answer(text="so")) == "You said so."
    assert str(inspect.signature(made.answer)) == "(self, text: str) -> str"


def test_environment_without_tools_is_refused_with_ways_out():
    with pytest.raises(PlanError, match=r"CartPole-v1 has no tools.*rollout_func.*say="):
        environment_factory("CartPole-v1")


def test_mistakes_show_when_the_factory_is_made():
    with pytest.raises(NameNotFound):
        environment_factory("paddock/NoSuch")


def test_class_crosses_to_a_process_of_trls(counter):
    made = environment_factory(counter, seed=4, name="Mine", rules=SeatRules(attempts=1))
    again = pickle.loads(pickle.dumps(made))
    assert again is not made
    assert (again.__name__, again._plan) == ("Mine", made._plan)


@pytest.mark.process
def test_folder_runs_behind_its_wall_and_death_is_none():
    made = environment_factory(BUTTONS)
    env = made()
    assert env.reset(split="fixed") == "Press blue"
    assert call(env.press(colour="blue")) == "You pressed blue."
    assert env.get_reward() == 1.0
    env.reset()
    with pytest.raises(ToolFailed, match="does not count"):
        call(env.explode())
    assert env.get_reward() is None
    assert (made.failures.episodes, made.failures.failed) == (2, 1)
    env.reset(split="fixed")
    assert call(env.press(colour="red")) == "You pressed red."
    assert env.get_reward() == 0.0


@pytest.mark.process
def test_task_rows_name_each_task_for_both_ways(counter):
    task = {"split": "train", "index": 5}
    prompt = [{"role": "user", "content": "", "task": task}]
    assert task_rows(counter, start=5, count=1) == [{"prompt": prompt, **task}]
    assert [row["index"] for row in task_rows(counter, "test", count=9)] == [0]
    assert [row["index"] for row in task_rows(BUTTONS)] == [0, 1, 2, 3]
    with pytest.raises(PlanError, match="endless.*count"):
        task_rows(counter)
    with pytest.raises(PlanError, match="no tasks"):
        task_rows("CartPole-v1")
    with pytest.raises(InvalidTask):
        task_rows(counter, "none")


def test_rollout_func_needs_trl_and_turns():
    with pytest.raises(DependencyNotInstalled, match="trl"):
        rollout_func("paddock/Echo")


def test_env_reward_hands_on_what_the_environment_gave():
    assert env_reward(prompts=[], completions=[], env_reward=[1.0, None]) == [1.0, None]


# At a server.


server = shared(lambda _: serving(BUTTONS, ANSWERS))


@pytest.mark.process
def test_served_environments_step_at_once(server, tmp_path):
    made = environment_factory(server.with_token("/Buttons-v0"))
    instances = [made() for _ in range(6)]
    for one in instances:
        assert one.reset(split="fixed") == "Press blue"

    async def all_of_them():
        return await asyncio.gather(*(one.nap(seconds=0.5) for one in instances))

    began_s = time.monotonic()
    assert call(all_of_them()) == ["Slept."] * 6
    assert time.monotonic() - began_s < 6 * 0.5


@pytest.mark.process
def test_server_that_goes_away_gives_no_reward(counter):
    with serving(BUTTONS) as server:
        made = environment_factory(server.with_token("/Buttons-v0"), rules=SeatRules(attempts=1, timeout_s=3.0))
        env = made()
        env.reset()
        server.process.kill()
        server.process.wait()
        with pytest.raises(ToolFailed, match="does not count"):
            call(env.look())
        assert env.get_reward() is None
        assert env.reset() is None
        assert env.get_reward() is None
        assert made.failures.failed == 2


def sessions(server):
    request = urllib.request.Request(f"{server.url}/sessions", headers={"Authorization": f"Bearer {server.token}"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return len(json.load(response)["sessions"])


@pytest.mark.process
def test_sessions_end_with_their_instances(server):
    before = sessions(server)
    made = environment_factory(server.with_token("/Buttons-v0"))
    instances = [made() for _ in range(3)]
    for one in instances:
        one.reset()
    assert sessions(server) >= before + 3
    del one, instances
    gc.collect()
    wait_until(lambda: sessions(server) <= before, within_s=20)


@pytest.mark.process
def test_sessions_end_with_python(server):
    before = sessions(server)
    program = """
    import sys
    from paddock.adapters.trl import environment_factory
    made = environment_factory(sys.argv[1])
    kept = [made() for _ in range(2)]
    print([one.reset(split="fixed") for one in kept])
    """
    url = server.with_token("/Buttons-v0")
    command = [sys.executable, "-c", textwrap.dedent(program), url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(ROOT / "src")})
    assert (done.stdout, done.stderr) == ("['Press blue', 'Press blue']\n", "")
    wait_until(lambda: sessions(server) <= before, within_s=5)  # at once, not when they may no longer be resumed


@pytest.mark.process
def test_token_of_a_url_is_shown_nowhere(server):
    made = environment_factory(server.with_token("/Buttons-v0"))
    assert server.token not in repr(made._plan) + repr(made) + made.__name__ + made.__doc__
    with pytest.raises(PlanError) as caught:
        environment_factory(server.with_token("/Answers-v0"))
    assert server.token not in str(caught.value) and "Answers-v0 has no tools" in str(caught.value)


@pytest.mark.process
def test_tasks_of_a_served_environment(server):
    assert [row["index"] for row in task_rows(server.with_token("/Answers-v0"), "train")] == [0, 1, 2, 3]


@pytest.mark.process
def test_options_of_make_that_a_server_decides_are_refused(server):
    with pytest.raises(PlanError, match="isolation"):
        environment_factory(server.with_token("/Buttons-v0"), isolation="sandbox")
