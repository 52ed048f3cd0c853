"""What an attacker tried on compiled lanes and their cache, each once a crash, a hang or a wrong number."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
from types import ModuleType

import numba
import numpy as np
import pytest

import paddock
from paddock import LaneOptions
from paddock.errors import ClosedEnvironmentError, InvalidLanes, InvalidSnapshot, PlanError, ResetNeeded
from paddock.kernels.compile import _is_private
from paddock.kernels.functions import fingerprint
from paddock.kernels.vector import vector_class
from tests.kernels.tiny import tabled
from tests.vector.interrupts import interrupted

ZEROS = np.zeros(8, np.int64)
THREADS = LaneOptions(threads=2)


def lanes(n=8, **options):
    env = paddock.make_vec("CartPole-v1", num_envs=n, **options)
    env.reset(seed=0)
    return env


def test_a_step_held_from_before_params_were_set_steps_the_same_lanes():
    env, twin = lanes(), lanes()
    held = env.step
    for other in (env, twin):
        other.set_attr("gravity", 5.0)
    junk = [np.full(n, 0x4141414141, np.int64) for n in range(30, 90) for _ in range(20)]
    np.testing.assert_array_equal(held(ZEROS)[0], twin.step(ZEROS)[0])
    del junk


@pytest.mark.parametrize("value", [np.array([1.0]), np.zeros((2, 500)), np.zeros(2000)])
def test_an_array_of_another_shape_is_no_param(value):
    env = vector_class(tabled())(4)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="expected an array of shape"):
        env.set_attr("table", value)
    with pytest.raises(ValueError, match="expected an array of shape"):
        vector_class(tabled())(4, table=value)
    env.step(np.zeros(4, np.int64))


def test_a_closed_environment_is_refused_and_does_not_hang():
    env = lanes(lanes=THREADS)
    env.close()
    for call in (lambda: env.step(ZEROS), lambda: env.reset()):
        with pytest.raises(ClosedEnvironmentError):
            call()


def test_threads_end_with_an_environment_that_nobody_closed():
    before = threading.active_count()
    for _ in range(5):
        lanes(lanes=THREADS)
    gc.collect()
    assert threading.active_count() <= before + 1


@pytest.mark.process
def test_a_forked_child_steps_alone():
    code = """
import os, numpy as np, paddock
env = paddock.make_vec("CartPole-v1", num_envs=8, lanes=paddock.LaneOptions(threads=2))
env.reset(seed=0)
for _ in range(20): env.step(np.zeros(8, np.int64))
child = os.fork()
if child == 0:
    env.step(np.zeros(8, np.int64)); os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=60, check=False).returncode == 0


def test_an_interrupt_in_the_middle_of_a_shared_step_breaks_nothing():
    class Interrupt(Exception):
        pass

    def interrupt(*_):
        raise Interrupt

    env = lanes(4096, lanes=THREADS)
    env._threads._resting = 0
    previous = signal.signal(signal.SIGALRM, interrupt)
    actions = np.zeros(4096, np.int64)
    try:
        for delay in np.linspace(1e-5, 2e-3, 40):
            try:
                signal.setitimer(signal.ITIMER_REAL, delay)
                for _ in range(50):
                    env.step(actions)
            except Interrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, previous)
    twin = lanes(4096)
    env.reset(seed=0)
    for _ in range(50):
        for got, expected in zip(env.step(actions)[:4], twin.step(actions)[:4], strict=True):
            np.testing.assert_array_equal(got, expected)


def test_an_interrupt_at_any_line_of_a_shared_step_leaves_lanes_that_step_on():
    actions, line, place = np.zeros(64, np.int64), 0, ""
    env, twin = lanes(64, lanes=THREADS), lanes(64)

    def states(lanes):
        return np.array(lanes.get_attr("state")).tolist()

    def step_on():
        env._threads._resting = 0
        env.step(actions)

    while place is not None:
        env._threads._resting = 0
        place, before = interrupted(lambda: env.step(actions), line), states(twin)
        twin.step(actions)
        assert states(env) in (before, states(twin)), f"some lanes moved: {place}"
        after = threading.Thread(target=step_on, daemon=True)
        after.start()
        after.join(30)
        assert not after.is_alive(), f"the step after an interrupt at {place} hangs"
        if states(env) != states(twin):
            twin.step(actions)
        assert states(env) == states(twin), place
        line += 1
    assert line > 20
    env.close()


def test_an_exception_in_a_helper_is_raised_and_the_next_step_goes_on():
    env, actions = lanes(64, lanes=THREADS), np.zeros(64, np.int64)
    env._threads._resting = 0
    env.step(actions)
    run = env._threads._run
    env._threads._run = lambda address: run(address) if threading.current_thread() is threading.main_thread() else 1 / 0
    env._threads._resting = 0
    with pytest.raises(ZeroDivisionError):
        env.step(actions)
    env._threads._run = run
    env._threads._resting = 0
    env.step(actions)
    env.close()


def test_options_of_the_lanes_are_not_dropped():
    for options in ({"threads": 4}, {"copy": False}, {"autoreset_mode": "SameStep"}, {"statistics": True}):
        with pytest.raises(PlanError, match="LaneOptions"):
            paddock.make_vec("CartPole-v1", num_envs=4, **options)
    env = paddock.gym.make_vec("CartPole-v1", num_envs=4, autoreset_mode="SameStep")
    assert env.metadata["autoreset_mode"] is paddock.AutoresetMode.SAME_STEP


