"""The judge of one environment, of lanes and of shared rows: which reply becomes what, and where each bound lies."""

import msgspec
import numpy as np
import pytest

from paddock.errors import BadFrame, EnvFailed, EnvironmentViolation, WorkerLost
from paddock.hosting import messages as m
from paddock.hosting.judge import Breach, Judge, RowJudge, WallRules, read_notes, read_spaces
from paddock.hosting.layout import Block, StepLayout
from paddock.spaces import Box, Dict, Discrete, Sequence, Text
from paddock.spaces.rows import layout
from tests.hosting.exactness import assert_same

POSITION = Box(-1, 1, (2,))
HERE = np.zeros(2, np.float32)
LANES = 3
RULES = WallRules()
SPOILED = "\x1b[2Jplain"  # what a terminal would obey is cut from the text


def path_of(call, *args, **kwargs):
    with pytest.raises(EnvironmentViolation) as caught:
        call(*args, **kwargs)
    return caught.value.path


def describe(observations=POSITION, actions=POSITION, **fields):
    return m.Description(observations.to_json(), actions.to_json(), {}, **fields)


def deep(levels, value=1):
    for _ in range(levels):
        value = [value]
    return value


# Bounds: the last value that passes, and the first that does not


def test_frames_from_behind_a_wall_have_limits_of_their_own():
    limits = WallRules().frames
    assert (limits.depth, limits.text_bytes, limits.json_bytes, limits.odd_keys) == (48, 16 << 20, 256 << 10, 256)


@pytest.mark.parametrize(
    ("fits", "too_much"),
    [
        (deep(7), deep(8)),
        ([None] * 4095, [None] * 4096),  # the dict has one entry too
        (b"x" * (65_536 - 8 * 3 - 1), b"x" * (65_536 - 8 * 3)),  # the dict, its key "a" and the value cost 8 each
    ],
    ids=["depth", "entries", "bytes"],
)
def test_an_info_may_have_8_levels_4096_entries_and_64_kib(fits, too_much):
    assert Judge(POSITION).info({"a": fits}) == {"a": fits}
    assert path_of(Judge(POSITION).info, {"a": too_much}).startswith("info")


@pytest.mark.parametrize(
    ("fits", "too_much"),
    [
        (deep(16), deep(17)),
        ([None] * 65_536, [None] * 65_537),
        (np.zeros((64 << 20) - 8, np.int8), np.zeros((64 << 20) - 7, np.int8)),
    ],
    ids=["depth", "entries", "bytes"],
)
def test_an_attribute_may_have_16_levels_65536_entries_and_64_mib(fits, too_much):
    assert Judge(POSITION).value(fits, "things") is fits
    assert path_of(Judge(POSITION).value, too_much, "things").startswith("things")


def test_a_value_of_a_space_may_take_256_mib():
    # A Sequence counts as 64 bytes and 8 members, here texts, whose characters may take 4 bytes each.
    fits, too_much = Sequence(Text((8 << 20) - 2)), Sequence(Text((8 << 20) - 1))
    assert read_spaces(describe(fits, fits), WallRules()) == (fits, fits)
    assert path_of(read_spaces, describe(too_much, fits), WallRules()) == "observation_space"
    assert path_of(read_spaces, describe(fits, too_much), WallRules()) == "action_space"


def test_the_values_of_all_lanes_may_take_1_gib():
    large, small = Text(1 << 20), Text(1)
    assert read_spaces(describe(large, large), WallRules(), count=256) == (large, large)
    assert path_of(read_spaces, describe(large, small), WallRules(), count=257) == "observation_space"
    assert path_of(read_spaces, describe(small, large), WallRules(), count=257) == "action_space"


def test_a_reward_may_be_the_end_of_its_range():
    judge = Judge(POSITION, WallRules(reward_range=(-2, 3)))
    for reward in (-2.0, 3.0, -2, 3, np.float32(-2), np.int8(3)):
        judge.check_numbers(reward, False, False)
    for reward in (-2.5, 3.5, -3, 4, np.float32(-2.5), np.int8(4)):
        assert path_of(judge.check_numbers, reward, False, False) == "reward"


@pytest.mark.parametrize(
    ("reward", "rule"),
    [
        *((None, "reward-type"), (True, "reward-type"), (np.inf, "reward-not-finite"), (-np.inf, "reward-not-finite")),
        *((np.nan, "reward-not-finite"), (2e9, ""), (-(10**400), "")),
    ],
)
def test_a_reward_that_is_refused_names_the_rule_of_the_checker(reward, rule):
    with pytest.raises(EnvironmentViolation) as caught:
        Judge(POSITION).check_numbers(reward, False, False)
    assert caught.value.rule == rule


