import { expect, test } from "vitest";
import { saidInResponse } from "./events.ts";

const message = { type: "message", content: [{ type: "output_text", text: "Let me look." }] };

test.for(["function_call", "custom_tool_call", "tool_search_call"])(
  "finds no final answer in a response that ends in a %s, even if a message precedes it",
  (type) => {
    expect(saidInResponse({ output: [message, { type, call_id: "c1" }] })).toEqual([]);
    expect(saidInResponse({ output: [message] })).toEqual(["Let me look."]);
  },
);
