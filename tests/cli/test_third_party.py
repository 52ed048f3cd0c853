"""Code of others: behind the wall in every command, and in Python where the user's settings say so."""

import json

import pytest

import paddock as toolkit
from paddock.core.env import isolation_of
from paddock.errors import InvalidManifest, PlanError
from paddock.making import locate, plan
from paddock.record.trace import TraceReader
from paddock.trust.log import read_log

MODULE = """
import pathlib

import paddock

HOME = pathlib.Path(__file__).parent
try:
    (HOME / "canary").touch()  # behind the wall its folder can't be written to
except OSError:
    pass


class Walk(paddock.Env):
    observation_space = paddock.spaces.Discrete(9)
    action_space = paddock.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(4))
        return self.place, {}

    def step(self, action):
        self.place += 1
        return self.place, 1.0, self.place == 8, False, {}


paddock.register("me/Walk-v0", Walk)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with the module ``strangers``, and settings of its own."""
    import sys

    (tmp_path / "strangers.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*(place for place in sys.path if place), str(tmp_path)])
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PADDOCK_TRUST", raising=False)
    yield tmp_path
    sys.modules.pop("strangers", None)


def settle(here, text):
    (here / "home").mkdir(exist_ok=True)
    (here / "home" / "trust.toml").write_text(text)


COMMANDS = {
    "run": ["run", "strangers:me/Walk-v0"],
    "check": ["check", "strangers:me/Walk-v0"],
    "info": ["info", "--make", "strangers:me/Walk-v0"],
}


@pytest.mark.process
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_commands_put_it_behind_the_wall_and_say_so(paddock, here, walled, words):
    found = paddock(*words)
    assert (found.code, found.err) == (0, "paddock: strangers:me/Walk-v0 runs behind the wall (isolation sandbox)\n")
    assert not (here / "canary").exists()


@pytest.mark.process
def test_check_does_not_complain_of_render_modes_that_only_the_wall_keeps_it_from(paddock, here, walled):
    text = MODULE.replace(
        "class Walk(paddock.Env):",
        "class Walk(paddock.Env):\n    metadata = {'render_modes': ['ansi'], 'render_fps': 4}",
    )
    (here / "strangers.py").write_text(text)
    assert paddock("check", "strangers:me/Walk-v0").out == "strangers:me/Walk-v0: no problems found\n"


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_none_runs_it_here_and_says_so(paddock, here, words):
    found = paddock(*words, "--isolation", "none")
    assert found.code == 0
    assert "runs in this process and may do all that you may (isolation none)\n" in found.err
    assert (here / "canary").exists()  # the same code, without a wall: the canary is one
    noted = [entry.facts for entry in read_log() if entry.event == "override"]
    assert noted == [{"id": "me/Walk-v0", "target": "strangers:me/Walk-v0", "isolation": "none"}]


def test_paddocks_own_and_what_the_program_has_registered_run_here(paddock, here, fresh_registry):
    toolkit.register("me/Count-v0", "tests.toys:Counter")
    for id in ("CartPole-v1", "me/Count-v0"):
        assert paddock("run", id).err == ""


def test_a_file_is_read_for_its_ids_and_not_imported(paddock, here):
    found = paddock("run", "strangers.py")
    assert found.code == 2
    assert "Name one, as strangers:me/Walk-v0" in found.err
    assert not (here / "canary").exists()


def test_in_python_it_runs_here_as_in_gymnasium(here, fresh_registry):
    assert isolation_of(toolkit.make("strangers:me/Walk-v0")) == "none"


@pytest.mark.process
@pytest.mark.parametrize("how", ["file", "variable", "file and variable"])
def test_the_users_settings_put_it_behind_the_wall_in_python_too(here, walled, monkeypatch, how, fresh_registry):
    import paddock.gym as gym

    if "file" in how:
        settle(here, f"third_party = {'none' if 'variable' in how else 'sandbox'!r}\n")
    if "variable" in how:
        monkeypatch.setenv("PADDOCK_TRUST", "strict")
    with toolkit.make("strangers:me/Walk-v0") as env, gym.make("strangers:me/Walk-v0") as other:
        assert isolation_of(env) == isolation_of(other) == "sandbox"
        assert env.reset(seed=3)[0] == other.reset(seed=3)[0]
    with gym.make_vec("strangers:me/Walk-v0", 2) as lanes:
        assert lanes.reset(seed=3)[0].shape == (2,)
    assert not (here / "canary").exists()
    assert "me/Walk-v0" not in toolkit.registry
    assert isolation_of(toolkit.make("strangers:me/Walk-v0", isolation="none")) == "none"


@pytest.mark.process
def test_a_spec_from_elsewhere_and_its_wrappers_are_code_of_others(here, walled, monkeypatch, fresh_registry):
    monkeypatch.setenv("PADDOCK_TRUST", "strict")
    named = toolkit.EnvSpec("any/Thing-v0", "strangers:Walk")
    as_ours = toolkit.EnvSpec("CartPole-v1", "strangers:Walk")
    lanes = toolkit.EnvSpec("any/Lanes-v0", "strangers:Walk", kwargs={"vectorization_mode": "async", "num_envs": 2})
    for spec in (named, as_ours):
        assert isolation_of(toolkit.make(spec)) == "sandbox"
    assert plan(locate(lanes)).isolation == "sandbox"  # its own word for lanes in processes is no way round it
    wrapper = toolkit.WrapperSpec("Dark", "strangers:Dark", {})
    with pytest.raises(toolkit.PaddockError):  # there is none, and it was looked for behind the wall
        toolkit.make("CartPole-v1", wrappers=[wrapper])
    assert not (here / "canary").exists()


@pytest.mark.parametrize(
    ("text", "variable", "words"),
    [
        ("third_party = 'sandbx'", "", "third_party = 'sandbx'; expected one of"),
        ("third_paty = 'sandbox'", "", "third_paty"),
        ("third_party = ", "", "is not TOML"),
        ("", "lax", "PADDOCK_TRUST='lax': expected strict"),
    ],
)
def test_settings_that_can_not_be_understood_stop_it(here, monkeypatch, text, variable, words, fresh_registry):
    settle(here, text)
    monkeypatch.setenv("PADDOCK_TRUST", variable)
    with pytest.raises(InvalidManifest, match=words):
        toolkit.make("strangers:me/Walk-v0")
    assert not (here / "canary").exists()
    toolkit.make("CartPole-v1").close()


def test_what_can_not_go_behind_the_wall_is_refused(here, monkeypatch, fresh_registry):
    monkeypatch.setenv("PADDOCK_TRUST", "strict")
    with pytest.raises(PlanError, match=r"steps lanes in this process.*as PADDOCK_TRUST says"):
        toolkit.make("CartPole-v1", num_envs=2, backend="envpool")


def test_explain_says_what_python_does_and_who_decided(paddock, here, monkeypatch):
    def told():
        plan = paddock("explain", "strangers:me/Walk-v0", "--json").document["plan"]
        rows = {row["what"]: row["how"] for row in plan}
        return rows["isolation"].partition(":")[0], rows["third-party code"]

    assert told()[0] == "none" and "as in Gymnasium" in told()[1]
    settle(here, "third_party = 'sandbox'\n")
    assert told()[0] == "sandbox" and str(here / "home" / "trust.toml") in told()[1]
    monkeypatch.setenv("PADDOCK_TRUST", "strict")
    assert told()[0] == "sandbox" and "PADDOCK_TRUST" in told()[1]


@pytest.mark.process
@pytest.mark.parametrize("isolation", ["none", "process", "sandbox"])
def test_a_trace_says_where_the_code_ran(paddock, here, walled, isolation):
    words = ["--trace", "t.jsonl", "--isolation", isolation, "--json"]
    assert paddock("run", "strangers:me/Walk-v0", *words).document["isolation"] == isolation
    assert [episode.isolation for episode in TraceReader("t.jsonl")] == [isolation]
    header = json.loads((here / "t.jsonl").read_text().splitlines()[0])
    assert header["isolation"] == isolation
