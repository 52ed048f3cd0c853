"""Sections of docs/llm-trainers.md, run in the venv of a peer against a model on loopback: `run("verifiers")`."""

import json
import os
import sys
import tempfile
from importlib.metadata import version

from tests.adapters.trainer_pages import run_section
from tests.agentic.model_server import model_server, reply
from tests.peers import ROOT

PAGE = ROOT / "docs" / "llm-trainers.md"


def parrot(request):
    """A model that echoes the last word of the task."""
    words = next(one["content"] for one in request["messages"] if one["role"] == "user")
    words = words if isinstance(words, str) else words[0]["text"]
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    call = ("echo_message", {"message": words.split()[-1]})
    return reply(calls=[call], finish="tool_calls", usage=usage, created=1, id="chatcmpl-1")


def run(section, packages, check=lambda namespace: None):
    """Run a section, and print what the check returned and the versions of the packages as JSON."""
    os.chdir(tempfile.mkdtemp())
    sys.path.insert(0, os.getcwd())
    with model_server(parrot) as server:
        os.environ |= {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
        namespace = run_section(section, PAGE)
        found = check(namespace)
    versions = {name: version(name) for name in packages}
    print(json.dumps({"found": found, "versions": versions, "calls": len(server.requests)}))
