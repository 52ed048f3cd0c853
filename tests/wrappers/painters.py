"""Environments for recording: each frame is one shade of grey that survives a lossy video, and tells the step."""

from pathlib import Path

import numpy as np

import paddock

SHADE = 10  # between neighbouring numbers


def frame_of(number, shape=(32, 48, 3)):
    return np.full(shape, number % 25 * SHADE, np.uint8)


def number_in(frame):
    return round(float(np.mean(frame)) / SHADE)


class Painter(paddock.Env):
    """Episodes of ``lengths`` steps, in turn. The frame's number is the step's, with ``lane`` * 10 on top."""

    metadata = {"render_modes": ["rgb_array", "rgb_array_list", "ansi", "human"], "render_fps": 20}
    observation_space = paddock.spaces.Discrete(100)
    action_space = paddock.spaces.Discrete(2)

    def __init__(self, lengths=(3, 5, 4), lane=0, render_mode="rgb_array", shape=(32, 48, 3)):
        self.lengths, self.lane, self.render_mode, self.shape = lengths, lane, render_mode, shape
        self.episode, self.time = -1, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.time = self.episode + 1, 0
        return 0, {}

    def step(self, action):
        self.time += 1
        return self.time, 1.0, self.time >= self.lengths[self.episode % len(self.lengths)], False, {}

    def render(self):
        return frame_of(self.time + self.lane * 10, self.shape)


def played(env, episodes=4, max_steps=100):
    """Whole episodes, with a reset before each."""
    for _ in range(episodes):
        env.reset(seed=1)
        for _ in range(max_steps):
            _, _, terminated, truncated, _ = env.step(0)
            if terminated or truncated:
                break
    return env


def frames_in(path):
    import av

    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def videos(folder, read=number_in):
    """The numbers of the frames of each video."""
    return {path.stem: [read(frame) for frame in frames_in(path)] for path in sorted(Path(folder).glob("*.mp4"))}
