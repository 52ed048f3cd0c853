"""The story of an episode, to be looked at: what was said and done, what it brought, and what the model's calls took.

``lines`` tells it as text for a terminal, ``page`` as one HTML file that needs nothing else. Every word of it may be a
stranger's: a terminal gets no control characters, and the page no markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from paddock.agentic.chat import message_text, opening_messages, plain_observation, reply_content
from paddock.agentic.tasks import task_name
from paddock.record.trace import Episode
from paddock.sandbox.plain_text import strip_escapes

if TYPE_CHECKING:
    from paddock.agentic.rollouts.results import Rollout

MOST_CHARS = 20_000  # of one text
_MOST_TOLD = 10  # entries of a rollout that is printed
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]*={0,2}")


class Entry(NamedTuple):
    """Something that was said or done. ``who``: a role, "thinking", "call", "action", "reward", "model" or "error"."""

    who: str
    text: str
    note: str = ""
    pictures: tuple[str, ...] = ()
    acts: bool = False  # whether it may be a step


class Story(NamedTuple):
    """An episode as it is shown. ``total`` is None if it failed."""

    number: int
    task: str
    attempt: int
    total: float | None
    ended: str
    error: str | None
    steps: int
    seconds: float | None
    entries: list[Entry]

    @property
    def title(self) -> str:
        took = "" if self.seconds is None else f", {self.seconds:.1f} s"
        brought = "no return" if self.total is None else f"return {self.total:g}"
        where = f"episode {self.number}: {self.task}, attempt {self.attempt}"
        return f"{where}: {brought}, {self.ended}, {self.steps} steps{took}"


def story_of(episode: Episode) -> Story:
    """Tell an episode of a trace."""
    row = episode.task if isinstance(episode.task, dict) else {}
    last, known = (episode.steps[-1] if episode.steps else None), episode.rollout
    if episode.error is not None:
        ended = "error"
    elif not episode.ended:
        ended = "broken off"
    else:
        over = (last is not None and last.terminated, last is not None and last.truncated)
        ended = "terminated" if over[0] else "truncated" if over[1] else "turns"
    where = f" in {known.where}" if known is not None and known.where else ""
    error = None if episode.error is None else f"{episode.error.code}{where}: {episode.error.message}"
    attempt = episode.about.get("attempt")
    return Story(
        number=episode.number,
        task=task_name(row, episode.seed),
        attempt=attempt if type(attempt) is int else 0,
        total=episode.total_return if episode.ended else None,
        ended=ended,
        error=error,
        steps=len(episode.steps),
        seconds=None if known is None else known.seconds,
        entries=list(_entries(episode)) + ([] if error is None else [Entry("error", error)]),
    )


def _entries(episode: Episode) -> Iterator[Entry]:
    rewards = [_reward_note(step) for step in episode.steps]
    if episode.rollout is not None and episode.rollout.messages:
        told = list(_conversation(episode.rollout.messages))
        acts = [at for at, entry in enumerate(told) if entry.acts]
        if len(acts) == len(rewards):  # else the model was refused something that became no step
            for at, note in zip(acts, rewards, strict=True):
                told[at] = told[at]._replace(note=note)
            rewards = []
        yield from told
        yield from (Entry("reward", f"step {at}", note) for at, note in enumerate(rewards))
    else:
        if episode.observation is not None:
            yield from _observed(episode.observation, opening=True)
        for step, note in zip(episode.steps, rewards, strict=True):
            yield Entry("action", _plain(step.action), note)
            yield from _observed(step.observation)
    for call in episode.calls:
        tokens = f"{call.prompt_tokens} + {call.completion_tokens} tokens"
        why = f", {call.error[0]}" if call.error is not None else f", ended by {call.finish_reason}"
        again = f", try {call.retry + 1}" if call.retry else ""
        yield Entry("model", f"turn {call.turn}: {call.model}, {tokens}, {call.seconds:.2f} s{again}{why}")


def _conversation(messages: Iterable[Any]) -> Iterator[Entry]:
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        thought = message.get("reasoning_content") or message.get("reasoning")
        if isinstance(thought, str):
            yield Entry("thinking", thought[:MOST_CHARS])
        words, pictures = message_text(message), _pictures(message.get("content"))
        if words or pictures:
            role = str(message.get("role", "?"))[:20]
            acts = role == "assistant" and not message.get("tool_calls")
            yield Entry(role, words[:MOST_CHARS], pictures=pictures, acts=acts)
        for call in message.get("tool_calls") or ():
            function = call.get("function") if isinstance(call, Mapping) else None
            if isinstance(function, Mapping):
                yield Entry("call", f"{function.get('name')}({function.get('arguments')})"[:MOST_CHARS], acts=True)


def _observed(observation: Any, *, opening: bool = False) -> Iterator[Entry]:
    words = isinstance(observation, msgspec.Struct) or (isinstance(observation, Mapping) and "content" in observation)
    plain = plain_observation(observation)
    if not words:
        yield Entry("observation", _plain(observation))
    elif opening or plain.get("messages"):
        yield from _conversation(opening_messages(plain))
    else:
        content = reply_content(plain)
        text = content if isinstance(content, str) else message_text({"content": content})
        yield Entry("tool", text[:MOST_CHARS], pictures=_pictures(content))


def _pictures(content: Any) -> tuple[str, ...]:
    parts = content if isinstance(content, list) else []
    urls = (part["image_url"].get("url") for part in parts if isinstance(part, Mapping) and "image_url" in part)
    return tuple(url for url in urls if isinstance(url, str) and _PICTURE.fullmatch(url))


def _plain(value: Any) -> str:
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, Mapping) and value.get("type") == "call_tool":
        return f"{value.get('tool_name')}({json.dumps(value.get('arguments'), default=repr)})"[:MOST_CHARS]
    if isinstance(value, Mapping) and value.get("type") == "say":
        return str(value.get("text"))[:MOST_CHARS]
    return str(value)[:MOST_CHARS]


def _reward_note(step: Any) -> str:
    rubric = step.info.get("rubric") if isinstance(step.info, Mapping) else None
    parts = rubric.get("parts") if isinstance(rubric, Mapping) else None
    listed = ", ".join(f"{name} {score}" for name, score in parts.items()) if isinstance(parts, Mapping) else ""
    return f"reward {step.reward:g}{f' ({listed})' if listed else ''}"


# ── In a terminal ──


def lines(story: Story, width: int = 100, most: int | None = None) -> list[str]:
    """The story in lines without control characters; ``most``: how many lines an entry may have."""
    found = [_clean(story.title)]
    for entry in story.entries:
        head = f"{entry.who}: "
        paragraphs = _clean(entry.text).split("\n")
        told = [part for words in paragraphs for part in textwrap.wrap(words, max(20, width - 4)) or [""]]
        if most is not None and len(told) > most:
            told = [*told[:most], f"… {len(told) - most} more lines"]
        pictures = [f"[{len(entry.pictures)} pictures]"] if entry.pictures else []
        note = [f"[{_clean(entry.note)}]"] if entry.note else []
        first, *others = [*told, *pictures, *note] or [""]
        found += [f"  {head}{first}", *(f"    {line}" for line in others)]
    return found


def tell(rollout: Rollout) -> str:
    """A rollout in a few lines: how it ended, and the conversation with its long texts cut."""
    error = None if rollout.error is None else f"{rollout.error.code} in {rollout.error.where}: {rollout.error.message}"
    told = list(_conversation(rollout.messages))
    left = max(0, len(told) - _MOST_TOLD)
    half = _MOST_TOLD // 2
    entries = [*told[:half], Entry("…", f"{left} more"), *told[-half:]] if left else told
    story = Story(
        rollout.place, rollout.name, rollout.attempt, rollout.total_return, rollout.ended, error, rollout.steps,
        rollout.seconds, entries + ([] if error is None else [Entry("error", error)]),
    )  # fmt: skip
    return "\n".join(lines(story, most=2))


def _clean(text: str) -> str:
    return strip_escapes(text).replace("\t", "    ")


# ── As a page ──

_STYLE = """
:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}body{max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.3rem}details{border:1px solid #8884;border-radius:.5rem;margin:.5rem 0;padding:.3rem .8rem}
summary{cursor:pointer;overflow-wrap:anywhere}.failed summary{color:#c33}.none{display:none}
.entry{margin:.5rem 0;padding:.3rem .7rem;border-left:4px solid #8886}.entry b{font-size:.8rem;text-transform:uppercase}
.entry i{float:right;font-style:normal;color:#393}.user{border-color:#47c}.assistant,.call,.action{border-color:#393}
.tool,.observation{border-color:#c83}.error{border-color:#c33}.thinking,.model,.reward{opacity:.75;font-size:.9rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0;font:inherit}
.call pre,.action pre,.tool pre{font-family:monospace}
img{max-width:100%}form{display:flex;gap:.8rem;flex-wrap:wrap;position:sticky;top:0;background:Canvas;padding:.5rem 0}
"""
_SCRIPT = """
const form = document.querySelector("form"), count = document.querySelector("output");
const episodes = [...document.querySelectorAll("details")];
function choose() {
  const task = form.task.value.toLowerCase(), kind = form.kind.value;
  const low = form.low.value === "" ? -Infinity : Number(form.low.value);
  const high = form.high.value === "" ? Infinity : Number(form.high.value);
  let shown = 0;
  for (const one of episodes) {
    const total = one.dataset.total === "" ? NaN : Number(one.dataset.total);
    const fits = one.dataset.task.toLowerCase().includes(task)
      && (kind === "all" || (kind === "failed") === one.classList.contains("failed"))
      && (low === -Infinity || total >= low) && (high === Infinity || total <= high);
    one.classList.toggle("none", !fits);
    shown += fits;
  }
  count.textContent = shown + " of " + episodes.length;
}
form.addEventListener("input", choose);
form.addEventListener("submit", event => event.preventDefault());
choose();
"""
_FORM = """<form><label>task <input name="task"></label>
<label>return from <input name="low" type="number" step="any" size="6"></label>
<label>to <input name="high" type="number" step="any" size="6"></label><label><select name="kind">
<option value="all">all</option><option value="failed">failed</option><option value="done">not failed</option></select>
</label><output></output></form>"""


def page(title: str, stories: Iterable[Story]) -> Iterator[str]:
    """One self-contained page, piece by piece. It asks the network for nothing, and runs only its own script."""
    hashed = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{hashed}'"
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{_STYLE}</style></head>\n'
    yield f"<body><h1>{_text(title)}</h1>\n{_FORM}\n"
    for story in stories:
        failed = ' class="failed"' if story.total is None else ""
        total = "" if story.total is None else f"{story.total:g}"
        yield f'<details{failed} data-task="{_text(story.task)}" data-total="{total}">'
        yield f"<summary>{_text(story.title)}</summary>\n"
        for entry in story.entries:
            note = f"<i>{_text(entry.note)}</i>" if entry.note else ""
            pictures = "".join(f'<img alt="picture" src="{url}">' for url in entry.pictures)
            who = entry.who if entry.who.isalpha() and entry.who.isascii() else "other"
            words = f"<b>{_text(entry.who)}</b><pre>{_text(entry.text)}</pre>"
            yield f'<div class="entry {who}">{note}{words}{pictures}</div>\n'
        yield "</details>\n"
    yield f"<script>{_SCRIPT}</script></body></html>\n"


def _text(text: str) -> str:
    return html.escape(strip_escapes(text))
