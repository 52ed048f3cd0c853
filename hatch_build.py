"""Write a stub into the wheel for each module that ``paddock.aliases`` makes: type checkers read nothing but files."""

import ast
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Reads the literal ``ALIASES`` of each package; imports nothing."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        source = Path(self.root, "src")
        for path in sorted(source.glob("paddock/**/__init__.py")):
            for node in ast.parse(path.read_text()).body:
                if ast.unparse(node).startswith(("ALIASES =", "ALIASES:")):
                    self.write(path.parent.relative_to(source), ast.literal_eval(node.value))
        build_data["force_include"].update(
            {str(stub): stub.relative_to(self.folder).as_posix() for stub in self.folder.rglob("*.pyi")}
        )

    def write(self, package: Path, table: dict[str, Any]) -> None:
        for below, exports in table.items():
            is_package = any(other.startswith(f"{below}.") for other in table)
            path = self.folder / package / below.replace(".", "/") / "__init__"
            path = (path if is_package else path.parent).with_suffix(".pyi")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.stub(exports))

    def stub(self, exports: str | dict[str, str]) -> str:
        """Re-export the names. To a strict checker only ``name as name`` does; a whole module may have any name."""
        if isinstance(exports, str):
            return f"from typing import Any\n\nfrom {exports} import *\n\ndef __getattr__(name: str) -> Any: ...\n"
        lines = []
        for home, names in exports.items():
            lines.append(f"from {home} import {', '.join(f'{name} as {name}' for name in names.split())}\n")
        return "".join(lines)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self.folder)
