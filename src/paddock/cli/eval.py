"""``paddock eval``: let a model play the tasks of an environment. ``paddock compare``: two such runs, task by task.

The key of the endpoint comes from an environment variable, never from an option, which other users of a machine see.
"""

from __future__ import annotations

import copy
import json
import os
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.output import FAILED, INTERRUPTED, OK, Output, mistake
from paddock.cli.program import add_target, integer, seconds
from paddock.errors import PlanError

if TYPE_CHECKING:
    from paddock.agentic.rollouts import Rollouts

MOST_ROWS = 20
RESULTS = "results.json"
KEY = "OPENAI_API_KEY"


def add_arguments(parser: ArgumentParser) -> None:
    """The options of ``eval``."""
    add = parser.add_argument
    add_target(parser)
    add("--model", required=True, metavar="M", help="the model's name at the endpoint")
    add("--base-url", required=True, metavar="U", help="an OpenAI-compatible endpoint, as http://127.0.0.1:8000/v1")
    add("--api-key-env", default=KEY, metavar="NAME", help=f"the variable with its key ({KEY})")
    add("--insecure", action="store_true", help="send the key to another machine without TLS")
    add("--sampling", type=_object, default={}, metavar="JSON", help="more of the request, as '{\"max_tokens\": 512}'")
    add("--split", metavar="S", help="the split of the tasks (default: the first)")
    add("--tasks", type=_indices, metavar="A:B", help="indices, as 0:100 or 3,5,8, or how many (default: all)")
    add("--attempts", type=integer(1), default=1, metavar="N", help="how often each task is played (default 1)")
    add("--concurrency", type=integer(1), metavar="N", help="rollouts at once (default 64, or 16 behind a wall)")
    add("--retries", type=integer(0), default=3, metavar="N", help="further tries of a call that failed (default 3)")
    add("--max-turns", type=integer(1), metavar="N", help="how often the model may act in one rollout")
    add("--timeout", type=seconds, default=600.0, metavar="SECONDS", help="for one rollout (default 600)")
    add("--cut-off", choices=("fail", "grade"), default="fail", help="replies at their limit of tokens (default fail)")
    add("--rubric", metavar="MODULE:NAME", help="grade with this, in place of the environment's rubric")
    add("--judge-model", metavar="M", help="a model at the same endpoint, as the argument client of --rubric")
    add("--isolation", metavar="KIND", help="as make(isolation=...)")
    add("--prices", type=_prices, metavar="IN,OUT", help="of a million tokens, to know the cost")
    add("--max-cost", type=float, metavar="MONEY", help="end the run when it has cost this; needs --prices")
    add("--out", metavar="DIR", help="the folder for the results (default evals/…)")
    add("--resume", action="store_true", help="go on with the run in --out: what finished is not played again")


def add_compare_arguments(parser: ArgumentParser) -> None:
    """The options of ``compare``."""
    parser.add_argument("run_a", metavar="RUN_A", help="a results folder, or a trace")
    parser.add_argument("run_b", metavar="RUN_B", help="another")


def run(arguments: Namespace, output: Output) -> int:
    """Play, and write and print the results."""
    from paddock.agentic.endpoint import ModelEndpoint
    from paddock.agentic.rollouts import Budget, rollout
    from paddock.agentic.rollouts.results import RUN, Interrupted

    if arguments.resume and arguments.out is None:
        raise mistake("--resume needs --out DIR, the folder of the run to go on with.")
    if arguments.max_cost is not None and arguments.prices is None:
        raise mistake("--max-cost needs --prices IN,OUT, such as 0.15,0.60 for a million tokens.")
    access = {"api_key_env": arguments.api_key_env, "insecure": arguments.insecure}
    if arguments.api_key_env not in (KEY, *os.environ):  # without a key the endpoint may refuse every call
        raise mistake(f"--api-key-env: the variable {arguments.api_key_env} is not set.")
    try:
        endpoint = ModelEndpoint(
            arguments.model, arguments.base_url, prices=arguments.prices, **access, **arguments.sampling
        )
    except PlanError as error:
        words = str(error).replace("api_key_env=", "--api-key-env").replace("insecure=True", "--insecure")
        raise mistake(f"--base-url: {words}") from None
    folder = _folder(arguments)
    began_s, interrupted = time.monotonic(), False
    try:
        played = rollout(
            arguments.target,
            endpoint,
            _tasks(arguments),
            attempts=arguments.attempts,
            concurrency=arguments.concurrency,
            retries=arguments.retries,
            max_turns=arguments.max_turns,
            timeout_s=arguments.timeout,
            cut_off=arguments.cut_off,
            run_budget=Budget(money=arguments.max_cost),
            trace=folder / RUN,
            resume=arguments.resume,
            progress=output.stderr,
            make_env=_maker(arguments, access),
        )
    except Interrupted as stop:
        played, interrupted = stop.rollouts, True
    document = _document(arguments, played, folder, time.monotonic() - began_s)
    document |= {"interrupted": True} if interrupted else {}
    (folder / RESULTS).write_text(json.dumps(document, indent=1) + "\n", encoding="ascii")
    if arguments.json:
        output.document(document)
    else:
        _print(arguments, played, document, output)
    if interrupted:
        output.interruption(f"interrupted. To go on: the same command with --out {folder} --resume")
        return INTERRUPTED
    return FAILED if played and played.error_share == 1.0 else OK