def test_a_name_of_an_episode_has_200_characters_and_a_count_63_bits():
    judge = Judge(POSITION)
    assert judge.state(["x" * 200, 2**63 - 1, None]) == ("x" * 200, 2**63 - 1, None)
    assert path_of(judge.state, ["x" * 201, 0, None]) == "state().episode_id"
    assert path_of(judge.state, ["x", 2**63, None]) == "state().step_count"


def test_a_picture_may_lie_in_a_list_of_a_list():
    judge, picture = Judge(POSITION), np.zeros((2, 2), np.float32)
    assert judge.render(picture, "depth_array") is picture
    assert judge.render(picture[None], "depth_array").shape == (1, 2, 2)
    assert judge.render([[picture]], "depth_array_list") == [[picture]]
    assert path_of(judge.render, deep(3, picture), "depth_array_list") == "render()[0][0]"


def test_text_keeps_its_colours_in_the_mode_ansi_alone():
    judge, red = Judge(POSITION), "\x1b[31mred\x1b[0m"
    assert judge.render([red], "ansi_list") == [red] and judge.render((red,), "ansi") == (red,)
    assert judge.render(red, None) == "red" and judge.render(None, "ansi") is None


# Which reply is what


def rows_of(judge, observation=HERE, reward=1.0):
    return bytearray(judge.layout.pack_result(observation, reward, False, True))


def stepped_in_rows(rules, **fields):
    judge = Judge(rules=rules)
    judge.spaces(describe(rows=True))
    return judge, m.Rows(**{"rows": rows_of(judge), **fields})


@pytest.mark.parametrize("rules", [None, WallRules()], ids=["trusted", "walled"])
def test_rows_are_the_five_results_of_a_step(rules):
    for notes, info in ((None, {}), ([], {}), ([[0, {"a": 1}]], {"a": 1})):
        judge, reply = stepped_in_rows(rules, notes=notes)
        assert_same(list(judge.read(m.StepRows(), reply)), [HERE, 1.0, False, True, info])


@pytest.mark.parametrize("rules", [None, WallRules()], ids=["trusted", "walled"])
def test_rows_that_were_not_asked_for_are_refused(rules):
    judge, reply = stepped_in_rows(rules)
    assert path_of(judge.read, m.Step([0], [HERE]), reply) == "step()"
    assert path_of(judge.read, m.StepRows(), m.Rows()) == "step()"
    assert path_of(judge.read, m.StepRows(), m.Rows([[1, {}]], rows=reply.rows)) == "step()"
    assert path_of(Judge(POSITION, rules).read, m.StepRows(), reply) == "step()"


def test_rows_are_judged_like_values():
    judge, _ = stepped_in_rows(WallRules())
    assert path_of(judge.read, m.StepRows(), m.Rows(rows=rows_of(judge, HERE + 2))) == "observation[0]"
    assert path_of(judge.read, m.StepRows(), m.Rows(rows=rows_of(judge, reward=np.inf))) == "reward"
    assert path_of(judge.read, m.StepRows(), m.Rows([[0, {1: 2}]], rows=rows_of(judge))) == "info"


STEP, JUDGED_STEP = (HERE, 1.0, False, False, {"a": SPOILED}), (HERE, 1.0, False, False, {"a": "plain"})
REPLIES = [  # what comes back, what the caller gets for it, and what without rules
    (m.Step([0], [0]), [list(STEP)], JUDGED_STEP, STEP),
    (m.StepRows(), [list(STEP)], JUDGED_STEP, STEP),
    (m.Reset(0), [HERE, {"a": SPOILED}], (HERE, {"a": "plain"}), (HERE, {"a": SPOILED})),
    (m.State(0), [SPOILED, 1, SPOILED], ("plain", 1, "plain"), [SPOILED, 1, SPOILED]),
    (m.Render(0), SPOILED, "plain", SPOILED),
    (m.Snapshot(0), b"x", b"x", b"x"),
    (m.Call(0, "a"), SPOILED, "plain", SPOILED),
    (m.Call(0, "a", how="get"), SPOILED, "plain", SPOILED),
    (m.Restore(0, b"x"), SPOILED, None, SPOILED),
    (m.Close(), SPOILED, None, SPOILED),
]


