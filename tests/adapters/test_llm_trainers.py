"""Adapters for trainers and evaluators of language models: each section of the page runs in the framework's own venv.

The matrix of versions on the page is made of the lists that those venvs are installed from. To write it again:
`python -m tests.adapters.test_llm_trainers`.
"""

import asyncio
import re

import pytest

import paddock
from paddock.adapters import art, inspect_ai, lightning, skyrl, tools_of, verifiers
from paddock.adapters.chat import Player, explain_tools, read_text
from paddock.errors import DependencyNotInstalled, EpisodeFailed
from tests.agentic.rollout_envs import Guess
from tests.peers import ROOT, run_with_peer

PAGE = ROOT / "docs" / "llm-trainers.md"
# By framework: its venv, its packages, and what of it is tested.
FRAMEWORKS = {
    "verifiers": ("verifiers", ["verifiers"], "the page: taskset, harness, traces"),
    "Inspect AI": ("inspect", ["inspect-ai"], "the page: task, solver, scorer"),
    "Lightning": ("lightning", ["lightning", "torch"], "the page: Trainer and Fabric on a CPU"),
    "SkyRL": ("skyrl", ["skyrl-gym"], "the page: skyrl-gym; not its trainer, which needs GPUs"),
    "ART": ("art", ["openpipe-art"], "the page: trajectories; not its training, which needs a GPU"),
    "veRL": (
        "verl",
        ["verl"],
        "its agent loop with a scripted server; not its trainer, which needs GPUs",
    ),
    "TRL": ("trl", ["trl", "transformers", "torch"], "[trl.md](trl.md): training on a CPU"),
    "MaskablePPO": ("sb3", ["sb3-contrib", "stable-baselines3"], "[trainers.md](trainers.md): masks, training"),
}


def pins(peer):
    text = (ROOT / "scripts" / "peers" / f"{peer}.txt").read_text()
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE))


def matrix():
    """The rows of the page's table."""
    rows = []
    for name, (peer, packages, tested) in FRAMEWORKS.items():
        versions = ", ".join(f"{package} {pins(peer)[package]}" for package in packages)
        rows.append(f"| {name} | {versions} | {tested} |")
    return "\n".join(rows) + "\n"


def test_matrix_of_versions_is_what_the_tests_install():
    assert f"|---|---|---|\n{matrix()}\n" in PAGE.read_text()


def run_page(section):
    peer, packages, _ = FRAMEWORKS[section]
    program = f"from tests.adapters.llm_pages import run\nrun({section!r}, {packages!r})"
    found = run_with_peer(peer, program)
    assert {name: version.partition("+")[0] for name, version in found["versions"].items()} == {
        package: pins(peer)[package] for package in packages
    }
    return found


@pytest.mark.peers
@pytest.mark.parametrize(("section", "calls"), [("verifiers", 2), ("Inspect AI", 3), ("SkyRL", 0), ("Lightning", 0)])
def test_section_of_the_page_runs(section, calls):
    assert run_page(section)["calls"] == calls


@pytest.mark.peers
@pytest.mark.full
def test_section_about_art_runs():
    assert run_page("ART")["calls"] == 4


@pytest.mark.peers
@pytest.mark.full
def test_agent_loop_of_verl_masks_what_the_environment_said_and_passes_on_its_reward():
    told = run_with_peer("verl", "from tests.adapters.verl_trial import main\nmain()")
    won, failed, secret = (told["found"][name] for name in ("won", "failed", "secret"))
    calls = re.findall(r'"number": (\d+)', won["model"])
    assert won["reward"] == 1.0 and calls == ["11", str(secret)] and won["logprobs"] and won["turns"] == 5
    assert "Lower." in won["environment"] and "tool_call" not in won["environment"]
    assert won["second"].count("tool_call") == 2 and "Play." in won["prompt"] and "Guess." in won["prompt"]
    assert "rm_scores" in won["keys"] and "fall failed" in failed["failed"]
    assert told["versions"]["verl"] == pins("verl")["verl"]


@pytest.mark.parametrize(
    ("ask", "command"),
    [
        (lambda: verifiers.taskset("paddock/Echo"), "pip install verifiers"),
        (lambda: inspect_ai.task("paddock/Echo"), "pip install inspect-ai"),
        (lambda: lightning.loader("CartPole-v1", 2, None), "pip install lightning"),
        (lambda: skyrl.register("paddock/Echo"), "pip install skyrl-gym"),
        (lambda: art.rollout_func("paddock/Echo"), "pip install openpipe-art"),
    ],
)
def test_missing_framework_is_named_with_the_command_that_helps(ask, command, monkeypatch):
    monkeypatch.setattr("paddock.adapters.find_spec", lambda name: None)
    with pytest.raises(DependencyNotInstalled, match=command):
        ask()


# ── What they share ──


@pytest.fixture
def guess(fresh_registry):
    paddock.register("test/Guess-v0", Guess)
    return "test/Guess-v0"


def test_player_plays_calls_and_words_and_tells_mistakes(guess):
    async def main():
        async with await Player.of(guess) as player:
            first = await player.begin({"split": "test", "index": 0})
            assert first == [{"role": "user", "content": "Guess."}] and player.tools[0]["function"]["name"] == "guess"
            bad = await player.act(read_text('<tool_call>{"name": "guess", "arguments": {"number": "x"}}</tool_call>'))
            assert bad[0]["role"] == "tool" and "expected int" in bad[0]["content"]
            torn = await player.act(read_text("<tool_call>{</tool_call>"))
            assert "A call must name a tool" in torn[0]["content"] and len(player.rewards) == 1
            for number in range(1, 11):
                call = {"name": "guess", "arguments": {"number": number}}
                await player.act({"role": "assistant", "content": None, "tool_calls": [{"function": call}]})
                if player.over:
                    break
            assert (player.total, player.terminated) == (1.0, True)
            late = await player.act(read_text('<tool_call>{"name": "guess", "arguments": {"number": 1}}</tool_call>'))
            assert late[0]["content"] == "The episode is over."
            await player.begin({"split": "test", "index": 0})
            assert player.rewards == [] and not player.over

    asyncio.run(main())


def test_player_raises_what_is_the_environments_fault(guess):
    async def main():
        async with await Player.of(guess) as player:
            await player.begin({"split": "test", "index": 0})
            with pytest.raises(EpisodeFailed):
                await player.act(read_text('<tool_call>{"name": "fall", "arguments": {}}</tool_call>'))

    asyncio.run(main())


def test_words_without_calls_stay_words():
    assert read_text("I think 4.") == {"role": "assistant", "content": "I think 4."}
    both = read_text('Hm. <tool_call>{"name": "a", "arguments": {"b": 1}}</tool_call>')
    assert both["content"] == "Hm." and both["tool_calls"][0]["function"] == {"name": "a", "arguments": {"b": 1}}


def test_tools_are_known_by_id_by_class_and_by_environment(guess):
    by_id, by_class = tools_of(guess), tools_of(Guess)
    with paddock.make(guess) as env:
        assert by_id == by_class == tools_of(env)
    assert by_id[0]["type"] == "function" and '"guess"' in explain_tools(by_id)
    assert tools_of("CartPole-v1") == [] and explain_tools([]) == ""


if __name__ == "__main__":
    text = PAGE.read_text()
    head = "| framework | versions | tested |\n|---|---|---|\n"
    start = text.index(head) + len(head)
    end = text.index("\n## ", start)
    PAGE.write_text(text[:start] + matrix() + text[end:])
