"""RecordVideo: which frames are in which file, and that they leave memory.

The oracle is Gymnasium's own wrapper, with a stand-in for moviepy that notes what it is given.
"""

import copy
import gc
import json
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import gymnasium
import numpy as np
import pytest

import paddock
from paddock import AutoresetMode, errors
from paddock.testing import check_wrapper
from paddock.vector import SyncVectorEnv
from paddock.wrappers import RecordVideo, RenderCollection, vector
from paddock.wrappers.video import capped_cubic_video_schedule
from tests.wrappers.painters import Painter, frame_of, frames_in, number_in, played, videos

av = pytest.importorskip("av")
MODES = tuple(AutoresetMode)


def quarters(frame):
    """The numbers in the quarters of a frame: those of four lanes, or one four times."""
    return [number_in(part) for half in np.split(frame, 2) for part in np.split(half, 2, axis=1)]


class TheirPainter(gymnasium.Env):
    metadata = Painter.metadata
    observation_space, action_space = gymnasium.spaces.Discrete(100), gymnasium.spaces.Discrete(2)
    __init__, step, render = Painter.__init__, Painter.step, Painter.render

    def reset(self, *, seed=None, options=None):
        self.episode, self.time = self.episode + 1, 0
        return 0, {}


@pytest.fixture
def filmed(monkeypatch):
    """What Gymnasium hands to moviepy: file name to frame numbers."""
    found = {}

    class ImageSequenceClip:
        def __init__(self, frames, fps):
            self.frames = [quarters(frame) for frame in frames]

        def write_videofile(self, path, logger):
            found[Path(path).stem] = self.frames

    for name in ("moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip"):
        module = ModuleType(name)
        module.ImageSequenceClip = ImageSequenceClip
        monkeypatch.setitem(sys.modules, name, module)
    return found


CHOICES = {
    "every episode": {"episode_trigger": lambda episode: True},
    "every other": {"episode_trigger": lambda episode: episode % 2 == 1},
    "default schedule": {},
    "at steps": {"step_trigger": lambda step: step in (2, 5)},
    "both": {"step_trigger": lambda step: step == 2, "episode_trigger": lambda episode: episode == 1},
    "pieces": {"step_trigger": lambda step: step % 6 == 0, "video_length": 3},
    "across episodes": {"episode_trigger": lambda episode: episode == 0, "video_length": 7},
    "one step": {"episode_trigger": lambda episode: True, "video_length": 1},
    "never": {"episode_trigger": lambda episode: False},
    "named": {"name_prefix": "run", "fps": 5},
}
choices = pytest.mark.parametrize("options", CHOICES.values(), ids=CHOICES)


@pytest.mark.slow
@choices
def test_the_files_and_frames_are_gymnasiums(options, tmp_path, filmed):
    played(gymnasium.wrappers.RecordVideo(TheirPainter(), str(tmp_path / "theirs"), **options)).close()
    played(RecordVideo(Painter(), tmp_path / "ours", **options)).close()
    assert videos(tmp_path / "ours", quarters) == filmed


def lanes(painter, library, mode):
    make = [lambda lane=lane: painter((3 + lane, 4), lane) for lane in range(4)]
    return library.SyncVectorEnv(make, autoreset_mode=library.AutoresetMode(mode.value))


def drive(env, mode):
    env.reset(seed=1)
    for _ in range(14):
        _, _, terminated, truncated, _ = env.step(np.zeros(4, np.int64))
        if mode is AutoresetMode.DISABLED and terminated[0]:
            env.reset(options={"reset_mask": terminated})
        elif mode is AutoresetMode.DISABLED and terminated.any():
            env.reset(options={"reset_mask": terminated | truncated})
    env.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*autoreset mode is same-step", "ignore:.*zero frames to save")
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("first", [True, False], ids=["first lane", "all lanes"])
@choices
def test_the_files_and_frames_of_lanes_are_gymnasiums(options, first, mode, tmp_path, filmed):
    theirs = lanes(TheirPainter, gymnasium.vector, mode)
    ours = lanes(Painter, paddock.gym.vector, mode)
    recorded = {"record_first_only": first, "gc_trigger": None, **options}
    drive(gymnasium.wrappers.vector.RecordVideo(theirs, str(tmp_path / "theirs"), **recorded), mode)
    drive(vector.RecordVideo(ours, tmp_path / "ours", **recorded), mode)
    assert videos(tmp_path / "ours", quarters) == filmed


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [(1, 1), (16, 9), (4, 1), (1, 3)])
@pytest.mark.parametrize("count", [1, 2, 6, 7, 12, 16])
def test_the_grid_is_gymnasiums(ratio, count, tmp_path, filmed):
    grids = []
    for painter, library, folder in ((Painter, paddock, "ours"), (TheirPainter, gymnasium, "theirs")):
        env = library.vector.SyncVectorEnv([painter] * count)
        env = library.wrappers.vector.RecordVideo(env, str(tmp_path / folder), ratio)
        env.reset()
        grids.append((env.frame_rows, env.frame_cols))
        env.close()
    assert grids[0] == grids[1]


