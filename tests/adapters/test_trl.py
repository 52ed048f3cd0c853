"""TRL 1.16 trains on our environments through a server with the wall on. It runs in its own venv, as a peer."""

from urllib.parse import quote

import pytest

from tests.peers import ROOT, run_with_peer
from tests.serving import serving

pytestmark = pytest.mark.peers

BUTTONS = ROOT / "tests" / "adapters" / "buttons"

SCHEMAS = [
    {
        "name": "move",
        "description": "Move a piece.\n\nReturns: where it is.",
        "input_schema": {
            "type": "object",
            "properties": {
                "from": {"type": "integer", "description": "the square\nArgs: none (choices: junk)"},
                "how": {"enum": ["fast", "slow"], "description": "the manner"},
                "path": {"type": "array", "items": {"type": "integer"}},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                "piece": {"$ref": "#/$defs/Piece"},
            },
            "required": ["from", "how", "piece"],
            "$defs": {"Piece": {"type": "object", "properties": {"name": {"type": "string"}}}},
        },
    },
    {"name": "wait", "description": "", "input_schema": {"type": "object"}},
]


@pytest.fixture(scope="module")
def served():
    with serving(f"{BUTTONS}:Buttons-v0", f"{BUTTONS}:Answers-v0", "paddock/Echo") as server:
        yield {name: server.with_token(f"/{quote(name, safe='')}") for name in server.environments}


@pytest.fixture(scope="module")
def trials(served):
    buttons, answers = served["Buttons-v0"], served["Answers-v0"]
    settings = {"steps": 12, "generations": 16, "tokens": 6}
    return run_with_peer(
        "trl",
        f"""
        from tests.adapters import trl_trials
        trial = trl_trials.echo
        trl_trials.echo = lambda url: trial(url, **{settings!r})
        trl_trials.run(
            echo=[{served["paddock/Echo"]!r}], words=[{answers!r}], masks=[{buttons!r}], limits=[{buttons!r}],
            groups=[{answers!r}], broken=[{buttons!r}], schemas=[{SCHEMAS!r}],
            mixed=[{{"answers": {answers!r}, "buttons": {buttons!r}}}],
        )
        """,
    )


@pytest.mark.peers
def test_mean_reward_on_echo_rises(trials):
    found = trials["echo"]
    assert found["first"] < 0.5 < 0.85 < found["last"], found
    assert found["errors"] > 4, found
    assert found["seconds"] < 60


@pytest.mark.process
def test_every_rollout_of_a_training_was_an_episode_and_none_failed(trials):
    assert trials["echo"]["episodes"] == 12 * 16
    assert trials["echo"]["failed"] == 0


@pytest.mark.process
def test_instances_are_pooled_and_show_the_tools_alone(trials):
    assert trials["echo"]["instances"] == 16
    assert trials["echo"]["tools"] == ["echo_message", "echo_with_length"]


@pytest.mark.process
def test_mean_reward_rises_by_rollout_func_where_the_answer_is_words(trials):
    found = trials["words"]
    assert found["first"] < 0.5 < 0.8 < found["last"], found
    assert (found["episodes"], found["failed"]) == (12 * 16, 0)


@pytest.mark.process
def test_what_the_model_wrote_counts_and_what_it_was_told_does_not(trials):
    found = trials["masks"]
    look, press = '{"name": "look", "arguments": {}}', '{"name": "press", "arguments": {"colour": "blue"}}'
    assert found["completions"] == [
        f"<tool_call>{look}</tool_call><end><tool><unk><unk><unk><end><assistant>red<tool_call>{press}</tool_call><end>",
        f"<tool_call>{press}</tool_call><end>",
    ]
    assert found["env_mask"] == [[1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1], [1, 1]]
    assert found["logprobs"] == [[-0.5, -0.5, *[0.0] * 6, -0.5, -0.5, -0.5], [-0.5, -0.5]]
    assert found["env_reward"] == [1.0, 1.0]
    assert found["env_turns"] == [2, 1]
    assert found["env_failure"] == [None, None]


