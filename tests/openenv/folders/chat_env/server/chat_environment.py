"""The history of a conversation; letters are tokens."""

from uuid import uuid4

from openenv_core.env_server import Environment

try:
    from ..models import ChatAction, ChatObservation, ChatState
except ImportError:
    from models import ChatAction, ChatObservation, ChatState


class Letters:
    """A tokenizer without a model."""

    def encode(self, text):
        return [ord(letter) for letter in text]

    def decode(self, tokens):
        return "".join(chr(token) for token in tokens)


class ChatEnvironment(Environment):
    """It needs a tokenizer, so the app has a factory."""

    def __init__(self, tokenizer, system_prompt=None, transform=None):
        super().__init__(transform=transform)
        self.tokenizer, self.system_prompt = tokenizer, system_prompt
        self._state = ChatState()

    def reset(self, seed=None, episode_id=None, **kwargs) -> ChatObservation:
        self._state = ChatState(episode_id=episode_id or str(uuid4()), step_count=0)
        if self.system_prompt:
            self._say("system", self.tokenizer.encode(self.system_prompt))
        return self._observe()

    def step(self, action: ChatAction, timeout_s=None, **kwargs) -> ChatObservation:
        self._state.step_count += 1
        self._say("user" if self._state.step_count % 2 else "assistant", action.tokens)
        return self._observe()

    def _say(self, role, tokens):
        self._state.history_messages.append({"role": role, "content": self.tokenizer.decode(tokens)})
        self._state.history_tokens.extend(tokens)

    def _observe(self):
        tokens = list(self._state.history_tokens)
        return self._apply_transform(ChatObservation(messages=list(self._state.history_messages), tokens=tokens))

    @property
    def state(self) -> ChatState:
        return self._state