def test_each_lane_has_its_place_in_the_grid(tmp_path):
    env = SyncVectorEnv([lambda lane=lane: Painter(lane=lane) for lane in range(2)])
    env = vector.RecordVideo(env, tmp_path)
    env.reset()
    env.close()
    (frame,) = frames_in(tmp_path / "rl-video-episode-0.mp4")
    assert frame.shape == (32, 96, 3)
    assert [number_in(part) for part in (frame[:, :48], frame[:, 48:])] == [0, 10]


@pytest.mark.filterwarnings("ignore:Vector environment's autoreset mode is same-step")
def test_recording_changes_nothing_that_the_agent_sees(tmp_path, seed):
    always = {"episode_trigger": lambda episode: True, "gc_trigger": None}

    def single(lane):
        return RecordVideo(Painter((2 + lane, 5), lane), tmp_path / f"one{lane}", **always)

    def many(mode):
        env = SyncVectorEnv([lambda k=k: Painter((2 + k, 5), k) for k in range(3)], autoreset_mode=mode)
        return vector.RecordVideo(env, tmp_path / mode.value, **always)

    with pytest.warns(UserWarning, match="Overwriting existing videos"):  # single environments are made for each mode
        check_wrapper(single, many, steps=12, seed=seed)


def test_a_lane_that_is_held_begins_no_episode(tmp_path):
    env = SyncVectorEnv([Painter, Painter])
    env = vector.RecordVideo(env, tmp_path, record_first_only=True, episode_trigger=lambda episode: True)
    env.reset()
    for _ in range(3):
        env.step([0, 0])
    env.hold(np.array([True, True]))
    env.step([0, 0])  # the lane stays at its end
    assert (env.episode_id, env.has_autoreset) == (0, True)
    env.step([0, 0])
    assert (env.episode_id, env.has_autoreset) == (1, False)
    env.close()
    assert videos(tmp_path)["rl-video-episode-0"] == [0, 1, 2, 3, 3]


def test_the_first_thousand_cubes_and_then_every_thousandth():
    chosen = [episode for episode in range(3001) if capped_cubic_video_schedule(episode)]
    assert chosen == [0, 1, 8, 27, 64, 125, 216, 343, 512, 729, 1000, 2000, 3000]


# Attributes, calls and arguments.


