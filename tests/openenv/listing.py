"""Every name that OpenEnv's own code makes public or imports from itself, read from its files; nothing is imported."""

import ast
import re
from pathlib import Path

# Parts that are refused as a whole: their names are not listed.
WHOLE = ("openenv.cli", "openenv.discovery", "openenv.harbor", "openenv.validation", "openenv.core.harness.capture")


def list_names(folder):
    """{module: sorted names} of the package ``openenv`` in this folder."""
    found = {}
    for path in sorted(Path(folder).glob("openenv/**/*.py")):
        package = [*path.relative_to(folder).parts[:-1]]
        module = ".".join(package if path.stem == "__init__" else [*package, path.stem])
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                source = ".".join([*base, *([node.module] if node.module else [])])
                found.setdefault(source, set()).update(alias.name for alias in node.names)
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                texts = (one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant))
                found.setdefault(module, set()).update(texts)
    return {
        module: names for module, listed in sorted(found.items()) if _is_public(module) and (names := _public(listed))
    }


def _is_public(module):
    ours = module.split(".")[0] == "openenv" and not re.search(r"\._|\.templates\.", module)
    return ours and not any(f"{module}.".startswith(f"{whole}.") for whole in WHOLE)


def _public(names):
    return sorted(name for name in names if name != "*" and not name.startswith("_"))
