import { expect, test } from "vitest";
import { chatSchema } from "../chat/schema.ts";
import { responsesSchema } from "../responses/schema.ts";
import { parseBody } from "./parse-body.ts";

test.for([
  [responsesSchema, {}, "model"],
  [responsesSchema, { model: "m" }, "input"],
  [responsesSchema, { model: "m", input: null }, "input"],
  [responsesSchema, { model: "m", input: [{ type: "function_call", name: "f", arguments: "{}" }] }, "input.0.call_id"],
  [chatSchema, { model: "m" }, "messages"],
  [chatSchema, { model: "m", messages: [{ role: "tool", content: "5" }] }, "messages.0.tool_call_id"],
] as const)("says that a field is required where it is missing: %#", ([schema, body, param]) => {
  const message = "This field is required.";
  const required = { code: "invalid_request", message, options: expect.objectContaining({ param }) };
  expect(() => parseBody(schema, body)).toThrow(expect.objectContaining(required));
});

test("says something else of a field that is there", () => {
  expect(() => parseBody(responsesSchema, { model: 1, input: "hi" })).toThrow(/expected string, received number/);
});
