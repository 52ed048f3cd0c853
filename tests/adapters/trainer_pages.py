"""The code of docs/trainers.md and of the README's training: its blocks run where their framework is installed."""

import re

from tests.peers import ROOT

PAGE = ROOT / "docs" / "trainers.md"


def run_section(heading, page=PAGE):
    """Run the ```py blocks of a section in one namespace, and return that; an error names the line of the page."""
    text = page.read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, f"{page.name} has no section {heading}"
    blocks = list(re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL).finditer(text, *section.span()))
    assert blocks, f"the section {heading} of {page.name} shows no code"
    namespace = {"__name__": "__main__"}
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], str(page), "exec"), namespace)
    return namespace
