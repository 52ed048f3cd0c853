"""Train a language model on paddock/Echo with TRL's GRPO, behind the sandbox. See docs/trl.md.

As it is, with a model of ten thousand weights that is made here, it takes half a minute on a CPU and no network:

    pip install trl
    python examples/grpo_echo.py

A model that can read takes the same two lines of paddock: --model Qwen/Qwen3-0.6B. So does an environment of a server:
--target https://envs.example.org/paddock%2FEcho.
"""

import argparse
import json

import torch
from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, set_seed
from trl import GRPOConfig, GRPOTrainer

from paddock.adapters.trl import environment_factory, task_rows


def main():
    parser = argparse.ArgumentParser(description="Train on paddock/Echo.")
    parser.add_argument(
        "--target", default="paddock/Echo", help="an id, a folder or a URL of an environment with tools"
    )
    parser.add_argument("--model", help="a model that can call tools; else a tiny one is made")
    parser.add_argument("--tasks", type=int, default=2, help="on how many of the tasks")
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()

    local = "://" not in arguments.target
    echo = environment_factory(arguments.target, **({"isolation": "sandbox"} if local else {}))
    rows = task_rows(arguments.target, count=arguments.tasks) * 16

    trainer = GRPOTrainer(
        **(tiny("ab") if arguments.model is None else {"model": arguments.model}),
        environment_factory=echo,
        train_dataset=Dataset.from_list(rows),
        args=settings(arguments.steps, tiny=arguments.model is None),
    )
    trainer.train()

    rewards = [line["reward"] for line in trainer.state.log_history if "reward" in line]
    for at in range(0, len(rewards), 4):
        print(f"step {at + 1:3}  reward {rewards[at]:4.2f}  {'#' * round(40 * rewards[at])}")
    print(f"{echo.failures.episodes} episodes, {echo.failures.failed} broke")


def settings(steps, *, tiny):
    return GRPOConfig(
        output_dir="grpo_echo",
        max_steps=steps,
        per_device_train_batch_size=16,
        num_generations=8,
        max_completion_length=4 if tiny else 512,
        max_tool_calling_iterations=1,
        learning_rate=1e-2 if tiny else 1e-6,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=tiny,
        bf16=not tiny,
        disable_tqdm=True,
    )


# A model and a tokenizer so small that chance finds what is right. The tokenizer knows a few words, and a whole tool
# call as one token; every other word is <unk>.

SPECIAL = ("<pad>", "<end>", "<system>", "<user>", "<assistant>", "<tool>")
TEMPLATE = """{%- for message in messages -%}
<{{ message.role }}>{{ message.content }}
{%- for call in message.tool_calls or [] -%}
<tool_call>{{ {"name": call.function.name, "arguments": call.function.arguments} | tojson }}</tool_call>
{%- endfor -%}
<end>
{%- endfor -%}
{%- if add_generation_prompt -%}<assistant>{%- endif -%}"""
READING = {  # how transformers finds the calls in what the model wrote
    "defaults": {"role": "assistant"},
    "start_anchor": "<assistant>",
    "fields": {
        "tool_calls": {
            "open": "<tool_call>",
            "close_pattern": "</tool_call>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": "<end>", "content": "text"},
    },
}


def tiny(letters):
    torch.set_num_threads(1)
    tokenizer = tiny_tokenizer(letters, [call("echo_message", message=letter) for letter in letters])
    return {"model": tiny_model(tokenizer, seed=0), "processing_class": tokenizer}


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def tiny_tokenizer(words, calls=()):
    known = {word: at for at, word in enumerate(["<unk>", *words])}
    raw = Tokenizer(models.WordLevel(known, unk_token="<unk>"))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.Whitespace(), decoders.Fuse()
    raw.add_special_tokens([AddedToken(one, special=True) for one in SPECIAL])
    raw.add_tokens([AddedToken(one, normalized=False) for one in calls])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token="<unk>", eos_token="<end>", pad_token="<pad>", padding_side="left"
    )
    tokenizer.chat_template, tokenizer.response_template = TEMPLATE, READING
    return tokenizer


def tiny_model(tokenizer, seed):
    set_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)


if __name__ == "__main__":
    main()
