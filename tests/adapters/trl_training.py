"""GRPO with the tiny model of examples/grpo_echo.py, for tests: run in the venv of the peer ``trl``."""

import os
import statistics
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", TOKENIZERS_PARALLELISM="false")

import torch
from datasets import Dataset
from examples.grpo_echo import tiny_model, tiny_tokenizer
from transformers import logging as transformers_logging
from trl import GRPOConfig, GRPOTrainer


def train(*, words=(), calls=(), rows, steps, seed=0, generations=8, groups=1, tokens=4, rate=3e-2, **how):
    """The mean reward of each step, and the trainer. ``how``: the environment, as GRPOTrainer takes it."""
    torch.set_num_threads(1)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    tokenizer = tiny_tokenizer(words, calls)
    arguments = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=generations * groups,
        num_generations=generations,
        max_completion_length=tokens,
        max_tool_calling_iterations=1,
        max_steps=steps,
        learning_rate=rate,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        seed=seed,
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=tiny_model(tokenizer, seed),
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        **how,
    )
    trainer.train()
    rewards = [line["reward"] for line in trainer.state.log_history if "reward" in line]
    return rewards, trainer


def rise(rewards, part=0.25):
    """The means of the first and the last part, and by how many standard errors they differ."""
    count = max(2, int(len(rewards) * part))
    first, last = rewards[:count], rewards[-count:]
    error = ((statistics.variance(first) + statistics.variance(last)) / count) ** 0.5
    means = statistics.fmean(first), statistics.fmean(last)
    return {"first": means[0], "last": means[1], "errors": (means[1] - means[0]) / max(error, 1e-9)}
