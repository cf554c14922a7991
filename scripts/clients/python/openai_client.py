import json

import openai
from openai import OpenAI
from pydantic import BaseModel

from check import MODEL, SUM_QUESTION, check

client = OpenAI()
hello = [{"role": "user", "content": "Hello from openai-python"}]


class Person(BaseModel):
    name: str
    age: int


class add(BaseModel):
    """Add two numbers."""

    a: float
    b: float


def run_add(arguments):
    numbers = json.loads(arguments)
    return json.dumps({"sum": numbers["a"] + numbers["b"]})


@check("plain", "chat")
def chat():
    completion = client.chat.completions.create(model=MODEL, messages=hello)
    assert "Hello from openai-python" in completion.choices[0].message.content
    assert completion.usage.total_tokens > 0


@check("stream", "chat: stream")
def chat_stream():
    text = ""
    for chunk in client.chat.completions.create(model=MODEL, messages=hello, stream=True):
        if chunk.choices[0].delta.content is not None:
            text += chunk.choices[0].delta.content
    assert "Hello from openai-python" in text


@check("stream", "chat: stream with usage")
def chat_stream_with_usage():
    text = ""
    usage = None
    stream = client.chat.completions.create(
        model=MODEL, messages=hello, stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
        if chunk.usage:
            usage = chunk.usage
    assert "Hello from openai-python" in text
    assert usage.total_tokens > 0


@check("stream", "chat: stream helper")
def chat_stream_helper():
    text = ""
    with client.chat.completions.stream(model=MODEL, messages=hello) as stream:
        for event in stream:
            if event.type == "content.delta":
                text += event.delta
        completion = stream.get_final_completion()
    assert completion.choices[0].message.content == text
    assert "Hello from openai-python" in text


def chat_tool_loop(as_history):
    messages = [{"role": "user", "content": SUM_QUESTION}]
    tools = [openai.pydantic_function_tool(add)]
    for _ in range(5):
        message = client.chat.completions.create(model=MODEL, messages=messages, tools=tools).choices[0].message
        messages.append(as_history(message))
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": run_add(call.function.arguments)})
    assert "42" in message.content
    messages.append({"role": "user", "content": "And again"})
    completion = client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
    assert "And again" in completion.choices[0].message.content


@check("tools", "chat: tool loop and conversation")
def chat_tool_loop_with_messages():
    chat_tool_loop(lambda message: message)


@check("tools", "chat: tool loop and conversation, history by model_dump()")
def chat_tool_loop_with_dumps():
    chat_tool_loop(lambda message: message.model_dump())


@check("tools", "chat: parse(), and its message as history")
def chat_parse():
    messages = [{"role": "user", "content": SUM_QUESTION}]
    completion = client.chat.completions.parse(
        model=MODEL, messages=messages, tools=[openai.pydantic_function_tool(add)]
    )
    message = completion.choices[0].message
    call = message.tool_calls[0]
    assert (call.function.parsed_arguments.a, call.function.parsed_arguments.b) == (17, 25)
    messages.append(message)
    messages.append({"role": "tool", "tool_call_id": call.id, "content": "42"})
    completion = client.chat.completions.parse(
        model=MODEL, messages=messages, tools=[openai.pydantic_function_tool(add)]
    )
    assert "42" in completion.choices[0].message.content


@check("plain", "responses")
def responses():
    response = client.responses.create(model=MODEL, instructions="Be brief.", input="Hello from openai-python")
    assert "Hello from openai-python" in response.output_text


@check("stream", "responses: stream")
def responses_stream():
    text = ""
    for event in client.responses.create(model=MODEL, input="Hello from openai-python", stream=True):
        if event.type == "response.output_text.delta":
            text += event.delta
    assert "Hello from openai-python" in text


@check("tools", "responses: tool loop and conversation")
def responses_tool_loop():
    parameters = {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    tools = [
        {
            "type": "function",
            "name": "add",
            "description": "Add two numbers.",
            "parameters": parameters,
            "strict": True,
        }
    ]
    input_list = [{"role": "user", "content": SUM_QUESTION}]
    response = client.responses.create(model=MODEL, tools=tools, input=input_list)
    input_list += response.output
    for item in response.output:
        if item.type == "function_call":
            input_list.append(
                {"type": "function_call_output", "call_id": item.call_id, "output": run_add(item.arguments)}
            )
    response = client.responses.create(model=MODEL, tools=tools, input=input_list)
    assert "42" in response.output_text
    input_list += response.output
    input_list.append({"role": "user", "content": "And again"})
    response = client.responses.create(model=MODEL, tools=tools, input=input_list)
    assert "And again" in response.output_text


@check("structured", "chat: structured output")
def chat_structured():
    completion = client.chat.completions.parse(model=MODEL, messages=hello, response_format=Person)
    assert isinstance(completion.choices[0].message.parsed.age, int)


@check("structured", "responses: structured output")
def responses_structured():
    response = client.responses.parse(model=MODEL, input="Jason is 25 years old.", text_format=Person)
    assert isinstance(response.output_parsed.age, int)
