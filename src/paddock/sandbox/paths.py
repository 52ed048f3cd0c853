"""Paths by their names: what a policy grants of one, it grants of everything below. No link is followed here."""

from __future__ import annotations


def covers(folder: str, path: str) -> bool:
    """Whether the path is the folder or lies below it. Both are absolute and in normal form."""
    folder, path = "/" + folder.strip("/"), "/" + path.lstrip("/")
    return path == folder or path.startswith(folder.rstrip("/") + "/")
