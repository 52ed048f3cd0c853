"""What can go wrong while a video is written: one warning that says what, and an episode that goes on."""

import os
import resource
import shutil
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from paddock import errors
from paddock.gym.utils.save_video import save_video
from paddock.vector import SyncVectorEnv
from paddock.wrappers import RecordVideo, vector
from paddock.wrappers.video import VideoFile
from tests.wrappers.painters import Painter, frame_of, frames_in, number_in, played, videos

av = pytest.importorskip("av")
ALWAYS = {"episode_trigger": lambda episode: True}


def told_while(act):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        act()
    return [str(warning.message) for warning in told if issubclass(warning.category, UserWarning)]


def whole_episodes(env, episodes=1):
    """Play, and make sure that no step was lost."""
    seen = []
    for _ in range(episodes):
        env.reset(seed=1)
        over = False
        while not over:
            observation, _, over, _, _ = env.step(0)
            seen.append(observation)
    env.close()
    assert len(seen) == sum((3, 5, 4)[:episodes])
    return seen


def test_a_full_disk_is_one_warning_that_names_file_and_reason(tmp_path):
    (tmp_path / "rl-video-episode-0.mp4").symlink_to("/dev/full")
    with pytest.warns(UserWarning, match="Overwriting"):
        env = RecordVideo(Painter(), tmp_path)
    (told,) = told_while(lambda: whole_episodes(env))
    assert "rl-video-episode-0.mp4 could not be written after 4 frames" in told
    assert "No space left on device" in told
    assert Path("/dev/full").exists()


LIMITED = """
    import resource, signal, sys, warnings
    import numpy as np
    from paddock.wrappers import RecordVideo
    from tests.wrappers.painters import Painter

    random = np.random.default_rng(0)

    class Snow(Painter):
        def render(self):
            return random.integers(0, 255, (64, 64, 3), np.uint8)

    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    env = RecordVideo(Snow((400,)), sys.argv[1])
    env.reset()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        steps = 1
        while not env.step(0)[2]:
            steps += 1
        env.close()
    print(steps, len(told), told[0].message)
"""


@pytest.mark.process
def test_a_file_that_may_not_grow_ends_the_video_and_not_the_episode(tmp_path):
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"},
    )
    steps, warned, message = done.stdout.split(" ", 2)
    assert (steps, warned) == ("400", "1")
    assert "Recording stopped" in message and "File too large" in message
    assert done.stderr == ""
    with av.open(str(tmp_path / "rl-video-episode-0.mp4")) as container:  # what was written until then
        assert sum(1 for _ in zip(range(20), container.decode(video=0), strict=False)) == 20


class BrokenEncoder:
    """As much of PyAV as VideoFile uses; ``stage`` raises."""

    codecs_available = {"libx264"}

    def __init__(self, stage, error):
        self.stage, self.error = stage, error
        self.VideoFrame = SimpleNamespace(from_ndarray=lambda array, format: self.reach("frame"))

    def reach(self, stage):
        if stage == self.stage:
            raise self.error

    def open(self, file, mode, format, options):
        self.reach("open")
        return self

    def add_stream(self, name, rate, options):
        self.reach("stream")
        return SimpleNamespace(codec_context=SimpleNamespace(), encode=self.encode)

    def encode(self, frame):
        self.reach("encode")
        return []

    def mux(self, packets):
        self.reach("mux")

    def close(self):
        self.reach("close")


@pytest.mark.parametrize("stage", ["open", "stream", "frame", "encode", "mux", "close"])
@pytest.mark.parametrize(
    "error", [OSError(28, "full"), ValueError("bad"), RuntimeError("odd"), KeyError("codec")], ids=repr
)
def test_a_broken_encoder_is_one_warning_for_each_video(stage, error, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", BrokenEncoder(stage, error))
    env = RecordVideo(Painter(), tmp_path, **ALWAYS)
    told = told_while(lambda: whole_episodes(env, 3))
    assert len(told) == 3, told
    assert all(str(error) in text and f"episode-{n}.mp4 could not be written" in text for n, text in enumerate(told))
    assert list(tmp_path.iterdir()) == []  # no empty files


def test_the_next_video_is_tried_again_and_stopping_the_failed_one_is_no_mistake(tmp_path, monkeypatch):
    env = RecordVideo(Painter(), tmp_path, episode_trigger=lambda episode: False)
    env.reset()
    env.start_recording("lost")
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "av", BrokenEncoder("open", OSError("gone")))
        (told,) = told_while(lambda: env.step(0))
    assert "gone" in told
    assert not env.recording
    env.stop_recording()
    env.start_recording("found")
    env.step(0)
    env.stop_recording()
    assert videos(tmp_path) == {"found": [2]}
    with pytest.raises(errors.CheckFailed):
        env.stop_recording()


def test_an_encoder_that_is_gone_in_the_middle_is_a_warning_too(tmp_path, monkeypatch):
    env = RecordVideo(Painter(), tmp_path)
    monkeypatch.setitem(sys.modules, "av", None)
    (told,) = told_while(lambda: whole_episodes(env))
    assert "pip install av" in told


