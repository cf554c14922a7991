import os

from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.workflow import Context
from llama_index.llms.openai import OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

from check import MODEL, SUM_QUESTION, check

class Person(BaseModel):
    name: str
    age: int


settings = {
    "model": MODEL,
    "api_base": os.environ["OPENAI_BASE_URL"],
    "api_key": os.environ["OPENAI_API_KEY"],
    "context_window": 128_000,
}
llms = {
    "chat": OpenAILike(
        **settings,
        is_chat_model=True,
        is_function_calling_model=True,
        should_use_structured_outputs=True,
    ),
    "responses": OpenAIResponses(**settings),
}


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


for name, llm in llms.items():
    agent = FunctionAgent(tools=[add], llm=llm, system_prompt="Be brief.")

    @check("plain", f"{name}: complete")
    def complete():
        assert "Hello from LlamaIndex" in llm.complete("Hello from LlamaIndex").text

    @check("plain", f"{name}: chat")
    def chat():
        messages = [
            ChatMessage(role="system", content="Be brief."),
            ChatMessage(role="user", content="Hello from LlamaIndex"),
        ]
        assert "Hello from LlamaIndex" in llm.chat(messages).message.content

    @check("stream", f"{name}: stream")
    def stream():
        text = ""
        for part in llm.stream_chat([ChatMessage(role="user", content="Hello from LlamaIndex")]):
            text += part.delta
        assert "Hello from LlamaIndex" in text

    @check("tools", f"{name}: tool loop, streamed")
    async def tool_loop():
        text = ""
        handler = agent.run(SUM_QUESTION)
        async for event in handler.stream_events():
            if isinstance(event, AgentStream):
                text += event.delta
        assert "42" in str(await handler)
        assert "42" in text

    @check("tools", f"{name}: tool loop without a stream")
    async def tool_loop_not_streamed():
        whole = FunctionAgent(tools=[add], llm=llm, system_prompt="Be brief.", streaming=False)
        assert "42" in str(await whole.run(SUM_QUESTION))

    @check("tools", f"{name}: conversation")
    async def conversation():
        context = Context(agent)
        assert "42" in str(await agent.run(SUM_QUESTION, ctx=context))
        assert "And again" in str(await agent.run("And again", ctx=context))

    @check("structured", f"{name}: structured output")
    def structured():
        person = llm.as_structured_llm(Person).complete("Jason is 25 years old.").raw
        assert isinstance(person.age, int)
