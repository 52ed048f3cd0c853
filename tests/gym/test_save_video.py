"""save_video: the files that Gymnasium would write, by its own function with a stand-in for moviepy."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from paddock import errors
from paddock.gym.utils.save_video import capped_cubic_video_schedule, save_video
from tests.case_names import case_name
from tests.wrappers.painters import frame_of, number_in

av = pytest.importorskip("av")
FRAMES = [frame_of(n) for n in range(8)]


@pytest.fixture
def theirs(monkeypatch):
    """Gymnasium's module, and what it hands to moviepy."""
    found = {}

    class ImageSequenceClip:
        def __init__(self, frames, fps):
            self.frames = [number_in(frame) for frame in frames]

        def write_videofile(self, path, logger):
            found[Path(path).stem] = self.frames

    for name in ("moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip"):
        module = ModuleType(name)
        module.ImageSequenceClip = ImageSequenceClip
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "gymnasium.utils.save_video", raising=False)
    yield importlib.import_module("gymnasium.utils.save_video"), found
    sys.modules.pop("gymnasium.utils.save_video", None)


def videos(folder):
    found = {}
    for path in sorted(Path(folder).glob("*.mp4")):
        with av.open(str(path)) as container:
            found[path.stem] = [number_in(frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)]
    return found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"episode_index": 2},
        {"episode_trigger": lambda episode: episode == 2, "episode_index": 2, "video_length": 3},
        {"step_trigger": lambda step: step % 3 == 0},
        {"step_trigger": lambda step: step in (11, 14), "step_starting_index": 10, "video_length": 2},
        {"step_trigger": lambda step: step == 1, "episode_trigger": lambda episode: True, "name_prefix": "x"},
    ],
    ids=case_name,
)
def test_files_and_frames_are_gymnasiums(options, theirs, tmp_path):
    module, found = theirs
    module.save_video(FRAMES, str(tmp_path / "theirs"), fps=10, **options)
    save_video(FRAMES, str(tmp_path / "ours"), fps=10, **options)
    assert videos(tmp_path / "ours") == found


def test_the_schedule_is_gymnasiums(theirs):
    module, _ = theirs
    for episode in range(5001):
        assert capped_cubic_video_schedule(episode) == module.capped_cubic_video_schedule(episode), episode


def test_the_rate_is_kept_and_must_be_given(tmp_path):
    save_video(FRAMES, str(tmp_path), fps=12.5)
    with av.open(str(tmp_path / "rl-video-episode-0.mp4")) as container:
        assert container.streams.video[0].average_rate == 12.5
    for wrong in ({}, {"fps": None}, {"fps": 0}, {"fps": 5, "codec": "gif"}):
        with pytest.raises(errors.MissingArgument, match="takes fps="):
            save_video(FRAMES, str(tmp_path), **wrong)


def test_anything_but_a_list_is_warned_of_and_taken(tmp_path):
    with pytest.warns(UserWarning, match="Expected a list of frames, got a <class 'generator'>"):
        save_video((frame for frame in FRAMES), str(tmp_path), fps=5)
    assert videos(tmp_path) == {"rl-video-episode-0": list(range(8))}


def test_no_frames_make_no_file(tmp_path):
    with pytest.warns(UserWarning, match="zero frames"):
        save_video([], str(tmp_path), fps=5)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_encoder_is_told_with_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(errors.DependencyNotInstalled, match="pip install av"):
        save_video(FRAMES, str(tmp_path), fps=5)


def test_frames_that_do_not_fit_together_are_an_error(tmp_path):
    with pytest.raises(errors.VideoNotWritten, match="after 1 frames: a frame is"):
        save_video([frame_of(1), frame_of(1, (8, 8, 3))], str(tmp_path), fps=5)
    with pytest.raises(errors.CheckFailed, match="to return a numpy array"):
        save_video(["a frame"], str(tmp_path), fps=5)
