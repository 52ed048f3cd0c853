"""The same tests as an ordinary user: in a user namespace, without cgroups of this user's own."""

import os
import sys

import pytest

from tests.sandbox.as_user import REPOSITORY, as_user
from tests.sandbox.workers import needs_linux, needs_root

pytestmark = [needs_linux, needs_root]
HERE = os.path.relpath(os.path.dirname(__file__), REPOSITORY)


# Of what a template promises, that which an ordinary user gets by other means: user namespaces, no uid of its own.
TEMPLATE = "siblings or finds or poisons or killed or descriptor or tenants or copy"


@pytest.mark.process
@pytest.mark.parametrize(
    "chosen",
    [
        [f"{HERE}/test_{name}.py" for name in ("launch", "child", "cgroup", "machine", "view", "self_test")],
        [f"{HERE}/test_template.py", "-k", TEMPLATE],
    ],
    ids=["walls", "template"],
)
def test_as_an_ordinary_user(chosen):
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
    ran = as_user(argv, PYTHONPATH=os.pathsep.join(["src", *filter(None, [os.environ.get("PYTHONPATH")])]))
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-3000:]
    assert "passed" in ran.stdout