def test_attributes_are_gymnasiums(tmp_path, filmed):
    ours = RecordVideo(Painter(), tmp_path / "ours", video_length=4)
    theirs = gymnasium.wrappers.RecordVideo(TheirPainter(), str(tmp_path / "theirs"), video_length=4)
    for env in (ours, theirs):
        env.reset()
        env.step(0)
    names = ("video_length", "frames_per_sec", "name_prefix", "_video_name", "recording", "step_id", "episode_id")
    for name in (*names, "step_trigger", "disable_logger", "render_history"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert len(ours.recorded_frames) == len(theirs.recorded_frames) == 2
    assert Path(ours.video_folder) == tmp_path / "ours"
    assert ours.gc_trigger(3)
    for env in (ours, theirs):
        env.close()
        assert not env.recording
        assert len(env.recorded_frames) == 0


def test_a_recording_is_started_and_stopped_by_hand(tmp_path):
    env = RecordVideo(Painter(), tmp_path, episode_trigger=lambda episode: False)
    env.reset()
    env.start_recording("mine")
    env.step(0)
    env.start_recording("other")  # completes the first
    env.step(0)
    env.stop_recording()
    env.step(0)
    assert videos(tmp_path) == {"mine": [1], "other": [2]}
    with pytest.raises(errors.CheckFailed, match="no recording was started") as caught:
        env.stop_recording()
    assert isinstance(caught.value, AssertionError)
    env.start_recording("empty")
    with pytest.warns(UserWarning, match="zero frames to save"):
        env.close()


def test_garbage_is_collected_after_the_videos_that_gc_trigger_names(tmp_path, monkeypatch):
    collected, asked = [], []
    monkeypatch.setattr(gc, "collect", lambda: collected.append(asked[-1]))

    def chosen(episode):
        asked.append(episode)
        return episode % 2 == 0

    played(RecordVideo(Painter(), tmp_path, lambda episode: True, gc_trigger=chosen)).close()
    assert (asked, collected) == ([1, 2, 3, 3], [2])
    played(RecordVideo(Painter(), tmp_path / "more", gc_trigger=None), episodes=1).close()
    assert collected == [2]


def test_the_file_has_the_declared_rate_and_an_even_size(tmp_path):
    for rate in (None, 5, 29.97):
        env = RecordVideo(Painter(shape=(31, 47, 3)), tmp_path / str(rate), fps=rate)
        played(env, episodes=1).close()
        with av.open(str(tmp_path / str(rate) / "rl-video-episode-0.mp4")) as container:
            stream = container.streams.video[0]
            assert float(stream.average_rate) == pytest.approx(rate or 20, rel=1e-4)
            assert (stream.height, stream.width, stream.frames) == (32, 48, 4)


@pytest.mark.parametrize(
    "frame", [np.full((32, 48), 0.5), np.full((32, 48, 1), 255, np.uint8), np.full((32, 48, 4), 255)]
)
def test_depth_grey_and_alpha_are_recorded_too(frame, tmp_path):
    env = Painter()
    env.render = lambda: frame
    played(RecordVideo(env, tmp_path), episodes=1).close()
    shades = [float(one.mean()) for one in frames_in(tmp_path / "rl-video-episode-0.mp4")]
    assert shades == pytest.approx([255] * 4, abs=3)


@pytest.mark.parametrize("mode", [None, "human", "ansi"])
def test_a_mode_without_pictures_is_refused(mode, tmp_path):
    with pytest.raises(errors.UnsupportedMode, match=f"Render mode is {mode}, which is incompatible") as caught:
        RecordVideo(Painter(render_mode=mode), tmp_path)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("rate", [0, -1, float("nan"), "fast", True])
def test_a_rate_that_is_none_is_refused(rate, tmp_path):
    with pytest.raises(errors.InvalidMetadata, match="positive number of frames"):
        RecordVideo(Painter(), tmp_path, fps=rate)


def test_a_folder_with_such_videos_is_warned_of_and_no_other(tmp_path):
    (tmp_path / "notes.txt").touch()
    played(RecordVideo(Painter(), tmp_path), episodes=1).close()
    with pytest.warns(UserWarning, match="Overwriting existing videos") as told:
        RecordVideo(Painter(), tmp_path)
    assert told[0].filename == __file__
    RecordVideo(Painter(), tmp_path, name_prefix="another")


def test_the_spec_goes_through_json_and_makes_the_wrapper_again(tmp_path, fresh_registry):
    paddock.register("test/Painter-v0", "tests.wrappers.painters:Painter")
    env = paddock.make("test/Painter-v0", render_mode="rgb_array")
    env = RecordVideo(env, tmp_path / "one", video_length=2, name_prefix="x")
    spec = paddock.EnvSpec.from_json(env.spec.to_json())
    assert json.loads(env.spec.to_json())["additional_wrappers"][0]["kwargs"]["video_length"] == 2
    again = paddock.make(spec)
    assert (again.video_length, again.name_prefix, again.gc_trigger(0)) == (2, "x", True)


def test_a_copy_does_not_record_and_the_original_goes_on(tmp_path):
    env = RecordVideo(Painter(), tmp_path)
    env.reset()
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert not other.recording
        other.step(0)
        other.close()
    env.step(0)
    env.close()
    assert videos(tmp_path) == {"rl-video-episode-0": [0, 1]}


# `render` for the agent.


@pytest.mark.slow
@pytest.mark.parametrize("pop_frames", [True, False])
@pytest.mark.parametrize("reset_clean", [True, False])
def test_rendered_lists_are_those_without_the_wrapper(pop_frames, reset_clean, tmp_path):
    plain = RenderCollection(Painter(), pop_frames, reset_clean)
    filmed = RecordVideo(RenderCollection(Painter(), pop_frames, reset_clean), tmp_path, lambda episode: True)
    seen = []
    for env in (plain, filmed):
        rendered = []
        for asked in ((), (2,), (1, 3), ()):
            env.reset()
            for step in range(1, 4):
                env.step(0)
                if step in asked:
                    rendered.append([number_in(frame) for frame in env.render()])
        seen.append(rendered)
    filmed.close()
    assert seen[0] == seen[1]
    assert set(map(tuple, videos(tmp_path).values())) == {(0, 1, 2, 3)}


def test_frames_taken_from_a_list_do_not_pile_up(tmp_path):
    env = played(RecordVideo(RenderCollection(Painter((20,))), tmp_path, lambda episode: True), episodes=5)
    assert len(env.render_history) <= 21
    env.close()


# Memory and the end of a program.

LONG = """
    import resource, sys
    import numpy as np
    from paddock.wrappers import RecordVideo
    from tests.wrappers.painters import Painter

    frames, height, width = map(int, sys.argv[2:5])

    class Endless(Painter):
        def render(self):
            frame = np.full((height, width, 3), 40, np.uint8)
            frame[self.time % height] = self.time % 250
            return frame

    env = RecordVideo(Endless((frames + 9,)), sys.argv[1], gc_trigger=None)
    env.reset()
    for step in range(frames):
        if step == min(frames // 10, 1000):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        env.step(0)
    env.close()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(grown / 1024, frames * height * width * 3 / 2**20)
"""


def run(code, *arguments):
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"},
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.process
@pytest.mark.parametrize(
    ("frames", "height", "width"), [(2_000, 120, 160), pytest.param(100_000, 64, 96, marks=pytest.mark.full)]
)
def test_memory_does_not_grow_with_the_video(frames, height, width, tmp_path):
    grown, all_frames = map(float, run(LONG, tmp_path, frames, height, width).stdout.split())
    assert all_frames > 100
    assert grown < 40, f"{grown} MiB more at the end; all frames are {all_frames} MiB"
    with av.open(str(tmp_path / "rl-video-episode-0.mp4")) as container:
        assert container.streams.video[0].frames == frames + 1


UNCLOSED = """
    import os, signal, sys
    from paddock.wrappers import RecordVideo
    from tests.wrappers.painters import Painter

    env = RecordVideo(Painter((500,)), sys.argv[1])
    env.reset()
    for _ in range(400):
        env.step(0)
    if sys.argv[2] == "forked" and os.fork() == 0:
        sys.exit(0)  # as any child that ends by itself: it must leave the parent's file alone
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.process
@pytest.mark.parametrize("end", ["by itself", "forked"])
def test_a_video_that_nobody_closed_is_completed_at_the_end(end, tmp_path):
    assert run(UNCLOSED, tmp_path, end).stderr == ""
    assert len(frames_in(tmp_path / "rl-video-episode-0.mp4")) == 401


@pytest.mark.process
def test_what_a_killed_process_has_recorded_can_be_played(tmp_path):
    with pytest.raises(AssertionError):
        run(UNCLOSED, tmp_path, "killed")
    recorded = frames_in(tmp_path / "rl-video-episode-0.mp4")
    assert [number_in(frame) for frame in recorded[:30]] == [n % 25 for n in range(30)]
    assert len(recorded) > 300


@pytest.mark.process
def test_nothing_is_imported_before_a_video_is_wanted():
    code = "import sys, paddock.wrappers, paddock.gym; print([m for m in ('av', 'pygame', 'cv2') if m in sys.modules])"
    assert run(code).stdout.strip() == "[]"


def test_a_missing_encoder_is_told_when_the_wrapper_is_made(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    for make in (
        lambda: RecordVideo(Painter(), tmp_path),
        lambda: vector.RecordVideo(SyncVectorEnv([Painter]), tmp_path),
    ):
        with pytest.raises(errors.DependencyNotInstalled, match="run `pip install av`"):
            make()


def test_frames_given_to_the_encoder_may_be_overwritten(tmp_path):
    canvas = frame_of(0)
    env = Painter()
    env.render = lambda: np.copyto(canvas, frame_of(env.time)) or canvas
    played(RecordVideo(env, tmp_path), episodes=1).close()
    assert videos(tmp_path) == {"rl-video-episode-0": [0, 1, 2, 3]}