@pytest.mark.parametrize(
    ("asked", "value", "judged", "believed"), REPLIES, ids=[type(row[0]).__name__ for row in REPLIES]
)
def test_each_request_has_its_reader(asked, value, judged, believed):
    assert Judge(POSITION).read(asked, m.Done(value)) == judged
    assert Judge(POSITION, None).read(asked, m.Done(value)) == believed


def test_without_rules_any_value_is_an_observation_and_any_number_a_reward():
    judge = Judge(POSITION, None)
    assert judge.step([["x", np.inf, 1, None, 5]]) == ("x", np.inf, 1, None, 5)
    assert judge.observation("x") == "x" and judge.info(5) == 5


def test_a_far_end_is_killed_for_a_lie_only_if_it_is_not_trusted():
    assert Judge(POSITION, None).ends == ()
    assert Judge(POSITION).ends == (EnvironmentViolation, WorkerLost)


def test_a_failure_is_the_error_of_its_lane():
    failed = m.Failed("ENV_FAILED", SPOILED)
    for rules, text in ((None, SPOILED), (WallRules(), "plain")):
        judge = Judge(POSITION, rules, lane=2)
        for reply in (failed, m.Done([failed])):
            with pytest.raises(EnvFailed) as caught:
                judge.read(m.Step([0], [0]), reply)
            assert caught.value.lane == 2 and str(caught.value) == f"lane 2: {text}"


def test_only_a_server_may_report_that_a_worker_is_lost():
    lost = m.Failed("ENV_LOST", "it crashed")
    assert type(Judge(POSITION, WallRules(server=True)).failure(lost)) is WorkerLost
    assert type(Judge(POSITION).failure(lost)) is EnvFailed


def test_what_was_made_is_what_is_judged_from_then_on():
    judge = Judge()
    described = judge.read(m.Make(0, {}), m.Done(msgspec.to_builtins(describe(render_mode="ansi"))))
    assert judge.spaces(described) == (POSITION, POSITION)
    assert judge.observation(HERE) is HERE
    assert judge.read(m.Render(0), m.Done("\x1b[31mred")) == "\x1b[31mred"
    assert judge.layout is None


def test_before_it_is_made_an_environment_shows_nothing():
    for value in (HERE, 1, None):
        assert path_of(Judge().observation, value) == "observation"


def test_steps_are_rows_if_both_ends_take_them():
    for far, near, rows in ((True, True, True), (True, False, False), (False, True, False)):
        judge = Judge()
        judge.spaces(describe(actions=Discrete(3), rows=far), rows=near)
        assert (judge.layout is not None) is rows
        assert type(judge.request_step(2)) is (m.StepRows if rows else m.Step)


def test_an_action_that_rows_would_change_is_sent_as_it_is():
    judge = Judge()
    judge.spaces(describe(actions=Discrete(3), rows=True))
    assert judge.request_step(2) == m.StepRows([], None, True, b"\2" + bytes(7))
    assert judge.request_step(np.int64(2)) == m.StepRows([], None, False, b"\2" + bytes(7))
    assert judge.request_step(np.int8(2)) == m.Step([0], [np.int8(2)])


def test_spaces_of_the_callers_own_are_taken_as_they_are():
    judge, own = Judge(rules=None), (Text(3), Discrete(2))
    assert judge.spaces(m.Description(None, None, {}, custom="Own"), own) == own
    with pytest.raises(BadFrame, match="Own"):
        judge.spaces(m.Description(Text(3).to_json(), None, {}, custom="Own"))
    with pytest.raises(BadFrame, match="Own"):
        judge.spaces(m.Description(None, Text(3).to_json(), {}, custom="Own"))
    assert judge.spaces(describe()) == (POSITION, POSITION)


def test_lanes_share_the_bound_of_their_spaces():
    judge = Judge(rules=WallRules(lanes_bytes=100), count=LANES)
    assert path_of(judge.spaces, describe(Box(0, 1, (5,), np.float64))) == "observation_space"


# Lanes that the far end holds as one: every result has a row for each


def lanes(**options):
    return Judge(POSITION, WallRules(**options), count=LANES)


def lanes_step(judge, observation=None, reward=None, terminated=None, truncated=None, info=None):
    flags = np.array([False, True, True])
    values = [np.zeros((LANES, 2), np.float32), np.zeros(LANES), flags, flags, {}]
    given = (observation, reward, terminated, truncated, info)
    return judge.step([[value if one is None else one for value, one in zip(values, given, strict=True)]])