@pytest.mark.parametrize("threads", [1, 2])
def test_the_integrator_of_lanes_can_be_changed(threads):
    env, one = lanes(lanes=LaneOptions(threads=threads)), paddock.make("CartPole-v1")
    one.reset(seed=0)
    if threads > 1:
        env._threads._resting = 0
        env.step(ZEROS), one.step(0)
        env._threads._resting = 0
    env.set_attr("kinematics_integrator", "semi-implicit euler")
    one.unwrapped.kinematics_integrator = "semi-implicit euler"
    np.testing.assert_array_equal(env.step(ZEROS)[0][0], one.step(0)[0])


def test_values_that_differ_for_a_shared_param_change_nothing():
    env = lanes(2)
    with pytest.raises(InvalidLanes, match="share gravity"):
        env.set_attr("gravity", [1.0, 9.0])
    assert env.get_attr("gravity") == (9.8, 9.8)
    with pytest.raises(AttributeError, match="no attribute 'foo'"):
        env.set_attr("foo", [1, 2])


def test_lanes_lend_and_take_their_random_streams():
    env = lanes(2)
    env.set_attr("np_random", [np.random.Generator(np.random.PCG64(5)) for _ in range(2)])
    assert env.get_attr("np_random")[0].random() == np.random.Generator(np.random.PCG64(5)).random()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize("begun", [True, False])
def test_a_copy_keeps_params_and_integrator(copied, begun):
    env = lanes() if begun else paddock.make_vec("CartPole-v1", num_envs=8)
    env.set_attr("gravity", 5.0)
    env.set_attr("kinematics_integrator", "semi-implicit euler")
    twin = copied(env)
    if not begun:
        env.reset(seed=3), twin.reset(seed=3)
    assert twin.get_attr("kinematics_integrator")[0] == "semi-implicit euler"
    for got, expected in zip(twin.step(ZEROS)[:4], env.step(ZEROS)[:4], strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_snapshot_from_before_the_first_reset():
    env = paddock.make("CartPole-v1")
    kept = env.snapshot()
    env.reset(seed=1)
    env.restore(kept)
    with pytest.raises(ResetNeeded):
        env.step(0)
    with pytest.raises(ResetNeeded):
        paddock.make_vec("CartPole-v1", num_envs=2).snapshot()


def test_a_snapshot_belongs_to_its_integrator():
    env, other = paddock.make("CartPole-v1"), paddock.make("CartPole-v1")
    env.reset(seed=1), other.reset(seed=1)
    env.unwrapped.kinematics_integrator = "semi-implicit euler"
    with pytest.raises(InvalidSnapshot):
        other.restore(env.snapshot())


@pytest.mark.parametrize("name", ["x_threshold", "length"])
def test_params_that_no_space_could_be_made_from_do_not_end_an_episode(name):
    env = paddock.gym.make("CartPole-v1")
    env.reset(seed=0)
    setattr(env.unwrapped, name, -1.0)
    for at in range(20):
        if at == 5:
            assert env.unwrapped.compile()
        env.step(0)


@pytest.mark.process
def test_numbas_own_cache_setting_does_not_move_our_machine_code(tmp_path):
    code = "import numpy as np, paddock; e = paddock.make_vec('CartPole-v1', num_envs=2); e.reset(seed=0)"
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    theirs.mkdir()
    paths = {"PADDOCK_CACHE": str(ours), "NUMBA_CACHE_DIR": str(theirs), "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **paths}, check=True)
    assert list(ours.rglob("*.nbi"))
    assert not list(theirs.rglob("*.nbi"))


def test_a_cache_below_a_folder_that_others_may_change_is_not_used(tmp_path):
    open_to_all = tmp_path / "open"
    kernels = open_to_all / "kernels"
    kernels.mkdir(parents=True, mode=0o700)
    kernels.chmod(0o700)
    assert _is_private(kernels)
    open_to_all.chmod(0o777)
    assert not _is_private(kernels)
    open_to_all.chmod(0o700)
    kernels.chmod(0o755)
    assert not _is_private(kernels)


config = ModuleType("config")
config.A, config.B = 1.0, 2.0


def helper_of_config(x):
    return x * config.B


def reads_config(x):
    return config.A + helper_of_config(x)


def plain_gain(x):
    return x + 1.0


gain = numba.njit(plain_gain)


def calls_gain(x):
    return gain(x)


def test_a_constant_that_only_a_helper_reads_is_part_of_the_fingerprint(monkeypatch):
    before = fingerprint(reads_config)
    assert fingerprint(reads_config) == before
    monkeypatch.setattr(config, "B", 3.0)
    assert fingerprint(reads_config) != before


def test_the_options_of_an_authors_own_njit_are_part_of_the_fingerprint(monkeypatch):
    before = fingerprint(calls_gain)
    monkeypatch.setitem(globals(), "gain", numba.njit(fastmath=True)(plain_gain))
    assert fingerprint(calls_gain) != before


def test_many_keys_of_which_one_is_repeated_are_refused_without_comparing_all_with_all():
    keys = ",".join(f'"k{at}":1' for at in range(200_000))
    with pytest.raises(paddock.errors.InvalidSpace):
        paddock.spaces.from_json("{" + keys + ',"k199999":1}')
