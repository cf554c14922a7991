import { describe, expect, test } from "vitest";
import type { ProviderTarget } from "../calls/surface.ts";
import { parseWithSource } from "../http/source-json.ts";
import { kinds } from "../providers/kinds/registry.ts";
import { chatProviderRequest } from "./provider-request.ts";
import { readChat } from "./request.ts";

const hello = { model: "m", messages: [{ role: "user", content: "hello" }] };
const route = { position: 1, provider: "demo", model: "upstream", prices: [] };
const workspaceId = "0b6b1a3e-0000-4000-8000-000000000000";

const sent = (body: object, kind = kinds.openai) => {
  const provider = { baseUrl: "https://provider.test/v1", kind, allowPrivate: false, drains: false };
  return JSON.parse(text(body, provider));
};
const text = (body: object, provider: ProviderTarget["provider"]) =>
  chatProviderRequest(readChat(body, 1_000), { route, provider, workspaceId }).body;
const user = (part: object) => ({ model: "m", messages: [{ role: "user", content: [part] }] });
const refusal = (body: object) => {
  try {
    readChat(body, 1_000);
  } catch (error) {
    return error;
  }
};

describe("Requests that could change the bill", () => {
  // OpenAI processes `auto` "with the service tier configured in the Project settings": openai-node, completions.ts,
  // `service_tier`.
  test("sends OpenAI the tier `default` instead of `auto`, which would let the project's settings decide", () => {
    expect(sent({ ...hello, service_tier: "auto" }).service_tier).toBe("default");
  });

  // OpenRouter fetches a URL in `file_data`: https://openrouter.ai/docs/guides/overview/multimodal/pdfs
  test.for([
    "https://example.com/a.pdf",
    "http://example.com/a.pdf",
    "HTTPS://example.com/a.pdf",
    "gs://bucket/a.pdf",
    "//example.com/a.pdf",
  ])("refuses a URL as a file's content: %s", (file_data) => {
    expect(refusal(user({ type: "file", file: { filename: "a.pdf", file_data } }))).toMatchObject({ status: 400 });
  });

  test.for(["data:application/pdf;base64,JVBERi0=", "JVBERi0=", "JVBE\r\nRi0_"])(
    "accepts file data in a chat: %s",
    (file_data) => {
      const body = user({ type: "file", file: { filename: "a.pdf", file_data } });
      expect(sent(body).messages).toEqual(body.messages);
    },
  );

  // The page https://openrouter.ai/docs/client-sdks/typescript/models/reasoningconfig documents `mode`.
  test("a chat's reasoning mode never reaches OpenRouter, because the mode generates several answers", () => {
    const reasoning = { effort: "high", mode: "pro" };
    const body = { ...hello, reasoning };
    expect(refusal(body) ?? sent(body, kinds.openrouter).reasoning).not.toMatchObject(reasoning);
  });
});

// `chat_template` makes the server run the client's own template, and `tokenize` blocks the server:
// github.com/vllm-project/vllm/pull/25794.
describe("the chat_template_kwargs field of a request to vLLM", () => {
  test.for(["chat_template", "tokenize"])("chat_template_kwargs is sent without %s", (name) => {
    const body = { ...hello, chat_template_kwargs: { enable_thinking: false, [name]: "{{ 1 }}" } };
    expect(refusal(body) ?? sent(body, kinds.vllm).chat_template_kwargs ?? {}).not.toHaveProperty(name);
  });

  test("chat_template_kwargs keeps enable_thinking, a setting of the model's own template", () => {
    const chat_template_kwargs = { enable_thinking: false };
    expect(sent({ ...hello, chat_template_kwargs }, kinds.vllm)).toMatchObject({ chat_template_kwargs });
  });
});

describe("Requests that real clients send", () => {
  const call = { id: "t1", type: "function", function: { name: "look", arguments: "{}" } };

  // Tool results with images: github.com/64bit/async-openai/issues/568, github.com/VectifyAI/OpenKB/issues/242 (OpenAI
  // Agents SDK).
  test.for([
    { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } },
    { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERi0=" } },
  ])("accepts a tool result of type $type", (part) => {
    const messages = [
      { role: "user", content: "look" },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "t1", content: [{ type: "text", text: "here" }, part] },
    ];
    expect(sent({ model: "m", messages }).messages[2]).toEqual(messages[2]);
    expect(readChat({ model: "m", messages }, 1_000).images).toBe(part.type === "image_url" ? 1 : 0);
  });

  // Xcode sends an empty list with every call: github.com/local-inference-lab/vllm/pull/193.
  test("leaves out an empty list of tools, along with all other tool settings", () => {
    const body = sent({ ...hello, tools: [], tool_choice: "auto", parallel_tool_calls: true });
    for (const name of ["tools", "tool_choice", "parallel_tool_calls"]) expect(body).not.toHaveProperty(name);
  });

  // Clients return the `thinking` part with the message: https://docs.mistral.ai/inference/conversations/reasoning
  test("returns Mistral's reasoning to Mistral in its original message part", () => {
    const thinking = { type: "thinking", thinking: [{ type: "text", text: "Six times seven." }], closed: true };
    const said = { role: "assistant", content: [thinking, { type: "text", text: "42" }] };
    const messages = [...hello.messages, said, ...hello.messages];
    expect(sent({ model: "m", messages }, kinds.mistral).messages[1]).toEqual(said);
  });

  // "reasoning_effort must be one of none or default": github.com/earendil-works/pi/issues/1745.
  test("accepts the reasoning effort `default` for Groq", () => {
    expect(sent({ ...hello, reasoning_effort: "default" }, kinds.groq).reasoning_effort).toBe("default");
  });

  // "The 'metadata' parameter is only allowed when 'store' is enabled": github.com/QwenLM/qwen-code/issues/243.
  test("doesn't send metadata to OpenAI, which accepts it only with storage enabled", () => {
    expect(sent({ ...hello, metadata: { a: "b" }, store: false })).not.toHaveProperty("metadata");
  });
});

describe("errors for refused chat messages", () => {
  test("refuses a message that refers to stored audio, and says what to do", () => {
    const messages = [{ role: "assistant", content: null, audio: { id: "audio_1" } }];
    expect(refusal({ model: "m", messages })).toMatchObject({ code: "unsupported_parameter" });
  });

  test("refuses a tool result with the deprecated role `function`, and says what to do", () => {
    const messages = [...hello.messages, { role: "function", name: "add", content: "5" }];
    expect(refusal({ model: "m", messages })).toMatchObject({ message: expect.stringContaining("tool") });
    expect(refusal({ model: "m", messages })).toMatchObject({ code: "unsupported_parameter" });
  });
});

describe("a tool's schema keeps its numbers as written", () => {
  const provider = { baseUrl: "https://provider.test/v1", kind: kinds.openai, allowPrivate: false, drains: false };

  test.for([
    ["a member occurs twice in another object", '"user","role":"user"', '{"maximum":9223372036854775807}'],
    ["it has a member named toJSON", '"user"', '{"toJSON":"x","maximum":9223372036854775807}'],
  ] as const)("a tool's schema keeps its numbers as written if %s", ([, role, parameters]) => {
    const messages = `[{"role":${role},"content":"hello"}]`;
    const tools = `[{"type":"function","function":{"name":"f","parameters":${parameters}}}]`;
    const body = parseWithSource(`{"model":"m","messages":${messages},"tools":${tools}}`) as object;
    expect(text(body, provider)).toContain(parameters);
  });
});
