"""A session without a server: OpenEnv's frames to a Host in this process, as the server moves them."""

import json

from paddock.hosting import messages as m
from paddock.hosting.host import Host
from paddock.hosting.openenv import http_bodies, json_rpc, wire
from paddock.hosting.openenv import http_bodies as about
from paddock.hosting.openenv.wire import WireError, WireRequest, dump, parse_request
from paddock.server.openenv import Translator
from paddock.spaces.json_form import from_json


class Loopback:
    """``make``: a function that makes the environment."""

    def __init__(self, make, *, form="0.10"):
        self._make, self._form = make, form
        self.begin()

    def begin(self):
        """A new environment."""
        self.host = Host(lambda what: self._make())
        made = self.host.handle(m.Make(0, {}))
        assert isinstance(made, m.Done), made
        self.described = m.Description(**made.value)
        # As at the far end of a wire: spaces from their JSON.
        self.actions, self.observations = (
            None if text is None else from_json(text)
            for text in (self.described.action_space, self.described.observation_space)
        )
        self.translator = Translator(self.actions, self.observations, self.described.metadata, form=self._form)

    def ask(self, text):
        """The frame that answers; None for a close."""
        asked = parse_request(text)
        if isinstance(asked, WireError):
            return wire.error_frame(asked)
        if asked.kind == "close":
            return None
        if asked.kind == "mcp":
            request = json_rpc.read_data(asked.data)
            return wire.frame("mcp", request if isinstance(request, dict) else json_rpc.without_tools(request))
        request = self.translator.request(asked)
        if isinstance(request, WireError):
            return wire.error_frame(request)
        return self.translator.frame(asked, self.host.handle(request))

    def http(self, method, path, body):
        """[status, text] of a request; each has a new environment, as in OpenEnv."""
        self.begin()
        return self._status_and_text(self._http, path, body.encode())

    def _status_and_text(self, answer, *arguments):
        try:
            return [200, answer(*arguments).decode()]
        except http_bodies.HttpError as error:
            return [error.status, error.body.decode()]

    def _http(self, path, body):
        name, metadata = "EchoEnv", self.described.metadata
        if path == "/reset":
            return self._outcome(WireRequest("reset", http_bodies.reset_body(body)))
        if path == "/step":
            return self._outcome(WireRequest("step", http_bodies.step_body(body)["action"]))
        if path == "/state":
            return dump(self.translator.data(WireRequest("state"), self.host.handle(m.State(0))))
        if path == "/metadata":
            return about.metadata_body(name, metadata)
        if path == "/schema":
            return about.schema_body(self.actions, self.observations, metadata, self._form)
        if path == "/mcp":
            request = json_rpc.read(body)
            return dump(request if isinstance(request, dict) else self._rpc(request))
        if path == "/health":
            return b'{"status":"healthy"}'
        raise http_bodies.HttpError(404, "Not Found")

    def _rpc(self, request):
        if request.method == json_rpc.CLOSE:
            return json_rpc.session_unknown(request, request.session)
        return json_rpc.without_tools(request)

    def _outcome(self, asked):
        request = self.translator.request(asked)
        data = request if isinstance(request, WireError) else self.translator.data(asked, self.host.handle(request))
        if isinstance(data, WireError):
            raise http_bodies.HttpError(422, data.errors) if data.errors else http_bodies.HttpError(500, data.message)
        return http_bodies.outcome_body(data, self._form)

    def task(self, method, path, body):
        """[status, text] of a request to the Task API."""
        self.begin()
        if path == "/list_environments":
            return [200, json.dumps([self.described.metadata["openenv"]["name"]])]
        _, env_name, route = path.split("/")
        name = self.described.metadata["openenv"]["name"]
        return self._status_and_text(self._task, name, env_name, route, body.encode())

    def _task(self, name, env_name, route, body):
        if env_name.lower() != name.lower():
            raise http_bodies.HttpError(404, f"unknown environment {env_name!r}")
        called, arguments = http_bodies.TASK_METHODS[route]
        fields = http_bodies.split_body(body, *arguments[1:]) if arguments else {}
        given = [fields.get(argument) for argument in arguments]
        reply = self.host.handle(m.Call(0, "task", [called, *given]))
        if isinstance(reply, m.Failed):
            raise http_bodies.task_failure(route, reply.error_type)
        return http_bodies.task_answer(route, reply.value, name)


def replay(worlds, form):
    """The answers to all of ``capture``'s questions, by our own means."""
    from paddock.openenv import AsEnv
    from tests.openenv.capture import EXCHANGES, HTTP, TASKS

    classes = worlds.EchoAction, worlds.EchoObservation, worlds.State
    session = Loopback(lambda: AsEnv(worlds.EchoEnv, *classes), form=form)
    tasks = Loopback(lambda: AsEnv(worlds.TaskEnv, *classes), form=form)
    return {
        "frames": [session.ask(text) for text in EXCHANGES],
        "http": [session.http(*request) for request in HTTP],
        "tasks": [tasks.task(*request) for request in TASKS[:-1]] + [session.task(*TASKS[-1])],
    }
