"""The very bytes of the real packages: kept here, captured anew from each, and given by our own code."""

from pathlib import Path

import pytest

from tests.openenv import worlds
from tests.openenv.capture import EXCHANGES, HTTP, TASKS
from tests.openenv.golden import golden, plain
from tests.openenv.loopback import replay
from tests.peers import run_with_peer

HERE = Path(__file__).parent
FORMS = {"0.10": "openenv10", "0.3": "openenv03"}
# OpenEnv's /state loses the fields of a State's subclass, and its schemas have descriptions that are not ours to copy.
NOT_OURS = {"/state", "/schema"}


def by_question(answers):
    asked = [*EXCHANGES, *(" ".join(request) for request in (*HTTP, *TASKS))]
    return dict(zip(enumerate(asked), [*answers["frames"], *answers["http"], *answers["tasks"]], strict=False))


def compared(ours, theirs, *, without=frozenset()):
    ours, theirs = by_question(plain(ours)), by_question(plain(theirs))
    for question, answer in theirs.items():
        if not any(path in question[1] for path in without):
            assert (question, ours[question]) == (question, answer)


@pytest.mark.parametrize("form", FORMS)
def test_our_answers_have_the_kept_bytes(form):
    compared(replay(worlds, form), golden(form), without=NOT_OURS)


@pytest.mark.peers
@pytest.mark.parametrize("form", FORMS)
def test_the_real_package_still_gives_the_kept_bytes(form):
    theirs = run_with_peer(FORMS[form], "from tests.openenv.capture import main\nmain()")
    assert plain(theirs) == plain(golden(form))


@pytest.mark.peers
@pytest.mark.parametrize("form", FORMS)
def test_the_real_packages_environments_have_the_kept_bytes_under_our_adapter_schemas_too(form):
    program = f"""
    import json
    from tests.openenv import worlds
    from tests.openenv.loopback import replay
    assert worlds.API.startswith("openenv.")
    print(json.dumps(replay(worlds, {form!r})))
    """
    compared(run_with_peer(FORMS[form], program), golden(form), without={"/state"})
