import os

from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.workflow import Context
from llama_index.llms.openai import OpenAIResponses

from check import MODEL, SUM_QUESTION, check

llm = OpenAIResponses(
    model=MODEL,
    api_base=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
    context_window=128_000,
)


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


agent = FunctionAgent(tools=[add], llm=llm, system_prompt="Be brief.")


@check("complete")
def complete():
    assert "Hello from LlamaIndex" in llm.complete("Hello from LlamaIndex").text


@check("chat")
def chat():
    messages = [
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content="Hello from LlamaIndex"),
    ]
    assert "Hello from LlamaIndex" in llm.chat(messages).message.content


@check("stream")
def stream():
    text = ""
    for part in llm.stream_chat([ChatMessage(role="user", content="Hello from LlamaIndex")]):
        text += part.delta
    assert "Hello from LlamaIndex" in text


@check("tool loop, streamed")
async def tool_loop():
    text = ""
    handler = agent.run(SUM_QUESTION)
    async for event in handler.stream_events():
        if isinstance(event, AgentStream):
            text += event.delta
    assert "42" in str(await handler)
    assert "42" in text


@check("tool loop without a stream")
async def tool_loop_not_streamed():
    whole = FunctionAgent(tools=[add], llm=llm, system_prompt="Be brief.", streaming=False)
    assert "42" in str(await whole.run(SUM_QUESTION))


@check("conversation")
async def conversation():
    context = Context(agent)
    assert "42" in str(await agent.run(SUM_QUESTION, ctx=context))
    assert "And again" in str(await agent.run("And again", ctx=context))