def test_results_of_lanes_are_rows():
    assert lanes_step(lanes())[2].tolist() == [False, True, True]
    assert path_of(lanes_step, lanes(), observation=HERE) == "observation"
    assert path_of(lanes_step, lanes(reward_range=(-1, 1)), reward=np.array([0, 1, 1.5])) == "reward[2]"
    assert path_of(lanes_step, lanes(), reward=0.0) == "reward"
    assert path_of(lanes_step, lanes(), terminated=False) == "terminated"
    assert path_of(lanes_step, lanes(), truncated=np.zeros(LANES, np.int8)) == "truncated"


def test_lanes_may_bring_as_much_info_as_so_many_environments():
    rules = {"info": WallRules().info._replace(bytes=1000, depth=1, entries=4)}
    for info, longer in (({"a": [b"x" * 980] * 3}, {"a": [b"x" * 980] * 4}), ({"a": [1] * 11}, {"a": [1] * 12})):
        assert lanes(**rules).info(info) == info
        assert path_of(lanes(**rules).info, longer) == "info"
    assert path_of(lanes(**rules).info, {"a": [[1]]}) == "info['a'][0]"


def test_each_lane_may_have_a_last_observation():
    outside = HERE + 2
    final = [None, HERE, None]
    assert lanes().info({"final_obs": final, "a": 1}) == {"final_obs": final, "a": 1}
    assert path_of(lanes().info, {"final_obs": [None, HERE, outside]}) == "info['final_obs'][2][0]"
    assert path_of(Judge(POSITION, lane=1).info, {"final_obs": None}) == "info['final_obs']"


def test_reading_a_last_observation_does_not_change_what_came():
    came = {"a": 1, "final_obs": HERE}
    read = Judge(POSITION, lane=0).info(came)
    assert read["final_obs"] is HERE and read["a"] == 1 and "final_obs" in came


def test_objects_of_lanes_with_a_mask_are_an_array():
    mask = np.array([True, False, True])
    read = lanes().info({"a": ["x", None, "y"], "_a": mask, "b": [1, 2, 3]})
    assert read["a"].dtype == object and read["a"].tolist() == ["x", None, "y"] and read["b"] == [1, 2, 3]


def test_states_and_pictures_of_lanes_are_one_for_each():
    picture = np.zeros((1, 1, 3), np.uint8)
    assert lanes().state([[None, 1, "a"]] * LANES) == [(None, 1, "a")] * LANES
    assert lanes().render((picture,) * LANES, "rgb_array") == (picture,) * LANES
    assert path_of(lanes().state, [[None, 1, "a"]] * 2) == "state()"
    assert path_of(lanes().state, [[None, 1, "a"], [None, 1, "a"], [5, 1, "a"]]) == "state()[2].episode_id"
    assert path_of(lanes().render, [picture, picture, "x"], "rgb_array") == "render()[2]"
    assert path_of(lanes().state, "abc") == "state()"


def test_methods_of_lanes_return_one_value_for_each():
    def read(name, value):
        return lanes().read(m.Call(0, name, ["np_random_seed"]), m.Done(value))

    assert read("get_attr", [1, 2, 3]) == read("call", (1, 2, 3)) == (1, 2, 3)
    assert read("set_attr", SPOILED) is None
    rows = np.zeros((LANES, 2), np.float32)
    assert read("reset", (rows, {"a": 1})) == read("reset", [rows, {"a": 1}]) == (rows, {"a": 1})
    assert path_of(read, "reset", {"a": 1, "b": 2}) == "reset()"
    assert path_of(read, "call", [1, 2]) == "np_random_seed"
    assert path_of(read, "get_attr", [1, 2, "3"]) == "np_random_seed[2]"


def test_seeds_may_be_integers_of_numpy():
    assert Judge(POSITION).value(np.int64(3), "np_random_seed") == 3


# Rows that a worker shares

NESTED = Dict({"a": POSITION, "b": Box(0, 1, (), np.bool_), "c": Discrete(4)})


class Shared:
    """A block as a worker left it, and the judge of its rows."""

    def __init__(self, *observed, rules=RULES):
        self.judges = [Judge(space, rules, lane=lane) for lane, space in enumerate(observed)]
        self.block = Block(StepLayout(layout(observed[0]), layout(Discrete(2)), len(observed)))
        self.judge = RowJudge(self.block.layout, self.judges)

    def read(self, rows=None):
        return self.judge.read(self.block, range(self.block.rows) if rows is None else rows)

    def breach(self, rows=None):
        """The row and the path of the lie."""
        with pytest.raises(Breach) as caught:
            self.read(rows)
        assert str(caught.value) == str(caught.value.error)
        return caught.value.row, caught.value.error.path


