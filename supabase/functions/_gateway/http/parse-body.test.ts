import { expect, test } from "vitest";
import { chatSchema } from "../chat/schema.ts";
import { generateSchema } from "../generate/surface.ts";
import { responsesSchema } from "../responses/schema.ts";
import { speechSchema } from "../speech/request.ts";
import { parseBody } from "./parse-body.ts";

test.for([
  [responsesSchema, {}, "model"],
  [responsesSchema, { model: "m" }, "input"],
  [responsesSchema, { model: "m", input: null }, "input"],
  [responsesSchema, { model: "m", input: [{ type: "function_call", name: "f", arguments: "{}" }] }, "input.0.call_id"],
  [chatSchema, { model: "m" }, "messages"],
  [chatSchema, { model: "m", messages: [{ role: "tool", content: "5" }] }, "messages.0.tool_call_id"],
] as const)("reports a missing field as required (case %#)", ([schema, body, param]) => {
  const message = `${param} is required.`;
  const required = { code: "invalid_request", message, options: expect.objectContaining({ param }) };
  expect(() => parseBody(schema, body)).toThrow(expect.objectContaining(required));
});

test("reports the expected type of a field with a wrong type", () => {
  expect(() => parseBody(responsesSchema, { model: 1, input: "hi" })).toThrow("model must be a string.");
});

test.for(["constructor", "toString", "__proto__"])(
  "refuses an unknown field even if it has the name of a built-in property: %s",
  (name) => {
    const options = expect.objectContaining({ param: name });
    const unknown = { code: "invalid_request", message: `Unknown field: ${name}`, options };
    const body = JSON.parse(`{ "prompt": "hi", "input": "hi", "${name}": 1 }`);
    const { prompt, input, ...rest } = body;
    expect(() => parseBody(generateSchema, { prompt, ...rest })).toThrow(expect.objectContaining(unknown));
    expect(() => parseBody(speechSchema, { input, ...rest })).toThrow(expect.objectContaining(unknown));
  },
);

test.for([5, "x".repeat(513)])("reports what is wrong with a metadata member named type (case %#)", (type) => {
  const options = expect.objectContaining({ param: "metadata.type" });
  const body = { model: "m", input: "hi", metadata: { type } };
  const invalid = { code: "invalid_request", options };
  expect(() => parseBody(responsesSchema, body)).toThrow(expect.objectContaining(invalid));
});
