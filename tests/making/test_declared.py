"""What paddock declares for its own environments is granted; nobody else's code gets it by a name."""

from dataclasses import replace

import pytest

import paddock
from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.errors import PlanError
from paddock.making import locate, plan
from paddock.sandbox import Policy
from paddock.sandbox.policy import DEFAULT

ID = "paddock/PythonCode"


def wall(target, isolation="sandbox"):
    return plan(locate(target), isolation=isolation).wall


@pytest.mark.parametrize("tier", ["sandbox", "landlock", "auto"])
def test_an_environment_of_paddock_gets_what_it_declares_in_the_tier_that_was_asked_for(tier):
    found = wall(ID, tier)
    assert (found.tier, found.workspaces, found.workspace.tier, found.workspace.processes) == (tier, 2, tier, 1)
    assert not found.workspace.hosts + found.workspace.read + found.workspace.write


def test_others_of_paddock_get_the_default():
    assert wall("paddock/Wordle") == wall("CartPole-v1") == DEFAULT


def test_a_policy_of_the_caller_is_taken_as_it_is():
    assert wall(ID, Policy(memory_mb=100)) == Policy(memory_mb=100)


def test_the_spec_of_one_makes_the_same():
    assert wall(paddock.spec(ID)) == wall(ID)
    ours = WrapperSpec("TimeLimit", "paddock.wrappers.guard:TimeLimit", {"max_episode_steps": 3})
    assert wall(replace(paddock.spec(ID), additional_wrappers=(ours,))) == wall(ID)


@pytest.mark.parametrize(
    "spec",
    [
        EnvSpec(ID, "stranger:Env"),
        replace(paddock.spec(ID), additional_wrappers=(WrapperSpec("W", "stranger:Wrapper", {}),)),
        replace(paddock.spec(ID), entry_point=lambda: None),
    ],
)
def test_a_strangers_code_under_its_id_gets_the_default(spec):
    assert wall(spec) == DEFAULT


def test_a_folder_that_names_the_id_still_only_asks(tmp_path):
    (tmp_path / "stranger.py").write_text("class Env: pass\n")
    (tmp_path / "paddock.toml").write_text(
        f'[package]\nname = "stranger"\nversion = "1"\n[[env]]\nid = "{ID}"\nentry = "stranger:Env"\n'
        '[permissions]\nworkspaces = 1\n[permissions.workspace]\nprograms = ["/bin/cat"]\n'
    )
    with pytest.raises(PlanError, match="asks for more"):
        wall(str(tmp_path))


def test_permissions_tells_what_is_declared():
    assert paddock.permissions(ID).workspaces == 2
