"""Traces: episodes as lines of JSON, with large arrays in a file beside. ``docs/traces.md`` has the exact form.

A trace may come from a stranger: reading it runs no code and takes bounded memory, and any flaw is an InvalidTrace that
names the line.
"""

from paddock.record.trace.lines import FORMAT
from paddock.record.trace.reader import Episode, Step, TraceReader
from paddock.record.trace.replay import Difference, Replay, replay
from paddock.record.trace.writer import EpisodeWriter, Recorder, TraceWriter

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
