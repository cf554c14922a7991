import os

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from check import MODEL, SUM_QUESTION, check

provider = OpenAIProvider(base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])


class Person(BaseModel):
    name: str
    age: int


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


for name, model_class in {"chat": OpenAIChatModel, "responses": OpenAIResponsesModel}.items():
    agent = Agent(model_class(MODEL, provider=provider), instructions="Be brief.")
    agent.tool_plain(add)

    @check("plain", f"{name}: chat")
    def chat():
        result = agent.run_sync("Hello from Pydantic AI")
        assert "Hello from Pydantic AI" in result.output
        assert result.usage.total_tokens > 0

    @check("stream", f"{name}: stream")
    def stream():
        text = ""
        response = agent.run_stream_sync("Hello from Pydantic AI")
        for delta in response.stream_text(delta=True):
            text += delta
        assert "Hello from Pydantic AI" in text

    @check("tools", f"{name}: tool loop")
    def tool_loop():
        result = agent.run_sync(SUM_QUESTION)
        assert "42" in result.output

    @check("tools", f"{name}: tool loop, streamed")
    def tool_loop_streamed():
        text = ""
        response = agent.run_stream_sync(SUM_QUESTION)
        for delta in response.stream_text(delta=True):
            text += delta
        assert "42" in text

    @check("tools", f"{name}: conversation")
    def conversation():
        first = agent.run_sync(SUM_QUESTION)
        second = agent.run_sync("And again", message_history=first.all_messages())
        assert "And again" in second.output

    @check("structured", f"{name}: structured output")
    def structured():
        reader = Agent(model_class(MODEL, provider=provider), output_type=NativeOutput(Person))
        assert isinstance(reader.run_sync("Jason is 25 years old.").output.age, int)
