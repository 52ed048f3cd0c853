"""Recording against Gymnasium's, in the same run: what it adds to a step that is not recorded, noise, and whole videos.

    python benchmarks/recording.py

Bars are shares of Gymnasium's time: 1.05, and 1/2 for n = 1024 lanes. Gymnasium needs moviepy for its part; with a
stand-in only idle wrappers are compared. Memory is what the process's peak grew by while a video was recorded.
"""

import gc
import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from types import ModuleType

import gymnasium
import numpy as np
from gymnasium import spaces as their_spaces
from gymnasium.vector import VectorEnv as TheirVectorEnv
from gymnasium.wrappers import vector as their_vector

import paddock
from paddock import spaces as our_spaces
from paddock.wrappers import vector as our_vector
from wrappers import LANES, OF_LANES, compare, free, free_lanes

BAR, FRAMES, SIZE, ROUNDS = 1.05, 300, (400, 600, 3), 9


def never(number):
    return False


def idle(folder):
    """RecordVideo while it records nothing, and RenderCollection with a frame that costs nothing."""
    met = True
    cases = {
        "idle RecordVideo (episode trigger)": ("RecordVideo", (folder, never)),
        "idle RecordVideo (step trigger)": ("RecordVideo", (folder, None, never)),
        "RenderCollection": ("RenderCollection", ()),
    }
    for what, (name, args) in cases.items():
        met &= compare(
            what,
            free(paddock.Env, our_spaces, "vector"),
            free(gymnasium.Env, their_spaces, "vector"),
            lambda env, name=name, args=args: getattr(paddock.wrappers, name)(env, *args),
            lambda env, name=name, args=args: getattr(gymnasium.wrappers, name)(env, *args),
            BAR,
            1,
        )
    lanes = [
        free_lanes(paddock.VectorEnv, our_spaces, 20, paddock.AutoresetMode.NEXT_STEP),
        free_lanes(TheirVectorEnv, their_spaces, 20, gymnasium.vector.AutoresetMode.NEXT_STEP),
    ]
    for env in lanes:
        env.render_mode = "rgb_array"
    return met & compare(
        f"idle vector RecordVideo (n = {LANES})",
        *lanes,
        lambda env: our_vector.RecordVideo(env, folder, episode_trigger=never),
        lambda env: their_vector.RecordVideo(env, folder, episode_trigger=never),
        OF_LANES,
        np.ones(LANES, np.int64),
    )


def windows():
    """HumanRendering, with a frame rate that never makes it wait: milliseconds a step are in the thousands of µs."""
    frame = np.full((84, 84, 3), 200, np.uint8)
    frames = (frame,) * LANES
    one = [free(paddock.Env, our_spaces, "vector"), free(gymnasium.Env, their_spaces, "vector")]
    lanes = [
        free_lanes(paddock.VectorEnv, our_spaces, 0, paddock.AutoresetMode.NEXT_STEP),
        free_lanes(TheirVectorEnv, their_spaces, 0, gymnasium.vector.AutoresetMode.NEXT_STEP),
    ]
    for env, shown in [(env, frame) for env in one] + [(env, frames) for env in lanes]:
        env.metadata = {**env.metadata, "render_modes": ["rgb_array"], "render_fps": 10**6}
        env.render_mode, env.render = "rgb_array", lambda shown=shown: shown
    met = compare("HumanRendering", *one, paddock.wrappers.HumanRendering, gymnasium.wrappers.HumanRendering, BAR, 1)
    return met & compare(
        f"vector HumanRendering (n = {LANES})",
        *lanes,
        lambda env: our_vector.HumanRendering(env, (640, 640)),
        lambda env: their_vector.HumanRendering(env, (640, 640)),
        OF_LANES,
        np.ones(LANES, np.int64),
    )


def painter(base, spaces):
    frame = np.full(SIZE, 200, np.uint8)

    class Painter(base):
        metadata = {"render_modes": ["rgb_array"], "render_fps": 30}
        observation_space = action_space = spaces.Discrete(2)
        render_mode, time = "rgb_array", 0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            self.time += 1
            return 0, 0.0, False, False, {}

        def render(self):
            picture = frame.copy()
            left = self.time * 3 % 500
            picture[200:240, left : left + 40] = (40, 90, 160)
            return picture

    return Painter()


PAINTERS = {"paddock": (paddock, paddock.Env, our_spaces), "gymnasium": (gymnasium, gymnasium.Env, their_spaces)}


def noise():
    """Milliseconds a frame."""
    met = True
    for name, args in (("AddWhiteNoise", (0.2,)), ("ObstructView", (0.5, 50)), ("ObstructView", (0.5, 5))):
        envs = {}
        for library, (module, base, spaces) in PAINTERS.items():
            envs[library] = getattr(module.wrappers, name)(painter(base, spaces), *args)
            envs[library].reset(seed=0)
        took = {library: [] for library in envs}
        for _ in range(ROUNDS):
            for library, env in envs.items():
                began = time.perf_counter()
                for _ in range(3):
                    env.render()
                took[library].append((time.perf_counter() - began) / 3 * 1e3)
        mine, peer = (statistics.median(took[library]) for library in PAINTERS)
        met &= mine <= BAR * peer
        row(f"{name}{args}, ms a frame", mine, peer, mine <= BAR * peer)
    return met


def row(what, mine, peer, met=None):
    verdict = "" if met is None else f"{BAR:.2f}x {'ok' if met else 'MISSED'}"
    print(f"{what:58} {mine:10.3f} {peer:10.3f} {mine / peer:7.2f}   {verdict}")


def record(library):
    """In a process of its own: seconds and bytes for a video."""
    module, base, spaces = PAINTERS[library]
    with tempfile.TemporaryDirectory() as folder:
        env = module.wrappers.RecordVideo(painter(base, spaces), folder, gc_trigger=None)
        gc.collect()
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, cpu_seconds()
        env.reset(seed=0)
        for _ in range(FRAMES):
            env.step(0)
        env.close()
        print(cpu_seconds() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def cpu_seconds():
    """Of this process and of those that it has waited for: moviepy starts ffmpeg."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def videos():
    found = {}
    for library in PAINTERS:
        done = subprocess.run([sys.executable, __file__, library], check=True, capture_output=True, text=True)
        found[library] = [float(word) for word in done.stdout.split()[-2:]]
    (mine, my_memory), (peer, their_memory) = found.values()
    row(f"a video of {FRAMES} frames {SIZE[1]}x{SIZE[0]}, CPU s", mine, peer, mine <= BAR * peer)
    row("  memory while recording, MB", my_memory / 1024, their_memory / 1024)
    return mine <= BAR * peer


def main():
    warnings.simplefilter("ignore")
    whole = importlib.util.find_spec("moviepy") is not None
    if not whole:
        sys.modules["moviepy"] = ModuleType("moviepy")  # Gymnasium's idle wrapper only asks whether it is there
    print(f"{'µs added to a step, unless said':58} {'paddock':>10} {'gymnasium':>10} {'share':>7}   bar")
    with tempfile.TemporaryDirectory() as folder:
        met = idle(folder)
    os.environ["SDL_VIDEODRIVER"] = "dummy"
    met &= windows()
    met &= noise()
    if whole:
        met &= videos()
    return 0 if met else 1


if __name__ == "__main__":
    if len(sys.argv) > 1:
        warnings.simplefilter("ignore")
        record(sys.argv[1])
    else:
        sys.exit(main())