def _folder(arguments: Namespace) -> Path:
    """Make the results folder. One with a run is used again only to go on with that."""
    from paddock.agentic.rollouts.results import RUN

    name = "-".join(
        "".join(c if c.isalnum() else "_" for c in Path(text).name) for text in (arguments.target, arguments.model)
    )
    folder = Path(arguments.out or f"evals/{name}-{time.strftime('%Y%m%d-%H%M%S')}")
    known, begun = folder / "eval.json", (folder / RUN).exists()
    what = {"target": arguments.target, "model": arguments.model, "sampling": arguments.sampling}
    if begun and not arguments.resume:
        raise mistake(f"--out {folder} has a run already. Go on with it by --resume, or name another folder.")
    if begun and known.exists() and json.loads(known.read_text()) != what:
        raise mistake(f"--resume: the run in {folder} is of another target, model or sampling. See {known}.")
    folder.mkdir(parents=True, exist_ok=True)
    known.write_text(json.dumps(what) + "\n")
    return folder


def _tasks(arguments: Namespace) -> Any:
    if arguments.tasks is None or arguments.split is None:
        return arguments.split if arguments.tasks is None else arguments.tasks
    indices = range(arguments.tasks) if isinstance(arguments.tasks, int) else arguments.tasks
    return [(arguments.split, index) for index in indices]


def _maker(arguments: Namespace, access: dict[str, Any]) -> Any:
    """Return what makes environments, if they are not made in the usual way."""
    from paddock.cli.environment import find_modules_here

    find_modules_here()
    if arguments.rubric is None:
        if arguments.judge_model is not None:
            raise mistake("--judge-model needs --rubric MODULE:NAME, a class with an argument client.")
        if arguments.isolation is None:
            return None
    from paddock import make

    rubric: Any = None
    if arguments.rubric is not None:
        from paddock.agentic.endpoint import ModelEndpoint
        from paddock.cli.rescore import load_rubric

        judge = (
            {}
            if arguments.judge_model is None
            else {"client": ModelEndpoint(arguments.judge_model, arguments.base_url, **access)}
        )
        rubric = load_rubric(arguments.rubric, **judge)

    def make_env(target: Any) -> Any:
        from paddock.agentic import ToolEnv

        env = make(target, isolation=arguments.isolation)
        if rubric is not None:
            if not isinstance(env.unwrapped, ToolEnv):
                env.close()
                raise mistake(
                    "--rubric: this environment is not one of tools that runs here. For a folder of your own add "
                    "--isolation none; anything else can be scored later, by paddock rescore."
                )
            env.unwrapped.rubric = copy.deepcopy(rubric)
        return env

    return make_env


def _document(arguments: Namespace, played: Rollouts, folder: Path, wall_s: float) -> dict[str, Any]:
    rows = []
    for group in played.groups():
        rewards = group.rewards
        mean = sum(rewards) / len(rewards) if rewards else None
        rows.append({"task": group.name, "mean": mean, "returns": rewards, "errors": len(group.failed)})
    summary = played.summary()
    tokens = summary["prompt_tokens"] + summary["completion_tokens"]
    examples: dict[str, str] = {}  # by code
    for one in played.errors:
        if one.error is not None:
            examples.setdefault(one.error.code, one.error.message[:500])
    return {
        "target": arguments.target,
        "model": arguments.model,
        "base_url": arguments.base_url.rpartition("@")[2],
        "out": str(folder),
        "summary": summary,
        "wall_s": wall_s,
        "tokens_per_second": tokens / wall_s,
        "error_examples": examples,
        "tasks": rows,
    }


