"""``paddock bench plot``: the curve of a training, from the trace of its evaluations."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from paddock.cli.bench.report import describe, write_text
from paddock.cli.output import FAILED, OK, CommandFailed, Output, mistake


def add_plot_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock bench plot``."""
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="a trace of evaluations; each one is a curve")
    parser.add_argument("--svg", metavar="FILE", help="write the curves as a picture; replaces the file")


def run_plot(arguments: Namespace, output: Output) -> int:
    """Print the points of each curve, and write the picture."""
    from paddock.bench.training import draw_training, read_training

    for name in arguments.traces:
        if not Path(name).is_file():
            raise mistake(f"{name} is not a file.")
    trainings = [read_training(Path(name)) for name in arguments.traces]
    if not any(one.points for one in trainings):
        raise CommandFailed("there are no episodes to plot.", exit_code=FAILED, code="NO_EPISODES")
    if arguments.svg is not None:
        write_text(arguments.svg, draw_training(trainings))
    for problem in (problem for one in trainings for problem in one.problems):
        output.warning(problem)
    if arguments.json:
        curves = {
            one.name: [{"training_steps": steps, **figures.document()} for steps, figures in one.points]
            for one in trainings
        }
        output.document({"curves": curves})
        return OK
    for one in trainings:
        rows = [[steps, f.n, f.failures, describe(f.mean), describe(f.iqm)] for steps, f in one.points]
        output.table(["training steps", "n", "failed", "mean", "IQM"], rows, title=one.name)
    return OK
