"""For each rule of SEC001 to SEC023, sources that break it and sources that look alike and do not.

(source, permissions, lines for the [[env]]); each is a module maze_env of a package, and is never imported.
"""

from typing import NamedTuple


class Case(NamedTuple):
    source: str
    permissions: str = ""
    env: str = ""


def inside(imports, line):
    """``line`` in a function of a module with these imports."""
    return Case(f"{imports}\n\ndef helper(self, x):\n    {line}\n")


GOOD_SOURCE = '''
"""A maze."""
import json
import tempfile
from pathlib import Path

import numpy as np

import paddock

LEVELS = Path(__file__).parent / "levels"


class Maze(paddock.Env):
    observation_space = paddock.spaces.Discrete(9)
    action_space = paddock.spaces.Discrete(4)

    def __init__(self, size=3, token=None):
        self.size, self.token = size, token
        self.level = json.loads((LEVELS / "one.json").read_text())

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(9))
        return self.place, {"distance": 1.0}

    def step(self, action):
        self.place = (self.place + int(action)) % 9
        with tempfile.TemporaryFile() as scratch:
            scratch.write(b"x")
        with open("/tmp/log", "w") as log:
            log.write("x")
        return self.place, 0.0, False, False, {"distance": np.float64(1)}
'''

BAD = {
    "import-effects": [
        Case("DATA = open('levels.txt').read()\n"),
        Case("from pathlib import Path\nclass A:\n    text = Path(__file__).with_name('x').read_text()\n"),
        Case("import socket\nS = socket.create_connection(('a', 1), 2)\n", "hosts = ['a:1']"),
        Case(
            "import threading\n\ndef go():\n    threading.Thread(target=f).start()\n\ndef main():\n    go()\n\nmain()\n"
        ),
        Case("class A:\n    def __init__(self):\n        open('x')\n\nA()\n"),
        Case("def f(x=open('x')):\n    pass\n"),
    ],
    "starts-processes": [
        inside("import subprocess", "subprocess.run(['ls'])"),
        inside("import os as o", "o.system('ls')"),
        inside("from os import fork", "fork()"),
        inside("import importlib", "importlib.import_module('subprocess').run(['ls'])"),
        inside("import multiprocessing as mp", "mp.Pool(2)"),
        inside("", "__import__('os').system('ls')"),
    ],
    "runs-data": [
        inside("", "eval(x)"),
        inside("", "exec(x)"),
        inside("import pickle", "pickle.loads(x)"),
        inside("import numpy as np", "np.load(x, allow_pickle=True)"),
        inside("import torch", "torch.load(x)"),
    ],
    "native-code": [inside("import ctypes", "ctypes.CDLL(None)"), inside("from cffi import FFI", "FFI()")],
    "undeclared-network": [
        inside("import requests", "requests.get(x, timeout=3)"),
        inside("import urllib.request", "urllib.request.urlopen('http://a.org', None, 3)"),
        inside("import requests", "requests.get('https://a.org/x', timeout=3)")._replace(
            permissions="hosts = ['b.org:443']"
        ),
        inside("import requests", "requests.get(f'https://a.org/{x}', timeout=3)")._replace(
            permissions="hosts = ['a.org:80']"
        ),
        inside("import socket", "socket.create_connection(('a.org', 5), 3)")._replace(
            permissions="hosts = ['a.org:6']"
        ),
    ],
    "no-timeout": [
        inside("import requests", "requests.get(x)")._replace(permissions="hosts = ['a.org:443']"),
        inside("from urllib.request import urlopen", "urlopen(x)")._replace(permissions="hosts = ['a.org:443']"),
        inside("import httpx", "httpx.get(x, timeout=None)")._replace(permissions="hosts = ['a.org:443']"),
        inside("import socket", "socket.create_connection(x, None)")._replace(permissions="hosts = ['a.org:443']"),
    ],
    "hidden-input": [
        inside("import time", "return time.time()"),
        inside("from datetime import datetime", "return datetime.now()"),
        inside("import random", "return random.random()"),
        inside("import numpy as np", "return np.random.rand()"),
        inside("from numpy.random import normal", "return normal()"),
        inside("import numpy as np", "self.rng = np.random.default_rng()"),
        inside("import uuid", "return uuid.uuid4()"),
        inside("import os", "return os.urandom(3)"),
    ],
    "writes-elsewhere": [
        inside("", "open('/var/log/x', 'w')"),
        inside("", "open('out.txt', mode='a')"),
        inside("from pathlib import Path", "Path(__file__).with_name('x').write_text('y')"),
        inside("from pathlib import Path", "(Path.home() / 'x').write_text('y')"),
        inside("import os", "os.makedirs(os.path.expanduser('~/maze'))"),
        inside("import shutil", "shutil.copy(x, '/srv/y')"),
        inside("", "open(f'/data/{x}', 'wb')")._replace(permissions="write = ['/database']"),
    ],
    "reads-elsewhere": [
        inside("", "open('/etc/passwd')"),
        inside("", "open('levels.txt')"),
        inside("from pathlib import Path", "Path('~/.ssh/id_rsa').expanduser().read_text()"),
        inside("import numpy as np", "np.load('/data/x.npy')"),
    ],
    "environment-variables": [
        inside("import os", "return os.environ['HOME']"),
        inside("import os", "return os.getenv('A')")._replace(permissions="variables = { B = '1' }"),
        inside("from os import environ", "environ['A'] = '1'"),
        inside("import os", "return dict(os.environ)")._replace(permissions="variables = { B = '1' }"),
    ],
    "secret-in-source": [
        Case("KEY = 'AKIA" + "IOSFODNN7EXAMPLQ'\n"),
        Case("x = 'ghp_" + "a1" * 18 + "'\n"),
        Case("PEM = '''-----BEGIN RSA " + "PRIVATE KEY-----\nabc'''\n"),
        Case("api_key = 'q8w7e6r5t4y3'\n"),
        inside("", "x.login(password='hunter2hunter3')"),
        Case("URL = 'postgres://me:hunter2@db/x'\n"),
        Case("", "variables = { API_TOKEN = 'q8w7e6r5t4y3' }"),
    ],
    "looks-around": [
        inside("import sys", "sys._getframe(1)"),
        inside("import inspect", "inspect.stack()"),
        inside("import gc", "gc.get_objects()"),
    ],
    "changes-others": [
        inside("import numpy as np", "np.random.seed = None"),
        inside("import sys", "sys.path.insert(0, x)"),
        inside("import sys", "sys.modules['numpy'] = x"),
        inside("import builtins", "setattr(builtins, 'open', x)"),
        inside("from paddock.core.registry import registry", "del registry['CartPole-v1']"),
        Case("import numpy\nnumpy.array += 1\n"),
    ],
    "waits": [
        inside("", "input()"),
        inside("import time", "time.sleep(1)"),
        inside("import sys", "sys.stdin.readline()"),
    ],
    "ends-process": [
        inside("import os", "os._exit(0)"),
        inside("import sys", "sys.exit()"),
        inside("import os, signal", "os.kill(x, signal.SIGTERM)"),
        inside("import signal", "signal.signal(signal.SIGINT, x)"),
    ],
    "permission-unused": [
        Case("", "hosts = ['a.org:443']"),
        Case("", "variables = { A = '1' }"),
        Case("", "workspaces = 1\n[permissions.workspace]"),
        Case("", "processes = 2"),
        Case("", "read = ['/data']"),
    ],
    "permission-broad": [
        inside("import httpx", "httpx.get(x, timeout=3)")._replace(permissions="hosts = ['*:443']"),
        inside("", "open(x)")._replace(permissions="read = ['/etc/ssl']"),
        inside("", "open(x)")._replace(permissions="read = ['/usr']"),
        inside("", "open(x)")._replace(permissions="write = ['/home/me']"),
        inside("", "open(x, 'w')")._replace(permissions="write = ['.']"),
        Case("", "devices = ['/dev/kvm']"),
        Case("", "tier = 'landlock'"),
    ],
    "unread-source": [
        Case("def\n"),
        Case("x = '\0'\n"),
        Case("x = " + "(" * 500 + ")" * 500),
        Case("x = 1" + " + 1" * 9000),
        Case("# " + "x" * (1 << 20)),
    ],
    "info-tells": [
        Case("def step(self, a):\n    return 0, 0.0, False, False, {'answer': 42}\n"),
        inside("", "info = {}; info['ground_truth'] = x"),
        inside("", "info = {'correct_action': x}"),
    ],
}

