import os

import anthropic
from pydantic import BaseModel

from check import MODEL, SUM_QUESTION, check

client = anthropic.Anthropic(
    base_url=os.environ["OPENAI_BASE_URL"].removesuffix("/v1"), api_key=os.environ["OPENAI_API_KEY"]
)
hello = [{"role": "user", "content": "Hello from anthropic-python"}]
add = {
    "name": "add",
    "description": "Add two numbers.",
    "input_schema": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
}


class Person(BaseModel):
    name: str
    age: int


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


@check("plain", "messages")
def messages():
    message = client.messages.create(model=MODEL, max_tokens=500, messages=hello)
    assert "Hello from anthropic-python" in text_of(message)
    assert message.usage.input_tokens > 0


@check("plain", "messages: count tokens")
def count_tokens():
    assert client.messages.count_tokens(model=MODEL, messages=hello).input_tokens > 0


@check("plain", "models")
def models():
    assert MODEL in [model.id for model in client.models.list()]


@check("plain", "errors")
def errors():
    try:
        client.messages.create(model="no-such-model", max_tokens=5, messages=hello)
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error"
        assert error.request_id == error.body["request_id"]
    else:
        raise AssertionError("not refused")


@check("stream", "messages: stream")
def stream():
    text = ""
    with client.messages.stream(model=MODEL, max_tokens=500, messages=hello) as events:
        for delta in events.text_stream:
            text += delta
        message = events.get_final_message()
    assert text_of(message) == text
    assert "Hello from anthropic-python" in text


@check("tools", "messages: tool loop and conversation")
def tool_loop():
    conversation = [{"role": "user", "content": SUM_QUESTION}]
    message = client.messages.create(model=MODEL, max_tokens=500, messages=conversation, tools=[add])
    conversation.append({"role": "assistant", "content": message.content})
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": str(block.input["a"] + block.input["b"])}
        for block in message.content
        if block.type == "tool_use"
    ]
    conversation.append({"role": "user", "content": results})
    message = client.messages.create(model=MODEL, max_tokens=500, messages=conversation, tools=[add])
    assert "42" in text_of(message)
    conversation.append({"role": "assistant", "content": message.content})
    conversation.append({"role": "user", "content": "And again"})
    message = client.messages.create(model=MODEL, max_tokens=500, messages=conversation, tools=[add])
    assert "And again" in text_of(message)


@check("structured", "messages: structured output")
def structured():
    message = client.messages.parse(model=MODEL, max_tokens=500, messages=hello, output_format=Person)
    assert isinstance(message.parsed_output.age, int)
