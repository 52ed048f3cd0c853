"""OpenTelemetry spans, with the SDK in a venv of its own."""

import pytest

from tests.peers import run_with_peer

TRACED = """
import asyncio, json, threading
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

kept, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)

import paddock
from paddock.server import listener
from paddock.server.auth import OriginCheck
from paddock.server.http_api import HttpApi
from paddock.server.served_env import ServedEnv
from paddock.server.service import Service
from paddock.server.settings import Settings

async def serve():
    settings = Settings(port=0, spares=0)
    service = Service([ServedEnv("CartPole-v1")], settings)
    await service.start()
    acceptor = await listener.listen(HttpApi(service, OriginCheck.for_bind("127.0.0.1"), None), settings)
    await asyncio.to_thread(use, f"http://127.0.0.1:{acceptor.sockets[0].getsockname()[1]}/CartPole-v1")
    while service.sessions_here:
        await asyncio.sleep(0.01)
    acceptor.close()
    await service.stop()
    await acceptor.end()

def use(url):
    with trace.get_tracer("client").start_as_current_span("training"):
        env = paddock.make(url)
    for seed in range(2):
        env.reset(seed=seed)
        for _ in range(3):
            env.step(1)
    env.close()

asyncio.run(serve())
spans = [
    [one.name, f"{one.context.trace_id:x}", f"{one.context.span_id:x}", one.parent and f"{one.parent.span_id:x}",
     dict(one.attributes), one.start_time, one.end_time]
    for one in kept.get_finished_spans()
]
print(json.dumps(spans))
"""


@pytest.mark.peers
def test_a_session_has_spans_below_that_of_its_client():
    spans = run_with_peer("otel", TRACED)
    assert [one[0] for one in spans] == ["training", "make", "reset", "steps", "reset", "steps", "session"]
    training, session = spans[0], spans[-1]
    assert len({one[1] for one in spans}) == 1  # one trace
    assert session[3] == training[2] and {one[3] for one in spans[1:-1]} == {session[2]}
    assert session[4]["paddock.environment"] == "CartPole-v1" and session[4]["paddock.session"]
    assert [one[4]["paddock.replies"] for one in spans[1:-1]] == [1, 1, 3, 1, 3]
    assert all(session[5] <= one[5] <= one[6] <= session[6] for one in spans[1:-1])


@pytest.mark.peers
def test_the_sdk_costs_nothing_unless_someone_wants_spans():
    program = """
    import json, sys
    from paddock.server import service, telemetry
    print(json.dumps([not telemetry.begin_spans(), [one for one in sys.modules if "opentelemetry" in one]]))
    """
    assert run_with_peer("otel", program) == [True, []]


@pytest.mark.peers
def test_an_exporter_that_is_missing_is_named():
    program = """
    import json, os
    os.environ["OTEL_TRACES_EXPORTER"] = "otlp"
    from paddock.errors import PlanError
    from paddock.server import telemetry
    try:
        telemetry.begin_spans()
    except PlanError as error:
        said = str(error)
    os.environ["OTEL_TRACES_EXPORTER"] = "console"
    print(json.dumps([said, telemetry.begin_spans()]))
    """
    said, begun = run_with_peer("otel", program)
    assert "OTEL_TRACES_EXPORTER='otlp': no such exporter is installed" in said and begun
