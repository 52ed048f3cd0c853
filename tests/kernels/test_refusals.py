"""What can't be compiled is refused in a sentence that names the line and what to write instead."""

import inspect
import random

import numpy as np
import pytest
from numpy.random import rand

import paddock
from paddock.kernels import Kernel, power
from paddock.kernels.env import env_class
from paddock.kernels.vector import vector_class
from paddock.spaces import Box, Discrete
from tests.kernels.tiny import State, kernel_of, tiny

OBJECT = object()
TABLE = {0: 1.0, 1: 2.0}
LIST = [1.0, 2.0]


def appends_text(state, action, rng, params):
    seen = [state.x]
    seen.append("far")  # here
    return State(seen[0]), 1.0, False


def empty_list(state, action, rng, params):
    seen = []  # here
    return State(float(len(seen))), 1.0, False


def dict_call(state, action, rng, params):
    table = dict(a=state.x)  # noqa: C408 # here
    return State(table["a"]), 1.0, False


def global_dict(state, action, rng, params):
    return State(TABLE[action]), 1.0, False  # here


def global_list(state, action, rng, params):
    return State(LIST[action]), 1.0, False  # here


def global_object(state, action, rng, params):
    return State(OBJECT.value), 1.0, False  # here


def numpys_stream(state, action, rng, params):
    return State(np.random.rand()), 1.0, False  # here


def numpys_stream_by_name(state, action, rng, params):
    return State(rand()), 1.0, False  # here


def pythons_stream(state, action, rng, params):
    return State(random.random()), 1.0, False  # here


def f_string(state, action, rng, params):
    name = f"lane {state.x}"  # here
    return State(float(len(name))), 1.0, False


def text(state, action, rng, params):
    return State(state.x + "far"), 1.0, False  # here


def unknown_draw(state, action, rng, params):
    return State(rng.normal(0.0, 1.0)), 1.0, False  # here


def draw_without_bounds(state, action, rng, params):
    return State(rng.uniform()), 1.0, False  # here


def unknown_field(state, action, rng, params):
    return State(state.y), 1.0, False  # here


def replaced(state, action, rng, params):
    return state._replace(x=1.0), 1.0, False  # here


def unknown_name(state, action, rng, params):
    return State(missing_name), 1.0, False  # noqa: F821 # here


def two_returns(state, action, rng, params):
    if action:
        return State(state.x), 1.0  # here
    return State(state.x), 1.0, False  # here


def imports(state, action, rng, params):
    import math  # here

    return State(math.cos(state.x)), 1.0, False


def raised_to_a_power(state, action, rng, params):
    return State(state.x**2), 1.0, False  # here


def numpys_exp(state, action, rng, params):
    return State(np.exp(state.x)), 1.0, False  # here


def pythons_sum(state, action, rng, params):
    return State(sum((state.x, 0.1))), 1.0, False  # here


def tries(state, action, rng, params):
    try:
        x = 1.0 / state.x
    except ZeroDivisionError:  # here
        x = 0.0
    return State(x), 1.0, False


def two_values(state, action, rng, params):  # here
    return State(state.x), 1.0


def text_as_state(state, action, rng, params):  # here
    return State("far"), 1.0, False


def text_as_reward(state, action, rng, params):  # here
    return State(state.x), "one", False


def calls_itself(state, action, rng, params):  # here
    return calls_itself(state, action, rng, params)


def yields(state, action, rng, params):  # here
    yield State(state.x), 1.0, False


def opens(state, action, rng, params):
    with open("x"):  # here
        return State(state.x), 1.0, False


def squared(x):
    return x**2  # here


def calls_a_helper(state, action, rng, params):
    return State(squared(state.x)), 1.0, False


def joined(x):
    return x + "far"  # here


def calls_a_bad_helper(state, action, rng, params):
    return State(joined(state.x)), 1.0, False


def chooses_from_a_number(state, action, rng, params):
    x = state.x + 1.0
    return State(x + rng.choice(3)), 1.0, False  # here


def inverts(state, action, rng, params):
    table = np.zeros((2, 2))
    return State(np.linalg.norm(table)), 1.0, False  # here


def multiplies_matrices(state, action, rng, params):
    table = np.zeros((2, 2))
    return State((table @ table)[0, 0]), 1.0, False  # here


HELPERS = {calls_a_helper: squared, calls_a_bad_helper: joined}
WORDS = {
    appends_text: "tuple",
    empty_list: "tuple",
    dict_call: "NamedTuple",
    global_dict: "TABLE is a dict",
    global_list: "LIST is a list",
    global_object: "OBJECT is an object. Pass its numbers through params",
    numpys_stream: "Draw from rng",
    numpys_stream_by_name: "Draw from rng",
    pythons_stream: "Draw from rng",
    f_string: "Leave text out",
    text: "Leave text out",
    unknown_draw: "rng has no normal(). It offers random, uniform, integers and choice.",
    draw_without_bounds: "rng.uniform() is called with other arguments",
    chooses_from_a_number: "A number from 0 to n - 1 is rng.integers(0, n)",
    inverts: "Write the sums in a loop",
    multiplies_matrices: "Write the sums in a loop",
    unknown_field: "State has no field y",
    replaced: "Build a new tuple",
    unknown_name: "missing_name is not defined",
    two_returns: "Return the same on every path",
    imports: "Import at the top",
    raised_to_a_power: "power(x, y)",
    numpys_exp: "Use the function of math",
    pythons_sum: "in a loop",
    tries: "with if",
    two_values: "step() must return (state, reward, terminated)",
    text_as_state: "field x is not a number",
    text_as_reward: "reward is not a number",
    calls_itself: "Write a loop",
    yields: "yield",
    opens: "Leave files",
    calls_a_helper: "power(x, y)",
    calls_a_bad_helper: "Leave text out",
}