def test_a_build_without_the_best_codec_uses_another(tmp_path, monkeypatch):
    monkeypatch.setattr("paddock.wrappers.video._ENCODERS", ("no such codec", "mpeg4"))
    played(RecordVideo(Painter(), tmp_path), episodes=1).close()
    assert videos(tmp_path) == {"rl-video-episode-0": [0, 1, 2, 3]}


def test_a_build_without_any_codec_is_one_warning(tmp_path, monkeypatch):
    monkeypatch.setattr("paddock.wrappers.video._ENCODERS", ("no such codec",))
    env = RecordVideo(Painter(), tmp_path)
    (told,) = told_while(lambda: whole_episodes(env))
    assert "no such codec" in told
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_removed_is_made_again(tmp_path):
    env = RecordVideo(Painter(), tmp_path / "videos")
    shutil.rmtree(tmp_path / "videos")
    assert told_while(lambda: whole_episodes(env)) == []
    assert len(frames_in(tmp_path / "videos" / "rl-video-episode-0.mp4")) == 4


def test_a_folder_that_became_a_file_is_one_warning(tmp_path):
    env = RecordVideo(Painter(), tmp_path / "videos")
    (tmp_path / "videos").rmdir()
    (tmp_path / "videos").touch()
    (told,) = told_while(lambda: whole_episodes(env))
    assert "File exists" in told


def test_a_folder_that_cannot_be_made_is_an_error_before_any_episode(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(errors.VideoNotWritten, match="Choose another video_folder") as caught:
        RecordVideo(Painter(), tmp_path / "file" / "videos")
    assert isinstance(caught.value, OSError)


FRAMES = {
    "text": lambda env: "a frame",
    "nothing": lambda env: None,
    "fractions": lambda env: np.ones((8, 8, 3)),
    "two channels": lambda env: np.zeros((8, 8, 2), np.uint8),
    "no pixels": lambda env: np.zeros((0, 8, 3), np.uint8),
    "another size": lambda env: frame_of(env.time, (32, 48 + 2 * (env.time == 2), 3)),
}


@pytest.mark.parametrize("render", FRAMES.values(), ids=FRAMES)
def test_frames_that_no_video_can_hold_are_one_warning(render, tmp_path):
    env = Painter()
    env.render = lambda: render(env)
    (told,) = told_while(lambda: whole_episodes(RecordVideo(env, tmp_path)))
    assert told.startswith("Recording stopped: ")


def test_what_came_before_a_frame_that_does_not_fit_is_kept(tmp_path):
    env = Painter((5,))
    env.render = lambda: FRAMES["another size"](env)
    with pytest.warns(UserWarning, match="after 2 frames: a frame is .*32, 50.*, those before it are .*32, 48"):
        played(RecordVideo(env, tmp_path), episodes=1).close()
    assert videos(tmp_path) == {"rl-video-episode-0": [0, 1]}


LANES = {
    "one frame for all": lambda: np.zeros((8, 8, 3), np.uint8),
    "too few": lambda: (frame_of(1),),
    "shapes that differ": lambda: (frame_of(1), frame_of(1, (8, 8, 3))),
    "nothing": lambda: None,
}


@pytest.mark.parametrize("render", LANES.values(), ids=LANES)
def test_frames_of_lanes_that_no_video_can_hold_are_one_warning(render, tmp_path):
    lanes = SyncVectorEnv([Painter, Painter])
    lanes.render = render
    env = vector.RecordVideo(lanes, tmp_path)

    def play():
        env.reset()
        for _ in range(3):
            observations, *_ = env.step([0, 0])
        assert observations.tolist() == [3, 3]
        env.close()

    (told,) = told_while(play)
    assert told.startswith("Recording stopped: ")


@pytest.mark.parametrize("error", [RuntimeError("out of paint"), errors.CheckFailed("mine"), OSError("mine")], ids=repr)
def test_what_render_itself_raises_is_the_environments_own(error, tmp_path):
    def broken():
        raise error

    env = Painter()
    env.render = broken
    wrapped = RecordVideo(env, tmp_path)
    with pytest.raises(type(error)) as caught:
        wrapped.reset()
    assert caught.value is error


def test_save_video_raises_what_recording_only_warns_of(tmp_path):
    (tmp_path / "rl-video-episode-0.mp4").symlink_to("/dev/full")
    with pytest.raises(errors.VideoNotWritten, match="No space left on device"):
        save_video([frame_of(n) for n in range(9)], str(tmp_path), fps=5)


def test_a_video_that_cannot_be_completed_late_is_a_warning(tmp_path):
    video = VideoFile(tmp_path / "x.mp4", 5)
    (tmp_path / "x.mp4").symlink_to("/dev/full")
    video.write(frame_of(1))

    def forget():
        nonlocal video
        video = None

    (told,) = told_while(forget)
    assert "could not be completed" in told
    assert number_in(frame_of(3)) == 3


@pytest.mark.slow
def test_open_files_do_not_pile_up(tmp_path):
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(list(Path("/proc/self/fd").iterdir()))
    env = RecordVideo(Painter(), tmp_path, **ALWAYS)
    played(env, episodes=20).close()
    (tmp_path / "full").mkdir()
    for n in range(20):
        (tmp_path / "full" / f"rl-video-episode-{n}.mp4").symlink_to("/dev/full")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        played(RecordVideo(Painter(), tmp_path / "full", **ALWAYS), episodes=20).close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1 < soft
