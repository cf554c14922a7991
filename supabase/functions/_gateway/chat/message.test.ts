import { expect, test } from "vitest";
import { readMessage } from "./message.ts";

test("a message with tool calls goes back to the provider as it came", () => {
  const message = {
    role: "assistant",
    content: "",
    reasoning_content: "thinking",
    tool_calls: [
      {
        id: "t",
        type: "function",
        function: { name: "calculator", arguments: "{}" },
        extra_content: { google: { thought_signature: "c2ln" } },
      },
    ],
  };
  expect(readMessage({ choices: [{ index: 0, message }] })).toEqual({
    said: [message],
    toolCalls: [{ id: "t", name: "calculator", arguments: "{}" }],
  });
});

test.for([{}, { choices: [] }, { choices: [{}] }, { choices: [{ message: "x" }] }])("%j says nothing", (answer) => {
  expect(readMessage(answer)).toEqual({ said: [], toolCalls: [] });
});
