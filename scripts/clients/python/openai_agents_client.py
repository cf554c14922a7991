from agents import Agent, Runner, function_tool, set_default_openai_api, set_tracing_disabled
from openai.types.responses import ResponseTextDeltaEvent
from pydantic import BaseModel

from check import MODEL, SUM_QUESTION, check

set_tracing_disabled(True)


class Person(BaseModel):
    name: str
    age: int


@function_tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


async def read_stream(agent, prompt):
    result = Runner.run_streamed(agent, input=prompt)
    text = ""
    async for event in result.stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            text += event.data.delta
    return text


for api in ["chat_completions", "responses"]:
    set_default_openai_api(api)
    agent = Agent(name="Assistant", instructions="Be brief.", model=MODEL, tools=[add])

    @check("plain", f"{api}: chat")
    async def chat():
        result = await Runner.run(agent, "Hello from the Agents SDK")
        assert "Hello from the Agents SDK" in result.final_output

    @check("stream", f"{api}: stream")
    async def stream():
        assert "Hello from the Agents SDK" in await read_stream(agent, "Hello from the Agents SDK")

    @check("tools", f"{api}: tool loop")
    async def tool_loop():
        result = await Runner.run(agent, SUM_QUESTION)
        assert "42" in result.final_output

    @check("tools", f"{api}: tool loop, streamed")
    async def tool_loop_streamed():
        assert "42" in await read_stream(agent, SUM_QUESTION)

    @check("tools", f"{api}: conversation")
    async def conversation():
        first = await Runner.run(agent, SUM_QUESTION)
        again = {"role": "user", "content": "And again"}
        second = await Runner.run(agent, first.to_input_list() + [again])
        assert "And again" in second.final_output

    @check("structured", f"{api}: structured output")
    async def structured():
        reader = Agent(name="Reader", model=MODEL, output_type=Person)
        result = await Runner.run(reader, "Jason is 25 years old.")
        assert isinstance(result.final_output.age, int)
