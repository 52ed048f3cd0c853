"""What is played in each folder of tests/openenv/folders: one short episode."""

from pathlib import Path

FOLDERS = Path(__file__).parent / "folders"
SEED = 3
_COFFEE = {"item": {"kind": "coffee", "size": "large", "shots": 2}}

PLAYS = {
    "chat_env": [{"tokens": [104, 105]}, {"tokens": [111, 107]}],
    "coding_env": [{"code": "x = 3\nprint(x * 2, 'é')"}, {"code": "print(x + 1)"}, {"code": "import os"}],
    "connect4_env": [{"column": column} for column in (3, 2, 3, 2, 3, 2, 3)],
    "echo_env": [
        {"type": "call_tool", "tool_name": "echo_message", "arguments": {"message": "hi"}},
        {"type": "call_tool", "tool_name": "echo_with_length", "arguments": {"message": "four"}},
        {"type": "call_tool", "tool_name": "nothing", "arguments": {}},
    ],
    "frames_env": [{"action_id": action} for action in (1, 2, 2, 4)],
    "maze_env": [{"direction": way} for way in ("up", *["right"] * 4, *["down"] * 4)],
    "typed_env": [
        {"customer": "ann", "lines": [_COFFEE, {"item": {"kind": "cake"}, "note": "warm"}]},
        {"customer": "bob", "lines": []},
        {"customer": "ann", "lines": [{"item": {"kind": "cake", "slices": 3}}]},
    ],
    "word_env": [{"message": "[crane]"}, {"message": "slate"}, {"message": "xy"}],
}


def play(env, actions):
    """An episode as ``[fields, reward, done]`` per step: what every client of every server sees alike."""
    records = [_record(*env.reset(seed=SEED)[:1], None, False)]
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        records.append(_record(observation, reward, terminated or truncated))
    return records


def _record(observation, reward, done):
    return [
        {name: one for name, one in observation.items() if name not in ("reward", "done", "metadata")},
        reward,
        done,
    ]
