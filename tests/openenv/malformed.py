"""Messages that a server must refuse, and its answers as they were when one strict parser read all of them.

python -m tests.openenv.malformed  # writes the answers of this checkout to malformed.json
"""

import json
from pathlib import Path

from paddock.hosting.openenv.wire import WireError, error_frame, parse_request

ANSWERS = Path(__file__).with_name("malformed.json")
DEEP = "[" * 58 + "]" * 58
MESSAGES = [
    "",
    "step",
    "null",
    "[1]",
    '"step"',
    "\ufeff{}",
    '{"type":"step"}',
    '{"type":"step","data":null}',
    '{"type":"step","data":[1]}',
    '{"type":"step","data":{},"more":1}',
    '{"type":"step","type":"step","data":{"value":1}}',
    '{"type":"step","data":{"value":1,"value":2}}',
    '{"type":"step","data":{"value":1},"data":{"value":2}}',
    '{"type":"step","data":{"value":{"a":1,"a":1}}}',
    '{"type":"step","data":{"value":[{"a":":"},{"b":1,"b":2}]}}',
    '{"type":"step","data":{"value":NaN}}',
    '{"type":"step","data":{"value":-Infinity}}',
    '{"type":"step","data":{"value":1e999}}',
    '{"type":"step","data":{"value":01}}',
    '{"type":"step","data":{"value":1.}}',
    '{"type":"step","data":{"value":1,}}',
    '{"type":"step","data":{"value":[1,]}}',
    '{"type":"step","data":{"value":"\\ud800"}}',
    '{"type":"step","data":{"value":"\\udc00x"}}',
    '{"type":"step","data":{"value":"\\x"}}',
    '{"type":"step","data":{"value":"a\nb"}}',
    '{"type":"step","data":{"value":"\x00"}}',
    '{"type":"step","data":{\'value\':1}}',
    '{"type":"step","data":{"value":1}}x',
    '{"type":"step","data":{"value":1}',
    f'{{"type":"step","data":{{"value":{"1" * 301}}}}}',
    f'{{"type":"step","data":{{"value":-{"1" * 300}}}}}',
    f'{{"type":"step","data":{{"value":[{DEEP}]}}}}',
    f'{{"type":"step","data":{{"value":{"[" * 5000}}}}}',
    '{"type":"jump","data":{}}',
    '{"type":["step"],"data":{}}',
    '{"data":{"value":1}}',
    '{"type":"reset","data":7}',
    '{"type":"state","data":{}}',
    '{"type":"mcp","data":"x"}',
    '{"type":"close","why":1}',
    "/*{}*/",
]


def answers() -> dict[str, str | None]:
    """The answer to each of them; None for one that is accepted."""
    found = {text: parse_request(text) for text in MESSAGES}
    return {text: error_frame(one) if isinstance(one, WireError) else None for text, one in found.items()}


if __name__ == "__main__":
    ANSWERS.write_text(json.dumps(answers(), indent=1) + "\n")
