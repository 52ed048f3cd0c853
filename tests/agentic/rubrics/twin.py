"""The same rubrics built from two packages, and what each of them says. Runs in the venv of the real OpenEnv."""

import asyncio
import inspect
import json
import random

from tests.agentic.rubrics.parts import Seen

SEEDS = range(400)
REPLIES = [
    *(
        "0.5",
        "Score: 0.25 of 1",
        "1",
        "1.",
        ".5",
        "8/10",
        "-0.5",
        "0.9, not 0.1",
        "excellent",
        "",
        "1e5",
        "0x10",
        "1,5",
    ),
    *("Ten", "٣", "a1b2", "1..2", "00.50", "score=1\nscore=0", "½", "100%"),
]
PATTERNS = [None, r"score=(\d+)", r"\d+", r"(a?)(\d)", r"(?:score|Score): (\S+)", r"(not) (\S+)"]


def classes(api):
    """Leaves and trajectories on top of ``api.Rubric``."""

    class Fixed(api.Rubric):
        def __init__(self, score):
            super().__init__()
            self.score = score

        def forward(self, action, observation):
            return self.score

    class Later(Fixed):
        async def forward(self, action, observation):
            await asyncio.sleep(0)
            return self.score

    class Won(api.ExponentialDiscountingTrajectoryRubric):
        def score_trajectory(self, trajectory):
            return sum(action for action, _ in trajectory) / 7

    return Fixed, Later, Won


def shape(rng, depth=0, *, sync=False):
    """A random tree as plain data."""
    kinds = ["fixed", "fixed", *([] if sync else ["later"])]
    kind = rng.choice(kinds if depth == 3 else [*kinds, "sequential", "gate", "sum"])
    if kind in ("fixed", "later"):
        return [kind, rng.choice([0.0, 0.25, 1 / 3, 0.5, 1.0, 1.0, 1.0, 2.5, -1.0, True, 0, 1])]
    if kind == "gate":
        return [kind, rng.choice([0.0, 0.3, 1.0]), shape(rng, depth + 1, sync=sync)]
    parts = [shape(rng, depth + 1, sync=sync) for _ in range(rng.randrange(0 if kind == "sequential" else 1, 5))]
    if kind == "sum":
        shares = [rng.randrange(1, 10) for _ in parts]
        return [kind, [share / sum(shares) for share in shares], *parts]
    return [kind, *parts]


def build(api, tree):
    fixed, later, _ = classes(api)
    kind, *rest = tree
    if kind in ("fixed", "later"):
        return (fixed if kind == "fixed" else later)(rest[0])
    if kind == "gate":
        return api.Gate(build(api, rest[1]), rest[0])
    if kind == "sum":
        return api.WeightedSum([build(api, part) for part in rest[1:]], rest[0])
    return api.Sequential(*(build(api, part) for part in rest))


def asked(rubric, *, in_order):
    """Score, last scores by name, and the hooks that ran; async parts that wait together have no order."""
    events = []
    named = [("root", rubric), *rubric.named_rubrics("root")]
    for name, part in named:
        part.register_forward_pre_hook(lambda r, a, o, name=name: events.append([name, a, o]))
        part.register_forward_hook(lambda r, a, o, score, name=name: events.append([name, a, o, score]))
    given = rubric("action", "observation")
    score = asyncio.run(given) if inspect.iscoroutine(given) else given
    return {
        "score": score,
        "last": [[name, part.last_score] for name, part in named],
        "children": [name for name, _ in rubric.named_children()],
        "events": events if in_order else sorted(events, key=repr),
    }


def episode(api, rng):
    """Rewards of an episode, and its credit by step."""
    gamma, steps = rng.choice([0.0, 0.5, 0.99, 1.0]), rng.randrange(1, 12)
    rubric = classes(api)[2](gamma=gamma, intermediate_reward=rng.choice([0.0, -0.1]))
    rewards = [rubric(rng.randrange(10), Seen(at == steps - 1)) for at in range(steps)]
    return {
        "rewards": rewards,
        "credit": rubric.compute_step_rewards(),
        "state": sorted(rubric.state_dict().items()),
        "seen": len(rubric.trajectory),
        "after reset": (rubric.reset(), len(rubric.trajectory), rubric.compute_step_rewards()),
    }


def judged(api):
    """What each reply is read as, with each pattern."""

    class Client:
        def __init__(self, reply):
            self.reply = reply

        async def complete(self, prompt):
            assert prompt == "Rate action after observation"
            return self.reply

    answers = []
    for pattern in PATTERNS:
        for normalize in (True, False):
            for reply in REPLIES:
                judge = api.LLMJudge(
                    "Rate {action} after {observation}",
                    Client(reply),
                    score_pattern=pattern,
                    default_score=0.125,
                    normalize=normalize,
                )
                answers.append([pattern, normalize, reply, asyncio.run(judge("action", "observation"))])
    return answers


def refused(api):
    """Which mistakes raise which built-in error."""
    fixed, _, won = classes(api)
    mistakes = {
        "lengths": lambda: api.WeightedSum([fixed(1)], [0.5, 0.5]),
        "sum": lambda: api.WeightedSum([fixed(1), fixed(1)], [0.5, 0.6]),
        "gamma": lambda: won(gamma=1.5),
        "path": lambda: api.Sequential(fixed(1)).get_rubric("rubric_0.nothing"),
        "list": lambda: api.RubricList([fixed(1)])(1, 2),
        "dict": lambda: api.RubricDict({"a": fixed(1)})(1, 2),
        "key": lambda: api.RubricDict({"a": fixed(1)})["b"],
        "index": lambda: api.RubricList([fixed(1)])[1],
        "abstract": lambda: api.Rubric(),
        "abstract trajectory": lambda: api.TrajectoryRubric(),
    }
    raised = {}
    for name, make in mistakes.items():
        try:
            make()
        except Exception as error:
            raised[name] = [cls.__name__ for cls in type(error).__mro__ if cls.__module__ == "builtins"]
    return raised


def said(api):
    """Everything, as plain data."""
    return {
        "sync": [asked(build(api, shape(random.Random(seed), sync=True)), in_order=True) for seed in SEEDS],
        "mixed": [asked(build(api, shape(random.Random(seed))), in_order=False) for seed in SEEDS],
        "episodes": [episode(api, random.Random(seed)) for seed in SEEDS[:100]],
        "judge": judged(api),
        "refused": refused(api),
    }


def main():
    import openenv.core.rubrics as theirs

    import paddock.agentic.rubrics as ours

    print(json.dumps({"ours": said(ours), "theirs": said(theirs), "names": list(theirs.__all__)}))
