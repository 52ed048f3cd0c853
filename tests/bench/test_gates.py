"""The suites that come with paddock pass their own gates, and a gate notices when one no longer does."""

import msgspec
import pytest

from paddock.bench.gates import check_gates
from paddock.bench.suites import BUILT_IN, check_suite
from paddock.errors import InvalidSuite


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_suite_pays_for_nothing_less_than_it_says(name):
    suite = BUILT_IN[name]
    check_suite(suite)
    assert all(task.floor is not None and task.ceiling is not None for task in suite.task)
    check_gates(suite)


@pytest.mark.parametrize(("bound", "value"), [("floor", -1e9), ("ceiling", -1e9)])
@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_task_of_a_built_in_suite_is_measured(name, bound, value):
    """A bound that nothing can keep is noticed at each task."""
    for task in BUILT_IN[name].task:
        changed = msgspec.structs.replace(task, name=task.env, **{bound: value})
        with pytest.raises(InvalidSuite, match=task.env):
            check_gates(msgspec.structs.replace(BUILT_IN[name], task=[changed]))
