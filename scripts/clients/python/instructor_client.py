import instructor
from openai import OpenAI
from pydantic import BaseModel, field_validator

from check import MODEL, check

openai = OpenAI()
by_tools = instructor.from_openai(openai, mode=instructor.Mode.TOOLS)
by_schema = instructor.from_openai(openai, mode=instructor.Mode.JSON_SCHEMA)
hello = [{"role": "user", "content": "Jason is 25 years old."}]


class Person(BaseModel):
    name: str
    age: int


@check("plain", "without a response model")
def plain():
    completion = by_tools.chat.completions.create(model=MODEL, response_model=None, messages=hello)
    assert "Jason is 25" in completion.choices[0].message.content


@check("stream", "partial answers")
def stream():
    people = list(by_schema.chat.completions.create_partial(model=MODEL, response_model=Person, messages=hello))
    assert isinstance(people[-1].age, int)


@check("tools", "asks again after a failed validation")
def asks_again():
    attempts = []

    class CheckedPerson(Person):
        @field_validator("name")
        @classmethod
        def second_time(cls, name):
            attempts.append(name)
            if len(attempts) == 1:
                raise ValueError("Give the full name.")
            return name

    person = by_tools.chat.completions.create(
        model=MODEL, response_model=CheckedPerson, messages=hello, max_retries=2
    )
    assert person.name and len(attempts) == 2


for name, client in {"tools": by_tools, "JSON schema": by_schema}.items():

    @check("structured", f"structured output by {name}")
    def structured():
        person = client.chat.completions.create(model=MODEL, response_model=Person, messages=hello)
        assert isinstance(person.age, int)
