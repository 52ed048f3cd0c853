"""Train and evaluate with verifiers (and prime-rl) on any environment with tools: its tasks, and a harness that plays.

verifiers finds a taskset by the name of a module that exports one. Yours is three lines, see docs/llm-trainers.md. The
harness plays in verifiers' process; every call of the model goes through its interception, so its trace has all tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from paddock.adapters import need
from paddock.adapters.chat import Player
from paddock.adapters.trl import task_rows
from paddock.agentic.chat import assistant_message
from paddock.agentic.endpoint import ModelEndpoint
from paddock.errors import ModelReplyCutOff

_NOTE = "paddock"


def taskset(
    target: Any, split: str | None = None, *, count: int | None = None, max_turns: int = 16, **make_kwargs: Any
) -> tuple[type, type]:
    """Return a Taskset and a Harness of verifiers.v1 for a target of ``make``; other keywords are those of ``make``.

    ``count``: how many tasks of the split; needed where it is endless. An environment that fails is an error of the
    rollout, and no reward.
    """
    need("verifiers")
    import verifiers.v1 as vf
    from verifiers.v1.runtimes import ProgramResult

    class PaddockData(vf.TaskData):  # type: ignore[misc]  # verifiers has no types for mypy
        row: dict[str, Any]

    class PaddockTask(vf.Task[PaddockData]):  # type: ignore[misc]
        @vf.reward  # type: ignore[untyped-decorator]
        async def total_return(self, trace: Any) -> float:
            """Give what the environment gave."""
            return float(trace.info[_NOTE]["return"])

    class PaddockTaskset(vf.Taskset[PaddockTask]):  # type: ignore[misc]
        def load(self) -> Iterator[PaddockTask]:
            for row in task_rows(target, split, count=count, **make_kwargs):
                name = f"{row['split']}[{row['index']}]"
                place = {"split": row["split"], "index": row["index"]}
                yield PaddockTask(PaddockData(name=name, prompt=name, row=place))

    class PaddockHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
        EXECUTES_CODE = NEEDS_CONTAINER = False

        async def launch(
            self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: Any, data: Any
        ) -> Any:
            """Play the episode of the task's row."""
            parts = urlsplit(endpoint)
            model = ModelEndpoint(ctx.model, f"{parts.scheme}://{secret}@{parts.netloc}{parts.path}", api_key_env=None)
            async with await Player.of(target, **make_kwargs) as player:
                await player.begin(data.row)
                for _ in range(max_turns):
                    call = await model.chat(player.messages, player.tools)
                    if call.cut_off:  # what is there must not be graded as if the model had finished
                        raise ModelReplyCutOff("The model's reply was cut off. Raise its limit of tokens.", call=call)
                    await player.act(assistant_message(call.reply))
                    if player.over or trace.stop_condition is not None:
                        break
                trace.info[_NOTE] = {"return": player.total, "steps": len(player.rewards), "over": player.over}
            await model.close()
            return ProgramResult(exit_code=0, stdout="", stderr="")

    return PaddockTaskset, PaddockHarness
