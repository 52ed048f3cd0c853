"""Traces: what happened in episodes, as lines of JSON with the arrays beside. ``docs/traces.md`` has the exact form.

A trace may come from a stranger: reading one runs no code, builds nothing that its size does not allow, and any flaw is
an InvalidTrace that names the line.
"""

from paddock.record.trace.compare import Difference
from paddock.record.trace.episode import Episode, Step
from paddock.record.trace.lines import FORMAT
from paddock.record.trace.reader import TraceReader
from paddock.record.trace.recorder import Recorder
from paddock.record.trace.replay import Replay, replay
from paddock.record.trace.writer import EpisodeWriter, TraceWriter

__all__ = [
    "FORMAT",
    "Difference",
    "Episode",
    "EpisodeWriter",
    "Recorder",
    "Replay",
    "Step",
    "TraceReader",
    "TraceWriter",
    "replay",
]
