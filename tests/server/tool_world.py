"""Folders with tool environments written by hand, as a worker might send them: an honest one, and ones that lie.

Behind the wall the file is a module of its own, so it imports nothing of the tests, nor of ``paddock.agentic``: what a
server believes of tools must not depend on who wrote them.
"""

MANIFEST = """
[package]
name = "shop"
version = "1.0.0"

[[env]]
id = "Shop-v0"
entry = "shop_env:Shop"

[[env]]
id = "Liar-v0"
entry = "shop_env:Liar"

[[env]]
id = "Plain-v0"
entry = "shop_env:Plain"
"""

MODULE = r'''
import json

import numpy

import paddock
from paddock.spaces import Discrete, Struct

ANY = Struct.from_schema({"type": "object", "additionalProperties": True}, "Any")
TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}


def described(name, inputs, output, text="A tool."):
    properties = {key: {"type": TYPES[kind]} for key, kind in inputs.items()}
    required = {"required": list(inputs)} if inputs else {}
    schema = {"additionalProperties": False, "properties": properties, **required, "type": "object"}
    returned = {"additionalProperties": True, "type": "object"} if output is dict else {"type": TYPES.get(output)}
    returns = None if output is None else json.dumps(returned)
    return {"name": name, "description": text, "input_schema": json.dumps(schema), "output_schema": returns}


class Shop(paddock.Env):
    """Counts resets and steps; ``buy`` ends the episode."""

    observation_space = action_space = ANY
    metadata = {
        "render_modes": [],
        "description": "A shop.",
        "tools": [
            described("echo", {"message": str}, str, "Say it again."),
            described("add", {"a": int, "b": int}, int),
            described("record", {"n": int}, dict),
            described("untyped", {"n": int}, None),
            described("nothing", {}, None),
            described("picture", {}, None),
            described("count", {}, dict),
            described("buy", {}, str),
            described("fail", {}, str),
            described("crash", {}, str),
        ],
    }

    def __init__(self):
        self.resets = self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets += 1
        self.steps = 0
        self.options, self.seed = options, seed
        text = {"type": "text", "text": "Buy something."}
        return {"content": [text], "messages": [{"role": "user", "content": [text]}]}, {"task": {"index": 0}}

    def step(self, action):
        self.steps += 1
        name, given = action.get("tool_name"), action.get("arguments") or {}
        if action["type"] != "call_tool":
            return {"content": [{"type": "text", "text": "What?"}]}, 0.0, True, False, {}
        if name == "crash":
            raise RuntimeError("hunter2-planted-secret")
        results = {
            "echo": lambda message: message, "add": lambda a, b: a + b, "record": lambda n: {"n": n},
            "untyped": lambda n: [n], "nothing": lambda: None, "picture": lambda: None,
            "count": lambda: {"resets": self.resets, "steps": self.steps, "options": self.options, "seed": self.seed},
            "buy": lambda: "Sold.",
        }
        if name == "fail":
            return self.failed(name, "execution_error", "It is broken.")
        if name not in results:
            return self.failed(name, "tool_not_found", f"Unknown tool: {name!r}")
        try:
            result = results[name](**given)
        except TypeError:
            return self.failed(name, "invalid_args", "The arguments are wrong.")
        content = []
        if name == "picture":
            content = [{"type": "text", "text": "Look:"}, {"type": "image", "data": "UE5H", "mime_type": "image/png"}]
        elif result is not None:
            text = result if isinstance(result, str) else json.dumps(result, separators=(",", ":"))
            content = [{"type": "text", "text": text}]
        seen = {"content": content, "tool_name": name, "result": result, "error": None}
        return seen, 1.0 if name == "buy" else 0.0, name == "buy", False, {}

    def failed(self, name, kind, words):
        error = {"error_type": kind, "message": words}
        return {"content": [], "tool_name": name, "result": None, "error": error}, 0.0, False, False, {}

    def task(self, method, *arguments):
        rows = [{"prompt": "Buy something.", "seed": 0}, {"prompt": "Buy nothing.", "seed": 1}]
        if method == "list_splits":
            return [{"name": "train", "type": "train"}]
        if arguments[0] != "train":
            raise IndexError(arguments[0])
        if method == "get_task_range":
            return rows[slice(*arguments[1:])]
        return {"list_tasks": lambda: rows, "num_tasks": lambda: 2, "get_task": lambda: rows[arguments[1]]}[method]()


DEEP = "[" * 20_000
REFERS = json.dumps({"type": "array", "items": {"$ref": "#/$defs/one"}, "$defs": {"one": {"type": "integer"}}})
ASTRAY = json.dumps({"type": "array", "items": {"$ref": "#/items"}})


class Liar(Shop):
    """Tells tools that are none, and answers with what is no answer: ``lie`` n is the n-th of ``LIES``."""

    LIES = [
        {"content": "x", "tool_name": "lie"},
        {"content": [{"type": "video"}], "tool_name": "lie"},
        {"content": [], "tool_name": 7},
        {"content": [], "tool_name": "lie", "error": "broken"},
        {"content": [], "tool_name": "lie", "result": numpy.arange(3)},
        {"content": [], "tool_name": "lie", "result": float("nan")},
        {"content": [], "tool_name": "lie", "result": 2 ** 100},
        {"content": [], "tool_name": "lie", "result": b"\xff"},
        {"content": [], "tool_name": "another", "result": {"a": [{}] * 100}},
        {"content": [{"type": "text", "text": "\x00\x1b[2J"}], "tool_name": "lie"},
        {},
    ]
    metadata = {
        "render_modes": [],
        "description": 7,
        "splits": "none",
        "tools": [
            7, None, {}, {"name": 7},
            {"name": "no schema", "input_schema": "{"},
            {"name": "list", "input_schema": "[]"},
            {"name": "deep", "description": "", "input_schema": '{"a":' * 300 + "{}" + "}" * 300},
            {"name": "deeper", "description": "", "input_schema": DEEP, "output_schema": None},
            {"name": "lie", "description": "", "input_schema": "{}", "output_schema": None},
            {"name": "lie", "description": "twice", "input_schema": "{}", "output_schema": None},
            {"name": "refers", "description": "", "input_schema": "{}", "output_schema": REFERS},
            {"name": "astray", "description": "", "input_schema": "{}", "output_schema": ASTRAY},
        ],
    }

    def step(self, action):
        return self.LIES[action["arguments"]["n"]], 0.0, False, False, {}

    def task(self, method, *arguments):
        return {"list_splits": 7, "num_tasks": object, "get_task": {1: 2}}.get(method)


class Plain(paddock.Env):
    """Has no tools."""

    observation_space = action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, False, {}
'''


def write_shop(folder, id="Shop-v0"):
    """A target: the folder, and one of its environments."""
    folder.mkdir(exist_ok=True)
    (folder / "paddock.toml").write_text(MANIFEST)
    (folder / "shop_env.py").write_text(MODULE)
    return folder, id
