"""What is tried with TRL itself, in one process of its venv: importing TRL takes longer than all the rest."""

import asyncio
import json
import sys
import time

from examples.grpo_echo import call

from paddock.adapters.trl import SeatRules, env_reward, environment_factory, rollout_func, task_rows
from tests.adapters.trl_training import rise, tiny_tokenizer, train

LETTERS = "abcd"
ECHOES = [call("echo_message", message=letter) for letter in LETTERS]
COLOURS = ("red", "green", "blue", "amber")
ONE_TRY = SeatRules(attempts=1)


def echo(url, letters=1, **settings):
    """Train on the first tasks of Echo, each the same for all generations of a group."""
    rows = task_rows(url, count=letters) * 8
    began_s = time.monotonic()
    factory = environment_factory(url)
    rewards, trainer = train(
        words=LETTERS, calls=ECHOES, rows=rows, groups=letters, environment_factory=factory, **settings
    )
    return {
        **rise(rewards),
        "seconds": time.monotonic() - began_s,
        "instances": len(trainer._environment_pool[None]),
        "tools": sorted(tool.__name__ for tool in trainer.tools),
        "episodes": factory.failures.episodes,
        "failed": factory.failures.failed,
    }


def words(url):
    """Train by rollout_func where the answer is what the model says."""
    collect = rollout_func(url)
    rows = task_rows(url, "fixed") * 8
    rewards, _ = train(
        words=COLOURS, rows=rows, steps=12, generations=16, tokens=3, rollout_func=collect, reward_funcs=env_reward
    )
    return {**rise(rewards), "episodes": collect.failures.episodes, "failed": collect.failures.failed}


def mixed(urls):
    """Two environments in one run, by the column ``environment``."""
    answers = environment_factory(urls["answers"], say="answer")
    buttons = environment_factory(urls["buttons"])
    rows = [{**row, "environment": name} for name in urls for row in task_rows(urls[name], "fixed")] * 8
    calls = [call("press", colour="blue"), call("answer", text="blue")]
    rewards, trainer = train(
        calls=calls,
        rows=rows,
        steps=2,
        groups=2,
        tokens=12,
        environment_factory={"answers": answers, "buttons": buttons},
    )
    logged = {name for line in trainer.state.log_history for name in line if name.startswith("rewards/")}
    tools = {name: [tool.__name__ for tool in found] for name, found in trainer._env_tools.items()}
    episodes = [one.failures.episodes for one in (answers, buttons)]
    return {"rewards": rewards, "logged": sorted(logged), "tools": tools, "episodes": episodes}


def broken(url):
    """Where the environment dies, the reward is none."""
    factory = environment_factory(url, rules=ONE_TRY)
    rows = task_rows(url, "fixed") * 8
    seen = []

    def watch(environments, **_):
        seen.extend((one.episode.failure, one.get_reward()) for one in environments)
        return [None] * len(environments)

    rewards, _ = train(calls=[call("explode")], rows=rows, steps=2, environment_factory=factory, reward_funcs=watch)
    died = [reward for failure, reward in seen if failure is not None]
    lived = [reward for failure, reward in seen if failure is None]
    return {"died": died, "lived": lived, "failed": factory.failures.failed, "rewards": rewards}


class Scripted:
    """A trainer whose model writes what is in a script."""

    num_generations = num_generations_eval = 2
    chat_template_kwargs = {}

    def __init__(self, turns, most=40, words=COLOURS, calls=()):
        self.processing_class = tiny_tokenizer(words, calls)
        self.eos_token_ids = [self.processing_class.eos_token_id]
        self.max_completion_length = most
        self.turns, self.asked = iter(turns), []
        self.model = self.accelerator = self
        self.training, self.process_index = True, 0

    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations):
        assert num_generations == 1
        self.asked.append([self.processing_class.decode(ids) for ids in prompt_ids])
        said = [self.processing_class(text)["input_ids"] for text in next(self.turns)]
        return said, [[-0.5] * len(ids) for ids in said]


def masks(url):
    """Two turns: the second rollout ends with the first one."""
    look, press = call("look"), call("press", colour="blue")
    trainer = Scripted([[f"{look}<end>", f"{press}<end>"], [f"red{press}<end>"]], calls=[look, press])
    collect = rollout_func(url, max_turns=4)
    prompts = [row["prompt"] for row in task_rows(url, "fixed")] * 2
    made = collect(prompts, trainer)
    read = trainer.processing_class
    return {
        **{name: made[name] for name in ("env_mask", "env_reward", "env_turns", "logprobs", "env_failure")},
        "prompts": [read.decode(ids) for ids in made["prompt_ids"]],
        "completions": [read.decode(ids) for ids in made["completion_ids"]],
        "asked": trainer.asked,
    }


def limits(url):
    """What happens at the ends: no room, no end of a turn, a call that is none, a worker that dies."""
    look, explode = call("look"), call("explode")
    cut = '<tool_call>{"name": "press", </tool_call>'
    turns = [[f"{look}<end>", look, f"{cut}<end>", f"{explode}<end>"], ["red<end>"]]
    trainer = Scripted(turns, most=5, calls=[look, explode, cut])
    prompts = [row["prompt"] for row in task_rows(url, "fixed")] * 4
    made = rollout_func(url, rules=ONE_TRY)(prompts, trainer)
    names = ("env_mask", "env_reward", "env_turns", "env_failure")
    return {**{name: made[name] for name in names}, "asked": len(trainer.asked)}


def groups(url):
    """Without tasks in the prompts, the generations of each prompt share a seed."""
    collect = rollout_func(url, seed=5)
    prompt = [{"role": "user", "content": "Well: "}]
    found = []
    for _ in range(2):
        trainer = Scripted([["red<end>"] * 6])
        collect([prompt] * 6, trainer)
        found.append(trainer.asked[0])
    return found


def schemas(tools):
    """What transformers makes of the generated methods."""
    from transformers.utils import get_json_schema

    from paddock.adapters.trl import _method, tool_signature

    made = []
    for tool in tools:
        method = _method(tool_signature(tool["name"], tool["description"], tool["input_schema"]), dict)
        assert asyncio.iscoroutinefunction(method)
        made.append(get_json_schema(method)["function"])
    return made


def run(**trials):
    made = {}
    for name, arguments in trials.items():
        began_s = time.monotonic()
        made[name] = globals()[name](*arguments)
        print(name, round(time.monotonic() - began_s, 2), file=sys.stderr)
    print(json.dumps(made))
