import os

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from pydantic import BaseModel

from check import MODEL, SUM_QUESTION, check


class Person(BaseModel):
    name: str
    age: int


@tool("add")
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


def make_llm(**settings):
    return LLM(
        model=f"openai/{MODEL}",
        base_url=os.environ["OPENAI_BASE_URL"],
        api_key=os.environ["OPENAI_API_KEY"],
        **settings,
    )


def make_agent(llm):
    return Agent(role="Calculator", goal="Add numbers", backstory="You add numbers.", llm=llm, tools=[add])


def make_crew(**settings):
    agent = make_agent(make_llm())
    task = Task(description=SUM_QUESTION, expected_output="The sum.", agent=agent)
    return Crew(agents=[agent], tasks=[task], **settings)


@check("plain", "chat")
def chat():
    assert "Hello from CrewAI" in make_llm().call("Hello from CrewAI")


@check("stream", "stream")
def stream():
    assert "Hello from CrewAI" in make_llm(stream=True).call("Hello from CrewAI")


@check("tools", "agent: tool loop and conversation")
def agent_tool_loop():
    agent = make_agent(make_llm())
    messages = [{"role": "user", "content": SUM_QUESTION}]
    first = agent.kickoff(messages)
    assert "42" in first.raw
    messages += [{"role": "assistant", "content": first.raw}, {"role": "user", "content": "And again"}]
    second = agent.kickoff(messages)
    assert "And again" in second.raw


@check("tools", "crew: tool loop")
def crew_tool_loop():
    assert "42" in make_crew().kickoff().raw


@check("tools", "crew: tool loop, streamed")
def crew_tool_loop_streamed():
    streaming = make_crew(stream=True).kickoff()
    text = "".join(chunk.content for chunk in streaming)
    assert "42" in text
    assert "42" in streaming.result.raw


@check("structured", "structured output")
def structured():
    person = make_llm(response_format=Person).call("Jason is 25 years old.")
    if isinstance(person, str):
        person = Person.model_validate_json(person)
    assert isinstance(person.age, int)
