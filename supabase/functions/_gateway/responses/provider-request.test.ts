import { describe, expect, test } from "vitest";
import { kinds } from "../providers/kinds/registry.ts";
import { responsesProviderRequest } from "./provider-request.ts";
import { readResponses } from "./request.ts";

const hello = { model: "m", input: "hello" };
const route = { position: 1, provider: "demo", model: "upstream", prices: [] };
const workspaceId = "0b6b1a3e-0000-4000-8000-000000000000";

const sent = (body: object, kind = kinds.openai) => {
  const provider = { baseUrl: "https://provider.test/v1", kind, allowPrivate: false, drains: false };
  return JSON.parse(responsesProviderRequest(readResponses(body, 1_000), { route, provider, workspaceId }).body);
};
const refusal = (body: object) => {
  try {
    readResponses(body, 1_000);
  } catch (error) {
    return error;
  }
};
const user = (part: object) => ({ model: "m", input: [{ type: "message", role: "user", content: [part] }] });
const add = { type: "function", name: "add", parameters: { type: "object" } };

describe("Responses API requests that could change the bill", () => {
  // `auto` is "processed with the service tier configured in the Project settings" (openai-node, responses.ts,
  // `service_tier`).
  test("a Responses API request is sent with OpenAI's default service tier if the client leaves the choice of tier open", () => {
    expect(sent({ ...hello, service_tier: "auto" }).service_tier).toBe("default");
  });

  // OpenRouter fetches a URL in `file_data`: https://openrouter.ai/docs/guides/overview/multimodal/pdfs
  test.for(["https://example.com/a.pdf", "HTTP://example.com/a.pdf", "//example.com/a.pdf"])(
    "refuses a URL as a file's content: %s",
    (url) => {
      const body = user({ type: "input_file", filename: "a.pdf", file_data: url });
      expect(refusal(body)).toMatchObject({ status: 400 });
    },
  );

  // vLLM runs a template that the request contains: github.com/vllm-project/vllm/pull/25794
  test("a request can't make the server run a template that the client sends", () => {
    const body = { ...hello, chat_template_kwargs: { chat_template: "{{ 1 }}" } };
    expect(refusal(body) ?? sent(body, kinds.vllm).chat_template_kwargs ?? {}).not.toHaveProperty("chat_template");
  });
});

describe("Requests that real clients send", () => {
  // `original` is a value of `ImageDetail` (openai-node, responses.ts). Codex sends this value for screenshots:
  // github.com/vercel/ai/issues/14998.
  const image = { type: "input_image", image_url: "data:image/png;base64,iVBORw0KGgo=", detail: "original" };

  test("accepts an image with `detail: original` in a message", () => {
    expect(sent(user(image)).input).toEqual(user(image).input);
  });

  test.for(["function_call_output", "custom_tool_call_output"])(
    "accepts an image with `detail: original` in a %s",
    (type) => {
      const input = [{ type, call_id: "c", output: [image] }];
      expect(sent({ model: "m", input }).input).toEqual(input);
    },
  );
});

// `AgentMessage` and `FunctionCallOutputContentItem` of github.com/openai/codex, codex-rs/protocol/src/models.rs. Also
// github.com/envoyproxy/ai-gateway/pull/2455.
describe("Messages between Codex's agents reach the provider", () => {
  const content = [
    { type: "input_text", text: "Look at the tests." },
    { type: "encrypted_content", encrypted_content: "c2VjcmV0" },
  ];

  test.for<[string, object]>([
    ["a message from an agent", { type: "agent_message", author: "/root", recipient: "/root/tests", content }],
    ["an encrypted part of a tool result", { type: "function_call_output", call_id: "c", output: content }],
  ])("passes %s to the provider", ([, item]) => {
    expect(sent({ model: "m", input: [item] }).input).toEqual([item]);
  });
});

describe("refusals of unsupported Responses API parameters", () => {
  test.for<[string, object, string]>([
    ["a file given by its URL", user({ type: "input_file", file_url: "https://example.com/a.pdf" }), "file_data"],
    ["an image given only by its id", user({ type: "input_image", file_id: "file-1", detail: "auto" }), "content"],
    ["a mode that produces several answers", { ...hello, reasoning: { mode: "pro" } }, "effort"],
    [
      "a tool choice that names a hosted tool",
      { ...hello, tools: [add], tool_choice: { type: "web_search" } },
      "function",
    ],
    [
      "a tool choice that names an MCP server",
      { ...hello, tools: [add], tool_choice: { type: "mcp", server_label: "a" } },
      "function",
    ],
  ])("refuses %s and says what to do", ([, body, cure]) => {
    expect(refusal(body)).toMatchObject({ code: "unsupported_parameter", message: expect.stringContaining(cure) });
  });
});