GOOD = {
    "import-effects": [
        inside("", "return open('/tmp/x')"),
        Case("from pathlib import Path\nPLACE = Path(__file__).parent\n\nif __name__ == '__main__':\n    open('x')\n"),
        Case("import threading\nLOCK = threading.Lock()\n"),
    ],
    "starts-processes": [inside("import os", "return os.path.join('a', x)"), inside("", "x.system('ls')")],
    "runs-data": [
        inside("import ast", "return ast.literal_eval(x)"),
        inside("import numpy as np", "return np.load(x, allow_pickle=False)"),
        inside("", "x.eval()"),
        Case("def eval(x):\n    pass\n\ndef f(x):\n    eval(x)\n"),
    ],
    "native-code": [inside("import numpy as np", "return np.zeros(3)")],
    "undeclared-network": [
        inside("import requests", "requests.get('https://a.org/x', timeout=3)")._replace(
            permissions="hosts = ['a.org:443']"
        ),
        inside("import urllib.parse", "return urllib.parse.quote(x)"),
        inside("from . import socket", "socket.connect(x)"),
    ],
    "no-timeout": [
        inside("import requests", "requests.get(x, timeout=3)")._replace(permissions="hosts = ['a.org:443']"),
        inside("import requests", "requests.get(x, **self.options)")._replace(permissions="hosts = ['a.org:443']"),
        inside("from urllib.request import urlopen", "urlopen(x, None, 3)")._replace(
            permissions="hosts = ['a.org:443']"
        ),
        inside("import httpx", "httpx.get(x)")._replace(permissions="hosts = ['a.org:443']"),
    ],
    "hidden-input": [
        inside("", "return self.np_random.random()"),
        inside("import numpy as np", "return np.random.default_rng(x)"),
        inside("import random", "return random.Random(x)"),
        Case("import time\n\nclass A:\n    def render(self):\n        return time.time()\n"),
        inside("import time", "return time.time()")._replace(env="deterministic = false"),
    ],
    "writes-elsewhere": [
        inside("", "open('/tmp/x', 'w')"),
        inside("import tempfile, os", "open(os.path.join(tempfile.mkdtemp(), 'x'), 'w')"),
        inside("", "open(x, 'w')"),
        inside("", "open('/data/x', 'w')")._replace(permissions="write = ['/data']"),
        inside("", "open('out/x', 'w')")._replace(permissions="write = ['./out']"),
    ],
    "reads-elsewhere": [
        inside("from pathlib import Path", "return (Path(__file__).parent / 'x').read_text()"),
        inside("import os", "return open(os.path.join(os.path.dirname(__file__), 'x'))"),
        inside("", "open('/data/x')")._replace(permissions="read = ['/data']"),
        inside("", "open('/dev/urandom', 'rb')"),
    ],
    "environment-variables": [
        inside("import os", "return os.environ['A']")._replace(permissions="variables = { A = '1' }"),
        inside("import os", "return os.environ.get('A')")._replace(permissions="variables = { A = '1' }"),
    ],
    "secret-in-source": [
        Case("password = None\ntoken = ''\napi_key = '<your key here>'\nTOKEN = 'aaaaaaaaaaaa'\n"),
        Case("tokenizer = 'bert-base-uncased-2'\nsecret = 'none of it1'\n"),
        Case("URL = 'https://example.org:443/a@b'\n"),
    ],
    "looks-around": [inside("import sys", "return sys.version")],
    "changes-others": [
        inside("import numpy as np", "a = np.zeros(3); a[0] = 1; self.x = np"),
        Case("from . import part\npart.x = 1\nimport maze_env.other\nmaze_env.other.x = 1\n"),
        Case("A = {}\nA['x'] = 1\n"),
    ],
    "waits": [inside("", "x.sleep(1); self.input()")],
    "ends-process": [
        inside("", "raise ValueError(x)"),
        Case("import sys\nif __name__ == '__main__':\n    sys.exit(1)\n"),
    ],
    "permission-unused": [
        inside("import httpx", "httpx.get(x, timeout=3)")._replace(permissions="hosts = ['a.org:443']"),
        inside("", "open(x)")._replace(permissions="read = ['/data']"),
        inside("", "self.workspace(x)")._replace(permissions="workspaces = 1\n[permissions.workspace]"),
        Case("", "memory_mb = 4096"),
    ],
    "permission-broad": [
        inside("", "open(x)")._replace(
            permissions="read = ['/data', '/usr/share/dict', './levels']\nwrite = ['./out']"
        ),
    ],
    "unread-source": [Case("x = '\\q'\n")],
    "info-tells": [
        Case("def step(self, a):\n    return 0, 0.0, False, False, {'flagged': 1, 'question': 2}\n"),
        inside("", "self.answer = x; other = {'answer': x}"),
    ],
}