def test_rows_of_a_trusted_worker_are_not_copied():
    shared = Shared(POSITION, POSITION, rules=None)
    shared.block.rewards[1] = np.inf
    assert shared.read() is shared.block


def test_what_a_worker_writes_later_does_not_show():
    shared = Shared(POSITION, POSITION)
    shared.block.observations[1] = 0.5
    for rows in (None, [1]):
        copy = shared.read(rows)
        shared.block.observations[1] = np.nan
        assert copy.observations[1].tolist() == [0.5, 0.5]
        shared.block.observations[1] = 0.5


def lie(part, value):
    def write(block, row):
        at = block
        for name in part.split("."):
            at = at[name] if isinstance(at, dict) else getattr(at, name)
        at.view(np.uint8 if at.dtype == np.bool_ else at.dtype)[row] = value

    return write


LIES = [
    (lie("observations.a", 1.5), "observation['a'][0]"),
    (lie("observations.b", 7), "observation['b']"),
    (lie("observations.c", 4), "observation['c']"),
    (lie("rewards", np.nan), "reward"),
    (lie("terminations", 2), "terminated"),
    (lie("truncations", 255), "truncated"),
]


@pytest.mark.parametrize(("tell", "path"), LIES, ids=[path for _, path in LIES])
@pytest.mark.parametrize("rows", [None, [2, 1]], ids=["all rows", "some rows"])
def test_a_lie_in_a_row_is_found_where_it_stands(tell, path, rows):
    shared = Shared(NESTED, NESTED, NESTED)
    shared.read(rows)
    tell(shared.block, 1)
    assert shared.breach(rows) == (1, path)


def test_a_worker_may_share_a_single_row():
    shared = Shared(POSITION)
    assert shared.read().rows == 1
    shared.block.rewards[0] = np.inf
    assert shared.breach() == (0, "reward")


def test_only_the_rows_that_were_stepped_are_judged():
    shared = Shared(NESTED, NESTED, NESTED)
    shared.block.rewards[0] = np.inf
    shared.read([1, 2])
    assert shared.breach([2, 0]) == (0, "reward")


def test_each_row_is_judged_by_its_own_space():
    shared = Shared(POSITION, Box(-2, 2, (2,)))
    shared.block.observations[1] = 1.5
    shared.read()
    shared.block.observations[0] = 1.5
    assert shared.breach() == (0, "observation[0]")


def test_rows_without_observations_have_numbers_that_are_judged():
    shared = Shared(Text(3), Text(3))
    assert shared.read().observations is None
    shared.block.truncations[1] = 2
    assert shared.breach() == (1, "truncated")


def test_rows_that_are_alike_and_honest_are_judged_at_once(monkeypatch):
    shared, one_by_one = Shared(POSITION, POSITION), []
    monkeypatch.setattr(Judge, "check_numbers", lambda judge, *numbers: one_by_one.append(numbers))
    shared.read()
    assert one_by_one == []
    shared.read([1])
    assert one_by_one == [(0.0, False, False)]


# Notes of a step


FAILED = m.Failed("ENV_FAILED", "no")


def test_notes_are_told_by_their_row():
    assert read_notes([], [0, 1], loose=False) == {}
    assert read_notes([[1, {"a": 1}], [0, FAILED]], [0, 1], loose=False) == {1: ({"a": 1},), 0: (FAILED,)}
    assert read_notes([[4, {}, "abc"], [2, FAILED]], [2, 4], loose=True) == {4: ({}, "abc"), 2: (FAILED,)}


@pytest.mark.parametrize(
    ("notes", "loose", "problem"),
    [
        *((notes, False, "not a list") for notes in (None, {}, ([0, {}],), [None], [[]], [(0, {})], [[True, {}]])),
        *((notes, False, "other environments") for notes in ([[2, {}]], [[0, {}], [-1, {}]])),
        *((notes, True, "other environments") for notes in ([], [[0, {}, 1]], [[0, {}, 1], [0, {}, 1]])),
        *(([[0, *note]], False, "neither") for note in ((), (5,), ({}, 1), (FAILED, 1), ({}, 1, 2))),
        *(([[0, *note], [1, {}, 1]], True, "neither") for note in ((), ({},), (5, 1), (FAILED, 1), ({}, 1, 2))),
    ],
)
def test_notes_that_no_worker_of_ours_sends_are_refused(notes, loose, problem):
    with pytest.raises(BadFrame, match=problem):
        read_notes(notes, [0, 1], loose=loose)
