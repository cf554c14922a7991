import instructor
from pydantic import BaseModel, field_validator

from check import MODEL, check

client = instructor.from_provider(f"openai/{MODEL}")
hello = [{"role": "user", "content": "Jason is 25 years old."}]


class User(BaseModel):
    name: str
    age: int


@check("chat")
def chat():
    user = client.create(response_model=User, messages=hello)
    assert isinstance(user.age, int)


@check("stream")
def stream():
    users = list(client.create_partial(response_model=User, messages=hello))
    assert isinstance(users[-1].age, int)


@check("tool loop: asks again after a failed validation")
def asks_again():
    attempts = []

    class CheckedUser(User):
        @field_validator("name")
        @classmethod
        def second_time(cls, name):
            attempts.append(name)
            if len(attempts) == 1:
                raise ValueError("Give the full name.")
            return name

    user = client.create(response_model=CheckedUser, messages=hello, max_retries=2)
    assert user.name and len(attempts) == 2
