"""``paddock bench``: run benchmarks, check their records, and read them. Each subcommand is in a module of its own."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.cli.output import FAILED, INTERRUPTED, OK, Output, mistake
from paddock.cli.program import add_json, integer
from paddock.trust.files import config_folder

if TYPE_CHECKING:
    from paddock.bench.bundle import Bundle
    from paddock.bench.verify import Verdict
    from paddock.trust.keys import PublicKey, SigningKey

_MOST_WARNINGS = 3
_SUITES = ("smoke", "classic-control", "toy-text", "agentic-text")


class Subcommand(NamedTuple):
    """A subcommand. Its module has ``add_NAME_arguments(parser)`` and ``run_NAME(arguments, output)``."""

    name: str
    module: str
    help: str


SUBCOMMANDS = (
    Subcommand("run", "paddock.cli.bench", "run a suite, and write a record that anyone can verify"),
    Subcommand("verify", "paddock.cli.bench", "verify a record: its signature, its seeds, and each step by replay"),
    Subcommand("report", "paddock.cli.bench.report", "show what records say, also as a page or Markdown"),
    Subcommand("compare", "paddock.cli.bench.report", "say whether one run is better than another"),
    Subcommand("plot", "paddock.cli.bench.plot", "draw the curve of a training from its evaluations"),
    Subcommand("submit", "paddock.cli.bench.board", "verify a record and enter it into the leaderboard"),
    Subcommand("list", "paddock.cli.bench.board", "list the leaderboard, with all attempts"),
    Subcommand("show", "paddock.cli.bench.board", "show one result, its attempts and its proof"),
    Subcommand("challenge", "paddock.cli.bench.board", "enter a plan and get the nonce for a run of it"),
)


def add_arguments(parser: ArgumentParser) -> None:
    """The subcommands, each with its own options."""
    commands = parser.add_subparsers(title="subcommands", metavar="SUBCOMMAND", dest="subcommand", required=True)
    for one in SUBCOMMANDS:
        own = commands.add_parser(one.name, help=one.help, description=one.help, allow_abbrev=False)
        getattr(import_module(one.module), f"add_{one.name}_arguments")(own)
        add_json(own)


def run(arguments: Namespace, output: Output) -> int:
    """Run the subcommand that was chosen."""
    module = next(one.module for one in SUBCOMMANDS if one.name == arguments.subcommand)
    code: int = getattr(import_module(module), f"run_{arguments.subcommand}")(arguments, output)
    return code


def add_run_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock bench run``."""
    add = parser.add_argument
    add("suite", metavar="SUITE", help=f"{', '.join(_SUITES)}, or a TOML file (docs/bench.md)")
    add(
        "--policy",
        required=True,
        metavar="P",
        help="random, null, ./agent.py, module:function, sb3:PPO:model.zip, torch:model.pt, https://host/v1#model",
    )
    add("--policy-isolation", metavar="KIND", help="the wall around a policy's file: sandbox (the default) … none")
    add("--out", type=Path, metavar="DIR", help="the bundle's folder; a run there that broke off is gone on with")
    add("--seed", type=integer(0), metavar="N", help="derive the nonce from N, so that the run can be repeated")
    add("--nonce", metavar="HEX", help="a challenger's nonce, 64 hexadecimal digits")
    add("--episodes", type=integer(1), metavar="N", help="of each task, in place of the suite's own number")
    add("--num-envs", type=integer(1), default=8, metavar="N", help="how many episodes run at once (default 8)")
    add("--isolation", metavar="KIND", help="as make(isolation=...); code that is not paddock's own: sandbox")
    add("--key", type=Path, metavar="KEY", help="the key that signs; default: one for benchmarks, made when first used")


def run_run(arguments: Namespace, output: Output) -> int:
    """Run a suite, and say how to verify it."""
    from paddock.bench.gates import check_gates
    from paddock.bench.policies import find_policy
    from paddock.bench.run import run_suite
    from paddock.bench.suites import BUILT_IN, read_suite

    suite = read_suite(arguments.suite)
    key = _signing_key(arguments.key)
    policy = find_policy(arguments.policy, isolation=arguments.policy_isolation)
    if arguments.suite not in BUILT_IN:
        check_gates(suite, isolation=arguments.isolation)
    out = arguments.out or Path(f"bench-{suite.name}-{time.strftime('%Y%m%d-%H%M%S')}")
    failures: list[str] = []
    total = sum(arguments.episodes or task.episodes for task in suite.task)
    try:
        with output.progress(suite.name, total) as on_end:
            bundle = run_suite(
                suite,
                policy,
                out,
                key,
                seed=arguments.seed,
                nonce=arguments.nonce,
                episodes=arguments.episodes,
                num_envs=arguments.num_envs,
                isolation=arguments.isolation,
                on_end=on_end,
                on_failure=lambda number, error: failures.append(f"episode {number}: {type(error).__name__}: {error}"),
            )
    except KeyboardInterrupt:
        output.interruption(f"interrupted. The same command with --out {out} goes on with it." if out.is_dir() else "")
        return INTERRUPTED
    for failure in failures[:_MOST_WARNINGS]:
        output.warning(failure)
    if more := failures[_MOST_WARNINGS:]:
        output.warning(f"and {len(more)} more episodes failed")
    tasks = [_task_facts(bundle, number) for number in range(len(bundle.plan.tasks))]
    code = FAILED if all(episode.status == "failed" for episode in bundle.episodes) else OK
    if arguments.json:
        names = {"suite": suite.name, "policy": policy.plan.name, "signer": bundle.start.signer}
        plan = {"bundle": str(out), "digest": bundle.digest, "plan": bundle.plan_digest}
        output.document({**plan, **names, "tasks": tasks})
        return code
    output.table(
        ["task", "episodes", "failed", "mean", "steps"],
        [[one["task"], one["episodes"], one["failed"], one["mean"], one["steps"]] for one in tasks],
        title=f"{suite.name}, policy {policy.plan.name}",
    )
    output.line()
    check = f"paddock bench verify {out}"
    output.facts([("bundle", str(out)), ("plan", bundle.plan_digest), ("digest", bundle.digest), ("check it", check)])
    return code


