"""An environment's workspaces end with it, whatever it did with the door to them."""

import subprocess

import pytest

import paddock
from paddock.sandbox import Policy

MODULE = """
import socket
import paddock
from paddock.spaces import Discrete

class Handing(paddock.Env):
    observation_space = action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, False, {}

    def hand_on(self, mark):
        from paddock.sandbox import workspace, workspaces
        self.run = workspace(["/bin/sh", "-c", "echo up; sleep 300; echo", mark])
        self.run.socket.recv(2)
        # In the queue of a socket whose other end the sibling has, the connection stays open when this process is gone.
        socket.send_fds(self.run.socket, [b"x"], [workspaces._server.fileno()])
        return True

paddock.register("Handing-v0", Handing)
"""


def running(mark):
    listed = subprocess.run(["ps", "-ewwo", "pid=,args="], capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if mark in line]


@pytest.mark.process
def test_a_door_that_was_handed_on_closes_with_the_environment(tmp_path, monkeypatch):
    (tmp_path / "handing_env.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    inner = Policy(programs=("/bin/sh", "/bin/sleep"), processes=4, call_s=300.0)
    mark = f"paddock-test-{tmp_path.name}"
    with paddock.make("handing_env:Handing-v0", isolation=Policy(workspaces=1, workspace=inner)) as env:
        env.reset()
        assert env.call("hand_on", mark) is True
        assert running(mark)
    assert not running(mark)
