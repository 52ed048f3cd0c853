"""Folders as targets: ``./maze``, or ``./maze:Maze-v0`` where the manifest has several environments."""

from __future__ import annotations

from pathlib import Path


def split_folder(text: str) -> tuple[str, str | None] | None:
    """Folder and id; None if the text names no folder. A colon may also be part of a folder's name."""
    if not text.startswith((".", "/", "~")):
        return None
    if ":" not in text or Path(text).expanduser().exists():
        return text, None
    folder, _, id = text.rpartition(":")
    return folder, id