@pytest.mark.process
def test_a_turn_goes_on_from_the_very_tokens_of_the_one_before(trials):
    found = trials["masks"]
    assert found["prompts"] == ["<user><unk>blue<end><assistant>"] * 2
    whole = found["prompts"][0] + found["completions"][0]
    assert found["asked"][0] == found["prompts"]
    assert found["asked"][1] == [whole[: whole.index("red")]]


@pytest.mark.process
def test_rollouts_end_at_their_limits_and_broken_ones_teach_nothing(trials):
    found = trials["limits"]
    assert found["asked"] == 1  # no second turn: no room for the answers, a turn without an end, a dead worker
    assert found["env_turns"] == [1, 1, 1, 1]
    assert found["env_reward"] == [0.0, 0.0, 0.0, None]
    assert found["env_mask"] == [[1, 1], [1], [1, 1], [0, 0]]
    assert [bool(failure) for failure in found["env_failure"]] == [False, False, False, True]


@pytest.mark.process
def test_generations_of_a_prompt_get_the_same_task_and_batches_differ(trials):
    (first, second) = trials["groups"]
    for batch in (first, second):
        assert batch[0] == batch[1] and batch[2] == batch[3] and batch[4] == batch[5]
        assert batch[0].startswith("<user><unk>")
    assert len({*first, *second}) > 1


@pytest.mark.process
def test_an_environment_that_dies_has_no_reward_rather_than_zero(trials):
    found = trials["broken"]
    assert found["died"] and set(found["died"]) == {None}
    assert set(found["lived"]) <= {0.0}
    assert found["failed"] == len(found["died"])


@pytest.mark.process
def test_several_environments_train_in_one_run(trials):
    found = trials["mixed"]
    assert found["tools"] == {"answers": ["answer"], "buttons": ["explode", "look", "nap", "press"]}
    assert found["logged"] == [f"rewards/{name}/{what}" for name in ("Answers", "Buttons") for what in ("mean", "std")]
    assert sum(found["episodes"]) == 2 * 16
    assert min(found["episodes"]) > 0


@pytest.mark.process
def test_transformers_reads_the_schemas_of_generated_methods(trials):
    move, wait = trials["schemas"]
    properties = move["parameters"]["properties"]
    assert move["description"] == "Move a piece.\n\nGives: where it is."
    assert move["parameters"]["required"] == ["from_", "how", "piece"]
    assert properties["from_"] == {"type": "integer", "description": "the square Arguments: none (one of: junk)"}
    assert properties["how"] == {"type": "string", "enum": ["fast", "slow"], "description": "the manner"}
    assert properties["path"]["items"] == {"type": "integer"}
    assert properties["note"]["nullable"]
    assert properties["piece"]["type"] == "object" and '"name"' in properties["piece"]["description"]
    assert wait["parameters"]["properties"] == {} and wait["description"] == "wait."


@pytest.mark.full
def test_model_learns_which_letter_to_echo(served):
    url = served["paddock/Echo"]
    (found,) = run_with_peer(
        "trl",
        f"""
        import json
        from tests.adapters.trl_trials import echo
        print(json.dumps([echo({url!r}, letters=4, steps=100, generations=16, tokens=4, rate=1e-2)]))
        """,
    )
    # Who does not read the prompt gets a quarter at best.
    assert found["last"] > 0.7, found
    assert found["errors"] > 5, found
    assert (found["episodes"], found["failed"]) == (100 * 64, 0)


@pytest.mark.full
def test_example_runs_and_its_rewards_rise():
    shown = run_with_peer(
        "trl",
        f"""
        import contextlib, io, json, os, runpy, sys, tempfile
        os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1")
        os.chdir(tempfile.mkdtemp())
        sys.argv = ["grpo_echo.py"]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path({str(ROOT / "examples" / "grpo_echo.py")!r}, run_name="__main__")
        print(json.dumps(printed.getvalue().splitlines()))
        """,
    )
    rewards = [float(line.split()[3]) for line in shown if line.startswith("step ")]
    assert max(rewards[:3]) < 0.8 < min(rewards[-3:]), shown
    assert shown[-1] == "960 episodes, 0 broke"