def _print(arguments: Namespace, played: Rollouts, document: dict[str, Any], output: Output) -> None:
    rows = document["tasks"]
    output.table(
        ["task", "mean", "attempts", "errors"],
        [[row["task"], row["mean"], len(row["returns"]), row["errors"]] for row in rows[:MOST_ROWS]],
        title=f"{arguments.target}, model {arguments.model}",
    )
    if len(rows) > MOST_ROWS:
        output.line(f"and {len(rows) - MOST_ROWS:,} more tasks (--json has all)")
    output.line()
    summary, mean = document["summary"], played.mean_return()
    most = max((int(k) for k in summary["pass_at"]), default=1)
    passes = [(f"pass@{k}", str(found)) for k in sorted({1, most}) if (found := played.pass_at(k)) is not None]
    errors = ", ".join(f"{count} x {code}" for code, count in summary["errors"].items())
    tokens = f"{summary['prompt_tokens']:,} prompt, {summary['completion_tokens']:,} completion"
    output.facts(
        [
            ("rollouts", f"{summary['rollouts']:,} of {summary['tasks']:,} tasks"),
            ("mean return", "none" if mean is None else str(mean)),
            *passes,
            ("errors", errors or "none"),
            *([("cut off", f"{summary['cut_off']:,}")] if summary["cut_off"] else []),
            ("model calls", f"{summary['calls']:,}, {summary['retries']:,} tried again"),
            ("tokens", f"{tokens}, {document['tokens_per_second']:,.0f}/s"),
            *([("cost", f"{summary['cost']:,.4f}")] if arguments.prices is not None else []),
            ("seconds", f"{document['wall_s']:,.1f}"),
            ("results", document["out"]),
        ]
    )
    for code, message in document["error_examples"].items():
        output.line(f"{code}: {message}")


def run_compare(arguments: Namespace, output: Output) -> int:
    """Compare two runs by the means of their tasks."""
    from paddock.agentic.rollouts import Rollouts
    from paddock.agentic.rollouts.results import mean_of

    runs = []
    for text in (arguments.run_a, arguments.run_b):
        if not Path(text).exists():
            raise mistake(f"{text} does not exist. Expected the folder of a paddock eval, or a trace.")
        runs.append(Rollouts.load(text))
    targets = [_target_of(text) for text in (arguments.run_a, arguments.run_b)]
    if None not in targets and targets[0] != targets[1]:
        output.warning(f"A is of {targets[0]}, and B of {targets[1]}. Only runs of the same tasks can be compared.")
    means = [{g.name: sum(g.rewards) / len(g.rewards) for g in one.groups() if g.members} for one in runs]
    both = [name for name in means[0] if name in means[1]]
    rows = [(name, means[0][name], means[1][name], means[1][name] - means[0][name]) for name in both]
    rows.sort(key=lambda row: -abs(row[3]))
    difference = mean_of([[row[3]] for row in rows], shares=False)
    counts = {
        "better": sum(row[3] > 0 for row in rows),
        "worse": sum(row[3] < 0 for row in rows),
        "same": sum(row[3] == 0 for row in rows),
    }
    alone = [len(mean.keys() - set(both)) for mean in means]
    if arguments.json:
        output.document(
            {
                "runs": [arguments.run_a, arguments.run_b],
                "summaries": [one.summary() for one in runs],
                "tasks": len(both),
                "only_in_one": alone,
                "difference": None if difference is None else vars(difference),
                **counts,
                "rows": [dict(zip(("task", "a", "b", "difference"), row, strict=True)) for row in rows],
            }
        )
        return OK if both else FAILED
    output.table(["task", "A", "B", "B - A"], rows[:MOST_ROWS], title=f"A {arguments.run_a}, B {arguments.run_b}")
    if len(rows) > MOST_ROWS:
        output.line(f"and {len(rows) - MOST_ROWS:,} more tasks (--json has all)")
    output.line()
    output.facts(
        [
            ("tasks in both", len(both)),
            ("only in A, in B", f"{alone[0]}, {alone[1]}"),
            *((f"mean of {name}", str(one.mean_return() or "none")) for name, one in zip("AB", runs, strict=True)),
            ("B - A", "none" if difference is None else str(difference)),
            ("better, worse, same", f"{counts['better']}, {counts['worse']}, {counts['same']}"),
            ("errors of A, B", f"{len(runs[0].errors)}, {len(runs[1].errors)}"),
        ]
    )
    return OK if both else FAILED


def _target_of(run: str) -> str | None:
    """Return which environment a results folder says it is of; None for a trace."""
    try:
        target = json.loads((Path(run) / "eval.json").read_text())["target"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return target if isinstance(target, str) else None


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"is not JSON: {error}") from None
    if not isinstance(value, dict) or {"model", "messages", "tools"} & value.keys():
        raise ArgumentTypeError("is not a JSON object of sampling arguments, such as '{\"temperature\": 0.7}'")
    return value


def _indices(text: str) -> Any:
    """``0:100``, ``3,5,8`` or a count."""
    try:
        if ":" in text:
            first, last = (int(part) for part in text.split(":"))
            if 0 <= first < last:
                return range(first, last)
        elif "," in text:
            return [int(part) for part in text.split(",")]
        elif int(text) > 0:
            return int(text)
    except ValueError:
        pass
    raise ArgumentTypeError(f"{text[:40]!r} names no tasks: expected 0:100, 3,5,8 or a count")


def _prices(text: str) -> tuple[float, float]:
    try:
        prompt, completion = (float(part) for part in text.split(","))
    except ValueError:
        raise ArgumentTypeError(f"{text[:40]!r} is not two prices, such as 0.15,0.60") from None
    return prompt, completion
