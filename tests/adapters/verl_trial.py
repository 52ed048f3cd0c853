"""paddock's agent loop in veRL, without its GPUs: the real loop, token builder and output over a scripted server.

The server is where veRL's own stands: `generate(request_id, prompt_ids, sampling_params)` returns a TokenOutput.
"""

import asyncio
import json
from importlib.metadata import version

from omegaconf import OmegaConf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

import paddock
from paddock.adapters.verl import PaddockAgentLoop
from paddock.errors import EpisodeFailed
from tests.agentic.rollout_envs import Guess

TEMPLATE = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def byte_tokenizer():
    """A tokenizer of single bytes, and the two marks of a turn."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={token: at for at, token in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    marks = {"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]}
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks)
    made.chat_template = TEMPLATE
    return made


class Server:
    """Says its lines one after another, with a log probability for each token."""

    def __init__(self, tokenizer, lines):
        self.tokenizer, self.lines, self.prompts = tokenizer, list(lines), []

    async def generate(self, request_id, *, prompt_ids, sampling_params, **_):
        self.prompts.append(self.tokenizer.decode(prompt_ids))
        ids = self.tokenizer.encode(self.lines.pop(0) + "<|im_end|>", add_special_tokens=False)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), num_preempted=0)


def call(number):
    return f'<tool_call>{{"name": "guess", "arguments": {{"number": {number}}}}}</tool_call>'


async def play(lines, target=Guess):
    tokenizer = byte_tokenizer()
    rollout = {"prompt_length": 4096, "response_length": 4096, "multi_turn": {}, "full_determinism": False}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}})
    server = Server(tokenizer, lines)
    loop = PaddockAgentLoop(
        DictConfigWrap(config), server, tokenizer, None, RLHFDataset, DictConfigWrap(OmegaConf.create({})),
        target=target, max_turns=4,
    )  # fmt: skip
    try:
        first = [{"role": "system", "content": "Play."}]
        output = await loop.run({}, raw_prompt=first, extra_info={"split": "test", "index": 0})
    except EpisodeFailed as error:
        return {"failed": str(error)}
    ours = [token for token, counts in zip(output.response_ids, output.response_mask, strict=True) if counts]
    theirs = [token for token, counts in zip(output.response_ids, output.response_mask, strict=True) if not counts]
    return {
        "reward": output.reward_score,
        "model": tokenizer.decode(ours),
        "environment": tokenizer.decode(theirs),
        "prompt": tokenizer.decode(output.prompt_ids),
        "logprobs": len(output.response_logprobs) == len(output.response_ids),
        "turns": output.num_turns,
        "keys": sorted(output.as_dict()),
        "second": server.prompts[1] if len(server.prompts) > 1 else "",
    }


def main():
    paddock.register("test/Guess-v0", Guess)
    secret = next(n for n in range(1, 11) if asyncio.run(play([call(n), *["x"] * 4], "test/Guess-v0")).get("reward"))
    found = {
        "won": asyncio.run(play([call(11), call(secret)], "test/Guess-v0")),
        "failed": asyncio.run(play(['<tool_call>{"name": "fall", "arguments": {}}</tool_call>'], "test/Guess-v0")),
        "secret": secret,
    }
    print(json.dumps({"found": found, "versions": {"verl": version("verl")}}))


if __name__ == "__main__":
    main()
