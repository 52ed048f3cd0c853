"""Best of n by forks: at each turn n guesses are tried in n forks of the game, and the best one is played.

A fork is a copy that goes on by itself, so what is tried in it never happened to the original. See docs/forks.md.

python examples/best_of_n.py --tries 8
python examples/best_of_n.py --isolation sandbox
"""

import argparse

import numpy as np

import paddock
from paddock.agentic import CallTool
from paddock.agentic.envs.wordle import ANSWERS


def main():
    parser = argparse.ArgumentParser(description="Wordle by trying guesses in forks.")
    parser.add_argument("--tries", type=int, default=8, help="how many guesses are tried before one is played")
    parser.add_argument("--games", type=int, default=10)
    parser.add_argument("--isolation", choices=["process", "sandbox"], help="where the games run; here by default")
    arguments = parser.parse_args()

    for tries in sorted({1, arguments.tries}):
        returns = []
        with paddock.make("paddock/Wordle", isolation=arguments.isolation) as env:
            for game in range(arguments.games):
                returns.append(play(env, game, tries, np.random.default_rng(game)))
        print(f"best of {tries}: mean return {np.mean(returns):.2f}")


def play(env, game, tries, random):
    """Play one game and return what it brought."""
    env.reset(options={"index": game})
    ended, total = False, 0.0
    while not ended:
        guesses = [CallTool("guess", {"word": str(word)}) for word in random.choice(ANSWERS, size=tries, replace=False)]
        action = guesses[0] if tries == 1 else max(guesses, key=lambda guess: value(env, guess))
        _, reward, terminated, truncated, _ = env.step(action)
        ended, total = terminated or truncated, total + reward
    return total


def value(env, action):
    """Say how good an action is, by taking it in a fork: its reward, and the letters that it places."""
    with env.fork() as other:
        observation, reward, *_ = other.step(action)
    marks = observation.content[0].text.splitlines()[-2].split()[-1] if observation.error is None else ""
    return 10 * reward + marks.count("G") + 0.3 * marks.count("Y")


if __name__ == "__main__":
    main()
