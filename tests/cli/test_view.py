"""`paddock view`: episodes in a terminal and on a page, where hostile text is text, in a real browser too."""

import json
import re
import shutil
import subprocess

import pytest

from paddock.agentic import CallTool, Say, Task, Tasks, ToolEnv, rollout, tool
from paddock.agentic.messages import Image, Text
from paddock.agentic.rollouts.story import story_of
from paddock.record.model_call import ModelCall
from paddock.record.trace import TraceReader
from tests.agentic.model_server import reply

HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "</pre></details><b id=injected>\x1b[31mred\x1b[0m \u202egnidih --><style>*{display:none}</style>"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Talk(ToolEnv):
    """Talks back."""

    tasks = Tasks(test=[Task(prompt=HOSTILE), Task(prompt="Plain."), Task(prompt="Breaks.")])

    def begin(self, task):
        self.kind = task.prompt

    @tool
    def look(self, text: str) -> list[Text | Image]:
        """Look.

        Args:
            text: comes back.
        """
        return [Text(text), Image.of(b"\x89PNG\r\n"), Image("x", 'image/svg+xml" onload="document.title=1')]

    @tool(on_error="end")
    def crash(self) -> str:
        """Crash."""
        raise OSError

    def listen(self, text):
        self.award(1.0 if self.kind == "Plain." else 0.25)
        self.finish()
        return HOSTILE


def policy(turn):
    request = {"model": HOSTILE, "messages": list(turn.messages)}
    turn.record(ModelCall(request, reply("x", usage={"prompt_tokens": 5, "completion_tokens": 2}), seconds=0.5))
    if turn.task["index"] == 2:
        return CallTool("crash", {})
    if turn.number == 0:
        thought = {"role": "assistant", "content": "I look.", "reasoning_content": f"Hm. {HOSTILE}"}
        call = {"id": "1", "function": {"name": "look", "arguments": json.dumps({"text": HOSTILE})}}
        return {**thought, "tool_calls": [call]}
    return Say(f"done {HOSTILE}")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("view") / "run.jsonl"
    rollout(Talk, policy, trace=path, progress=False, concurrency=1)
    return path


def test_terminal_shows_what_was_said_done_earned_and_where_it_failed(run, paddock):
    shown = paddock("view", str(run))
    assert shown.code == 0
    text = shown.out
    assert re.search(r"episode 1: test\[1\], attempt 0: return 1, terminated, 2 steps", text)
    assert "  call: look(" in text and "  assistant: I look." in text and "  thinking: Hm." in text
    assert ("[reward 1]" in text and "[2 pictures]" in text) or "[1 pictures]" in text
    assert "5 + 2 tokens, 0.50 s" in text and "ended by stop" in text
    assert re.search(r"error: EPISODE_FAILED in step: crash failed", text)
    assert "\x1b" not in text and "\u202e" not in text and "<script>" in text


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["--reward", ">=1"], [1]),
        (["--reward", "0.25"], [0]),
        (["--error"], [2]),
        (["--error", "EPISODE_FAILED"], [2]),
        (["--task", "test[1]"], [1]),
        (["--episode", "0"], [0]),
        (["--reward", "<1", "--task", "test"], [0]),
    ],
)
def test_filters(run, paddock, words, numbers):
    shown = paddock("view", str(run), *words, "--json").document
    assert [one["number"] for one in shown["episodes"]] == numbers


def test_nothing_that_fits_is_a_failure_and_a_wrong_comparison_a_mistake(run, paddock):
    assert paddock("view", str(run), "--error", "NOPE").code == 1
    assert paddock("view", str(run), "--reward", "many").code == 2
    assert paddock("view", str(run.with_name("nope.jsonl"))).code == 2


def test_results_folder_and_an_environment_without_words(paddock, tmp_path):
    rollout("CartPole-v1", lambda turn: 0, tasks=1, trace=tmp_path / "run.jsonl", progress=False)
    text = paddock("view", str(tmp_path)).out
    assert text.count("action: 0") == text.count("[reward 1]") > 5 and "observation: [" in text


def test_print_of_a_rollout_is_short(run):
    (one, *_) = rollout(Talk, policy, tasks=[1], trace=None, progress=False)
    assert len(str(one).splitlines()) < 40 and "\x1b" not in str(one)
    assert str(one).splitlines()[0].startswith("episode 0: test[1], attempt 0: return 1")


def test_episode_that_broke_off_is_told_as_such(run, tmp_path):
    lines = run.read_text().splitlines(keepends=True)
    (tmp_path / "torn.jsonl").write_text("".join(lines[:4]))
    stories = [story_of(one) for one in TraceReader(tmp_path / "torn.jsonl")]
    assert stories[0].ended == "broken off" and stories[0].total is None


@pytest.fixture(scope="module")
def page(run, tmp_path_factory):
    from paddock.cli import main

    path = tmp_path_factory.mktemp("page") / "run.html"
    assert main(["view", str(run), "--html", str(path)]) == 0
    return path


def test_page_has_no_markup_of_strangers_and_asks_the_network_for_nothing(page):
    text = page.read_text()
    assert text.count("<script>") == 1 and "<img src=x" not in text and "injected>" not in text.replace("&gt;", "")
    assert not re.search(r"https?://", text) and "\x1b" not in text and "svg" not in text
    assert str(page.parent.parent) not in text
    assert "default-src 'none'" in text and "data:image/png;base64," in text


@pytest.mark.process
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, which scripts/setup installs as root")
def test_page_in_a_browser_shows_hostile_text_as_text_and_filters(page, tmp_path):
    """The page as Chromium has it after its scripts ran, and what of it can be seen."""
    probe = page.read_text().replace("<details", "<details open", 1)
    (tmp_path / "probe.html").write_text(probe)
    common = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    common += ["--virtual-time-budget=2000", "--window-size=900,1200"]
    command = [CHROMIUM, *common, "--dump-dom", f"file://{tmp_path / 'probe.html'}"]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    assert "<title>owned" not in dom and 'id="injected"' not in dom and "<output>3 of 3</output>" in dom
    assert dom.count("<details") == 3 and "&lt;script&gt;document.title" in dom
    filled = probe.replace('name="low"', 'name="low" value="0.5"').replace('value="done"', 'value="done" selected')
    (tmp_path / "filled.html").write_text(filled)
    dom = subprocess.run([*command[:-1], f"file://{tmp_path / 'filled.html'}"], capture_output=True, text=True).stdout
    assert "<output>1 of 3</output>" in dom and len(re.findall(r'<details[^>]*none"', dom)) == 2
    picture = tmp_path / "page.png"
    shot = [CHROMIUM, *common, f"--screenshot={picture}", f"file://{tmp_path / 'probe.html'}"]
    subprocess.run(shot, capture_output=True, timeout=120)
    assert picture.stat().st_size > 10_000
