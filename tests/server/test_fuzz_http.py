"""The HTTP API against its own OpenAPI document, by schemathesis, a program that others wrote."""

import json
import os
import re
import subprocess
from base64 import b64decode

import pytest

from tests.peers import ROOT
from tests.server.in_process import SECRET, shop_server, vault_server


def schemathesis(server, report, *options):
    """Its output; every request and answer is in the report."""
    made = subprocess.run([ROOT / "scripts" / "peer", "schemathesis"], capture_output=True, text=True, timeout=1800)
    assert made.returncode == 0, made.stderr[-2000:]
    program = os.path.join(os.path.dirname(made.stdout.strip()), "schemathesis")
    done = subprocess.run(
        [
            *(program, "run", f"http://127.0.0.1:{server.port}/openapi.json", "--no-color", "--seed", "20"),
            *("-H", f"Authorization: Bearer {server.tokens['operator']}"),
            # The environments here fail on purpose, which is a 500: ``run`` looks at those.
            *("--checks", "all", "--exclude-checks", "not_a_server_error", "--generation-database", "none"),
            *("--report", "ndjson", "--report-ndjson-path", report),
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=1800,
        cwd=report.parent,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    return done.stdout


def read_answers(report):
    """The status and body of every answer in a report."""
    for line in report.read_text().splitlines():
        recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
        for interaction in recorder.get("interactions", {}).values():
            if answer := interaction["response"]:
                yield answer["status_code"], b64decode(answer["content"]["$base64"]).decode(errors="replace")


def run(tmp_path, id, *options):
    serve = shop_server if id == "Shop-v0" else vault_server
    with serve(tmp_path, id, failures_per_s=1e6, spares=1) as server:
        told = schemathesis(server, tmp_path / "report.ndjson", *options)
        with server.peer() as peer:
            assert peer.ask("GET", "/health").json == {"status": "healthy"}
            metrics = peer.ask("GET", "/metrics").body.decode()
    assert "❌" not in told
    counts = {int(status): int(float(count)) for status, count in re.findall(r'status="(\d+)"} (\S+)', metrics)}
    assert sum(counts.values()) > 50
    assert not [status for status in counts if status > 500], counts
    answers = list(read_answers(tmp_path / "report.ndjson"))
    assert len(answers) > 50
    codes = {json.loads(body).get("code") for status, body in answers if status == 500}
    assert codes <= {"EXECUTION_ERROR", "ENV_FAILED"}
    assert not [body for _, body in answers if SECRET in body or "Traceback" in body]
    return counts


@pytest.mark.peers
@pytest.mark.parametrize("id", ["Vault-v0", "Shop-v0"])
def test_every_answer_is_as_documented(tmp_path, id):
    run(tmp_path, id, "-n", "3", "--phases", "coverage,fuzzing")


@pytest.mark.peers
@pytest.mark.full
@pytest.mark.parametrize("id", ["Vault-v0", "Picky-v0", "Shop-v0"])
def test_every_answer_of_many_is_as_documented(tmp_path, id):
    run(tmp_path, id, "-n", "60", "--phases", "coverage,fuzzing,stateful")


@pytest.mark.process
def test_the_document_has_every_route_and_no_other(tmp_path):
    with vault_server(tmp_path, "Vault-v0", "Picky-v0") as server, server.peer() as peer:
        paths = json.loads(peer.ask("GET", "/openapi.json").body)["paths"]
        for path, methods in paths.items():
            for method in methods:
                answer = peer.ask(method.upper(), path)
                found = answer.status not in (401, 403, 404, 405) or (
                    "{" in path and "no such session" in str(answer.body)
                )
                assert found, (method, path)
        assert "/Vault-v0/step" in paths and "/Picky-v0/step" in paths and "/step" not in paths
    with vault_server(tmp_path, mode="production") as server, server.peer() as peer:
        paths = json.loads(peer.ask("GET", "/openapi.json").body)["paths"]
        assert not {"/reset", "/step", "/state"} & set(paths)
        for path in ("/reset", "/step", "/state", "/Vault-v0/reset"):
            assert peer.ask("POST", path, body={}).status == 404