def marked_lines(function):
    """The lines of the function that a refusal may name; of two that disagree it may be either."""
    source, first = inspect.getsourcelines(HELPERS.get(function, function))
    return [number for number, line in enumerate(source, first) if line.rstrip().endswith("# here")]


@pytest.mark.slow
@pytest.mark.parametrize("function", WORDS, ids=lambda function: function.__name__)
def test_refusal_names_the_line_and_what_to_write_instead(function):
    with pytest.raises(paddock.KernelNotCompiled) as caught:
        vector_class(kernel_of(function))(2)
    message = str(caught.value)
    assert any(f"test_refusals.py:{line}: `" in message for line in marked_lines(function))
    assert WORDS[function] in message
    assert len(message) < 400
    assert "\n" not in message
    assert "0x" not in message
    assert message.endswith("backend='loop'.")


def no_such_draw(state, action, rng, params):
    return State(rng.gamma(2.0)), 1.0, False


def test_numbas_own_text_is_kept_out_of_sight_and_asked_for_once():
    with pytest.raises(paddock.KernelNotCompiled) as first:
        vector_class(kernel_of(no_such_draw))(2)
    assert len(str(first.value.__context__)) > 500
    assert first.value.__suppress_context__
    with pytest.raises(paddock.KernelNotCompiled) as again:
        vector_class(kernel_of(no_such_draw))(2)
    assert str(again.value) == str(first.value)
    assert again.value.__context__ is None


def test_single_environment_says_why_it_is_not_compiled_and_goes_on_in_python(fresh_registry):
    kernel_of(raised_to_a_power).register("me/Power-v0")
    one = paddock.make("me/Power-v0")
    one.reset(seed=0)
    one.step(0)
    with pytest.raises(paddock.KernelNotCompiled, match=r"power\(x, y\)"):
        one.unwrapped.compile()
    assert one.step(0)[1] == 1.0
    paddock.make("me/Power-v0").reset(seed=0)


def test_a_choice_from_a_number_names_the_authors_line_in_python_too():
    line = marked_lines(chooses_from_a_number)[0]
    with pytest.raises(paddock.errors.InvalidKernel, match=rf"test_refusals\.py:{line}: rng\.choice\(3\)"):
        env_class(kernel_of(chooses_from_a_number))().reset(seed=0)


def test_lanes_in_a_loop_take_what_compiled_lanes_refuse(fresh_registry):
    kernel_of(raised_to_a_power).register("me/Power-v0")
    with pytest.raises(paddock.KernelNotCompiled):
        paddock.make("me/Power-v0", num_envs=2)
    looped = paddock.make("me/Power-v0", num_envs=2, backend="loop")
    looped.reset(seed=0)
    assert looped.step(np.zeros(2, int))[1].tolist() == [1.0, 1.0]


def lists_and_dicts_of_numbers(state, action, rng, params):
    seen = [0.5]
    seen.append(state.x)
    table = {1: 2.0, 2: 0.25}
    return State(seen[-1] + table[1 + action]), power(state.x, 2.0), False


def uniform(rng):
    return rng.uniform(0.0, 1.0)


def calls_a_helper_named_as_a_draw(state, action, rng, params):
    return State(uniform(rng)), 1.0, False


@pytest.mark.parametrize("function", [lists_and_dicts_of_numbers, calls_a_helper_named_as_a_draw])
def test_what_compiles_agrees_with_python(function, in_python):
    kernel = kernel_of(function)
    compiled = vector_class(kernel)(4)
    in_python()
    python = vector_class(kernel)(4)
    for made in (compiled, python):
        made.reset(seed=0)
    for action in np.random.default_rng(0).integers(0, 2, (20, 4)):
        for a, b in zip(compiled.step(action)[:4], python.step(action)[:4], strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"initial": lambda rng, params: (1.0, 2.0)}, "state is .* expected a NamedTuple"),
        ({"initial": lambda rng, params: State("far")}, None),
        ({"observation_space": paddock.spaces.Text(3)}, "A kernel observes a Box"),
        ({"action_space": paddock.spaces.MultiBinary(3)}, "A kernel takes a Discrete"),
        ({"action_space": Box(0, 5, (2,), np.int32)}, "A kernel takes a Discrete"),
    ],
)
def test_kernel_that_is_none_is_refused_when_made(fields, words):
    parts = {"initial": tiny.initial, "step": tiny.step, "observe": tiny.observe, "params": tiny.params}
    parts |= {"observation_space": tiny.observation_space, "action_space": Discrete(2)}
    with pytest.raises(paddock.InvalidKernel, match=words):
        vector_class(Kernel(**{**parts, **fields}))(2)