def _task_facts(bundle: Bundle, number: int) -> dict[str, Any]:
    episodes = bundle.of_task(number)
    return {
        "task": bundle.plan.tasks[number].name,
        "episodes": len(episodes),
        "failed": sum(one.status in ("failed", "aborted") for one in episodes),
        "mean": float(bundle.values(number).mean()),
        "steps": sum(one.steps for one in episodes),
    }


def _signing_key(path: Path | None) -> SigningKey:
    """The key of that file, or this user's own for benchmarks, which is made when it is first needed."""
    from paddock.trust.keys import SigningKey

    file = path or _own_key()
    if path is None and not file.exists():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = SigningKey.generate()
        key.save(file)
        return key
    return SigningKey.load(file)


def _own_key() -> Path:
    return config_folder() / "keys" / "bench.key"


def add_verify_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock bench verify``."""
    add = parser.add_argument
    add("bundle", metavar="BUNDLE", type=Path, help="the folder that `paddock bench run` wrote")
    add("--sample", type=integer(1), metavar="N", help="replay N episodes, chosen by the bundle's digest; default: all")
    add("--key", action="append", default=[], metavar="KEY", help="trust this public key: its file or text; repeatable")
    add("--plan", metavar="SHA256", help="the plan that the run must have")
    add("--nonce", metavar="HEX", help="the nonce that you issued for the run")
    add("--policy", metavar="P", help="replay this policy as well; it must be the one of the record")
    add("--policy-isolation", metavar="KIND", help="the wall around a policy's file: sandbox (the default) … none")
    add("--env", action="append", default=[], metavar="TASK=TARGET", help="where the code of a task lies; repeatable")
    add("--isolation", metavar="KIND", help="as make(isolation=...); code that is not paddock's own: sandbox")


def run_verify(arguments: Namespace, output: Output) -> int:
    """Verify a bundle: exit code 0 only for what verifies."""
    from paddock.bench.policies import find_policy
    from paddock.bench.verify import Checks, verify_bundle

    targets = dict(split_target(text) for text in arguments.env)
    policy = None
    if arguments.policy is not None:
        policy = find_policy(arguments.policy, isolation=arguments.policy_isolation)
    with output.progress("replay", 1) as on_replay:
        verdict = verify_bundle(
            arguments.bundle,
            Checks(
                judge=partial(_judge, arguments.key),
                sample=arguments.sample,
                plan=arguments.plan,
                nonce=arguments.nonce,
                policy=policy,
                targets=targets,
                isolation=arguments.isolation,
                on_replay=on_replay,
            ),
        )
    if arguments.json:
        output.document({"bundle": str(arguments.bundle), "verified": verdict.reason is None, **asdict(verdict)})
    else:
        _print_verdict(verdict, output)
    return OK if verdict.reason is None else FAILED


def _print_verdict(verdict: Verdict, output: Output) -> None:
    if verdict.reason is not None:
        output.line(f"not verified, {verdict.reason}: {verdict.message}")
        return
    sample = ", in a sample" if verdict.level in ("L2", "L2+", "L3") and verdict.replayed < verdict.episodes else ""
    output.facts(
        [
            ("level", f"{verdict.level}: {LEVELS[verdict.level]}{sample}"),
            ("replayed", f"{verdict.replayed} of {verdict.episodes} episodes"),
            ("signed by", verdict.signer),
            ("plan", verdict.plan),
            ("digest", verdict.digest),
        ]
    )
    for note in verdict.notes:
        output.line(f"- {note}")


LEVELS = {
    "L0": "nothing is shown",
    "L1": "signed and complete; nothing was replayed",
    "L2": "the environments answer as the record says",
    "L2+": "the environments answer as the record says, and the seeds were not chosen",
    "L3": "the policy and the environments give these results, and the seeds were not chosen",
    "T": "a signed transcript, which can't be replayed",
}


def split_target(text: str) -> tuple[str, str]:
    """Split ``TASK=TARGET``, which says where the code of a task lies."""
    task, equals, target = text.partition("=")
    if not equals:
        raise mistake(f"--env {text!r}: expected TASK=TARGET, as maze=./maze.")
    return task, target


def _judge(keys: Sequence[str], signer: PublicKey) -> None:
    """Raise Untrusted unless the key was given, is this user's own, or is trusted here for ``bench``."""
    from paddock.errors import Expired, Revoked, Untrusted
    from paddock.trust.keyring import load_keyring
    from paddock.trust.keys import PublicKey, SigningKey
    from paddock.trust.settings import Settings

    given = [PublicKey.load(text) if Path(text).is_file() else PublicKey.parse(text) for text in keys]
    own = [SigningKey.load(_own_key()).public] if _own_key().is_file() else []
    try:
        load_keyring().judge("bench/run", "", [signer], Settings(mode="pinned"))
    except (Revoked, Expired) as error:  # a key that was given may have been revoked since
        raise Untrusted(str(error), fingerprints=(signer.fingerprint,)) from error
    except Untrusted:
        if signer not in (*given, *own):
            raise Untrusted(
                f"The run is signed by {signer}, which is not trusted here. If you know whose it is, add "
                f"--key {signer}, or for good: paddock trust add {signer} --namespace bench",
                fingerprints=(signer.fingerprint,),
            ) from None
