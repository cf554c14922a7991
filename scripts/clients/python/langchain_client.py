from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy
from langchain.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from check import MODEL, SUM_QUESTION, check


@tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


class Person(BaseModel):
    name: str
    age: int


llm = ChatOpenAI(model=MODEL)
agent = create_agent(llm, tools=[add], system_prompt="Be brief.")


@check("plain", "chat")
def chat():
    answer = llm.invoke([("system", "Be brief."), ("human", "Hello from LangChain")])
    assert "Hello from LangChain" in answer.text
    assert answer.usage_metadata["total_tokens"] > 0


def read_stream(stream_usage):
    text = ""
    usage = None
    for chunk in ChatOpenAI(model=MODEL, stream_usage=stream_usage).stream("Hello from LangChain"):
        text += chunk.text
        usage = chunk.usage_metadata or usage
    assert "Hello from LangChain" in text
    return usage


@check("stream", "stream")
def stream():
    read_stream(stream_usage=None)


@check("stream", "stream with usage")
def stream_with_usage():
    assert read_stream(stream_usage=True)["total_tokens"] > 0


@check("stream", "stream without usage")
def stream_without_usage():
    read_stream(stream_usage=False)


@check("tools", "tool loop")
def tool_loop():
    result = agent.invoke({"messages": [{"role": "user", "content": SUM_QUESTION}]})
    assert "42" in result["messages"][-1].text


@check("tools", "tool loop, streamed")
def tool_loop_streamed():
    text = ""
    messages = [{"role": "user", "content": SUM_QUESTION}]
    for token, metadata in agent.stream({"messages": messages}, stream_mode="messages"):
        if metadata["langgraph_node"] != "tools":
            text += token.text
    assert "42" in text


@check("tools", "conversation")
def conversation():
    first = agent.invoke({"messages": [{"role": "user", "content": SUM_QUESTION}]})
    again = {"role": "user", "content": "And again"}
    second = agent.invoke({"messages": [*first["messages"], again]})
    assert "And again" in second["messages"][-1].text


@check("tools", "responses: tool loop and conversation")
def responses():
    responses_agent = create_agent(ChatOpenAI(model=MODEL, use_responses_api=True), tools=[add])
    first = responses_agent.invoke({"messages": [{"role": "user", "content": SUM_QUESTION}]})
    assert "42" in first["messages"][-1].text
    again = {"role": "user", "content": "And again"}
    second = responses_agent.invoke({"messages": [*first["messages"], again]})
    assert "And again" in second["messages"][-1].text


for name, chat_model in {"chat": llm, "responses": ChatOpenAI(model=MODEL, use_responses_api=True)}.items():

    @check("structured", f"{name}: structured output")
    def structured():
        person = chat_model.with_structured_output(Person).invoke("Jason is 25 years old.")
        assert isinstance(person.age, int)


@check("structured", "agent with a response format")
def agent_structured():
    structured_agent = create_agent(llm, tools=[add], response_format=ProviderStrategy(Person))
    result = structured_agent.invoke({"messages": [{"role": "user", "content": "Jason is 25 years old."}]})
    assert isinstance(result["structured_response"].age, int)
