import json
import os

import litellm
from pydantic import BaseModel

from check import MODEL, SUM_QUESTION, check

hello = [{"role": "user", "content": "Hello from LiteLLM"}]
tools = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            },
        },
    }
]


class Person(BaseModel):
    name: str
    age: int


def complete(messages, **settings):
    return litellm.completion(
        model=f"openai/{MODEL}",
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key=os.environ["OPENAI_API_KEY"],
        messages=messages,
        **settings,
    )


@check("plain", "chat")
def chat():
    completion = complete(hello)
    assert "Hello from LiteLLM" in completion.choices[0].message.content
    assert completion.usage.total_tokens > 0


@check("stream", "stream")
def stream():
    chunks = list(complete(hello, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "Hello from LiteLLM" in text
    assert litellm.stream_chunk_builder(chunks).usage.total_tokens > 0


def tool_loop(ask):
    messages = [{"role": "user", "content": SUM_QUESTION}]
    message = ask(messages)
    messages.append(message)
    for call in message.tool_calls:
        numbers = json.loads(call.function.arguments)
        result = json.dumps({"sum": numbers["a"] + numbers["b"]})
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    message = ask(messages)
    assert "42" in message.content
    messages += [message, {"role": "user", "content": "And again"}]
    assert "And again" in ask(messages).content


@check("tools", "tool loop and conversation")
def tools_not_streamed():
    tool_loop(lambda messages: complete(messages, tools=tools).choices[0].message)


@check("tools", "tool loop and conversation, streamed")
def tools_streamed():
    def ask(messages):
        chunks = list(complete(messages, tools=tools, stream=True))
        return litellm.stream_chunk_builder(chunks).choices[0].message

    tool_loop(ask)


@check("structured", "structured output")
def structured():
    completion = complete(hello, response_format=Person)
    assert isinstance(Person.model_validate_json(completion.choices[0].message.content).age, int)


@check("plain", "responses")
def responses():
    response = litellm.responses(
        model=f"openai/{MODEL}",
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key=os.environ["OPENAI_API_KEY"],
        input="Hello from LiteLLM",
    )
    assert "Hello from LiteLLM" in response.output[-1].content[0].text
