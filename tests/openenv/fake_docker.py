"""A ``docker`` for tests: writes down what it is called with, and runs a tiny server instead of an image."""

import http.server
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path


def main(home, words):
    call = {"words": words, "environ": dict(os.environ)}
    kind = words[0]
    if kind == "info":  # whether the engine answers
        return
    if kind == "run":
        file = Path(words[words.index("--env-file") + 1])
        call |= {"variables": file.read_text(), "mode": stat.S_IMODE(file.stat().st_mode)}
    with (home / "calls").open("a") as calls:
        calls.write(json.dumps(call) + "\n")
    if kind == "run":
        run(home, words[words.index("--name") + 1], words[-1])
        return
    state = home / words[-2 if kind == "port" else -1]
    if not state.exists():
        sys.exit("Error: No such container")
    pid, port = json.loads(state.read_text())
    if kind == "port":
        print(f"127.0.0.1:{port}")
    elif kind == "inspect":
        print("true 0" if pid else "false 3")
    elif kind == "logs":
        print("it broke")
    elif kind == "stop" and pid:
        os.kill(pid, signal.SIGTERM)
    elif kind == "rm":
        state.unlink()


def run(home, name, image):
    if image == "unknown":
        sys.exit("Unable to find image 'unknown'")
    if image == "dying":
        (home / name).write_text("[0, 1]")
        return
    words = [sys.executable, __file__, "serve", image]
    server = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    (home / name).write_text(json.dumps([server.pid, int(server.stdout.readline())]))
    print("0123456789abcdef")


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def serve(port=0, status=200):
    """Answer /health on a port until a signal comes."""
    server = http.server.HTTPServer(
        ("127.0.0.1", port), Health if status == 200 else http.server.BaseHTTPRequestHandler
    )
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(status=200 if sys.argv[2] != "sick" else 404)
    else:
        main(Path(sys.argv[1]), sys.argv[2:])
