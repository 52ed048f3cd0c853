"""What signatures cost: checking a package against hashing its files, and making an installed one against its wall.

    python benchmarks/packages.py

Bars: verifying a package of 1,000 files takes at most 3 times what hashlib takes for the files, and a warm `make` of
an installed package at most 1.3 times that of the same folder behind the same wall, which is its start.
"""

import os
import statistics
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

import numpy as np

import paddock
from paddock.package import store
from paddock.package.pad import Pad, pack, sign
from paddock.trust.keyring import TrustedKey, change_keyring, load_keyring
from paddock.trust.keys import SigningKey

FILES, SIZE, ROUNDS, STARTS = 1000, 16_384, 15, 15
VERIFY_BAR, MAKE_BAR = 3.0, 1.3
TOML = """
[package]
name = "acme/maze"
version = "1.0.0"

[[env]]
id = "Maze-v0"
entry = "maze_env:Maze"
"""
CODE = """
import paddock


class Maze(paddock.Env):
    observation_space = paddock.spaces.Discrete(5)
    action_space = paddock.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return int(action), 0.0, True, False, {}
"""


def write(folder, files):
    folder.mkdir()
    (folder / "paddock.toml").write_text(TOML)
    (folder / "maze_env.py").write_text(CODE)
    random = np.random.default_rng(20)
    for number in range(files):
        (folder / f"data-{number:04}.bin").write_bytes(random.bytes(SIZE))
    return folder


def signed(folder, key):
    file = pack(folder, folder.parent / f"{folder.name}.pad")
    sign(file, key)
    return file


def interleave(cases, rounds):
    """Median seconds of each case; they take turns."""
    took = {name: [] for name in cases}
    for _ in range(rounds):
        for name, run in cases.items():
            began_s = time.perf_counter()
            run()
            took[name].append(time.perf_counter() - began_s)
    return {name: statistics.median(found) for name, found in took.items()}


def say(what, ratio, bar, seconds):
    print(f"{what}: {ratio:.2f}x, bar {bar:g}x, {'met' if ratio <= bar else 'MISSED'} ({seconds})")
    return ratio <= bar


def compare_verifying(place, key):
    folder = write(place / "large", FILES - 2)
    file = signed(folder, key)

    def hash_files():
        for path in sorted(folder.iterdir()):
            with path.open("rb") as stream:
                sha256(stream.read()).hexdigest()

    def verify():
        with Pad(file) as pad:
            store.judge(pad, load_keyring())
            pad.check_files()

    took = interleave({"hashlib": hash_files, "verify": verify}, ROUNDS)
    seconds = f"{took['verify'] * 1e3:.1f} ms against {took['hashlib'] * 1e3:.1f} ms"
    return say(f"verify, {FILES:,} files of {SIZE:,} bytes", took["verify"] / took["hashlib"], VERIFY_BAR, seconds)


def compare_making(place, key):
    folder = write(place / "maze", 18)
    store.install(signed(folder, key), lambda _review: True)

    def make(target):
        with paddock.make(target) as env:
            env.reset(seed=1)

    for target in (str(folder), "acme/maze@1"):  # warm: what paddock imports once is imported
        make(target)
    took = interleave({"folder": lambda: make(str(folder)), "package": lambda: make("acme/maze@1")}, STARTS)
    seconds = f"{took['package'] * 1e3:.1f} ms against {took['folder'] * 1e3:.1f} ms"
    return say("warm make of an installed package, 20 files", took["package"] / took["folder"], MAKE_BAR, seconds)


def main():
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        os.environ["PADDOCK_HOME"] = str(place / "home")
        key = SigningKey.generate()
        with change_keyring() as keyring:
            keyring.add(TrustedKey(key.public, ("acme",)))
        met = compare_verifying(place, key)
        met &= compare_making(place, key)
        store.uninstall("acme/maze")  # read-only folders, which a temporary one can't remove
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
