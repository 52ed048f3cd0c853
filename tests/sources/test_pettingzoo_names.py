"""Names of PettingZoo that lead nowhere, with a stand-in for the library: what to install, or what was meant."""

import sys

import pytest

import paddock
from paddock.errors import DependencyNotInstalled, NameNotFound

MOVED = "raise ImportError('MPE has moved. Install with `pip install mpe2`.')"
FILES = {
    "pettingzoo/__init__.py": "",
    "pettingzoo/classic/__init__.py": "",
    "pettingzoo/classic/tictactoe/__init__.py": "",
    "pettingzoo/classic/tictactoe_v2.py": "def env(): ...",
    "pettingzoo/classic/tictactoe_v3.py": "def env(): ...",
    "pettingzoo/classic/chess_v6.py": "import no_such_chess",
    "pettingzoo/mpe/__init__.py": MOVED,
}


@pytest.fixture(autouse=True)
def pettingzoo(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in [name for name in sys.modules if name.partition(".")[0] == "pettingzoo"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "pettingzoo"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("pettingzoo:no_such_mpe:simple_spread_v3", "pip install no_such_mpe,"),
        ("pettingzoo:mpe/simple_spread_v3", "Install with `pip install mpe2`."),
        ("pettingzoo:classic/chess_v6", "pip install 'pettingzoo[classic]'"),
    ],
)
def test_the_command_is_the_one_that_helps(target, said):
    with pytest.raises(DependencyNotInstalled) as raised:
        paddock.make(target)
    assert said in str(raised.value)
    assert str(raised.value).count("pip install") == 1


def test_a_name_without_its_version_gets_a_suggestion():
    with pytest.raises(NameNotFound, match=r"Did you mean classic/tictactoe_v3\?$"):
        paddock.make("pettingzoo:classic/tictactoe")


def test_a_module_without_an_environment_is_no_name():
    with pytest.raises(NameNotFound, match="the module pettingzoo.classic makes no environment.$"):
        paddock.make("pettingzoo:classic")
