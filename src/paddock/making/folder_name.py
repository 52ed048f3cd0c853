"""Folders as targets: ``./maze`` or, where its manifest has several environments, ``./maze:Maze-v0``."""

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


def absolute(folder: str) -> str:
    """Its path from the root, without links."""
    return str(Path(folder).expanduser().resolve())


def has_manifest(folder: str) -> bool:
    """Whether the folder says that it is an environment."""
    return (Path(folder) / "paddock.toml").is_file()
