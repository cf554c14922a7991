import { expect, test } from "vitest";
import { readMessage } from "./completion.ts";

test("returns a message with tool calls to the provider unchanged", () => {
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
    output: [message],
    toolCalls: [{ id: "t", name: "calculator", arguments: "{}" }],
  });
});

// GLM sends null for a call without arguments (https://github.com/braintrustdata/braintrust-sdk-javascript/pull/1061).
test.for<[object, object]>([
  [
    { id: "t", function: { name: "current_time", arguments: null } },
    { id: "t", name: "current_time", arguments: "" },
  ],
  [
    { id: null, function: { name: "current_time" } },
    { id: "", name: "current_time", arguments: "" },
  ],
])("reads a tool call with the arguments %j as a call without arguments", ([call, read]) => {
  const message = { role: "assistant", content: null, tool_calls: [call] };
  expect(readMessage({ choices: [{ message }] })).toEqual({ output: [message], toolCalls: [read] });
});

test.for([{}, { choices: [] }, { choices: [{}] }, { choices: [{ message: "x" }] }])(
  "reads no message from %j",
  (answer) => {
    expect(readMessage(answer)).toEqual({ output: [], toolCalls: [] });
  },
);
