import { describe, expect, test } from "vitest";
import { parseWithSource } from "../http/source-json.ts";
import { messagesProviderRequest, readCountTokens, readMessages } from "./request.ts";

const user = (content: unknown) => ({ role: "user", content });
const hello = { model: "m", max_tokens: 100, messages: [user("hello")] };
const route = { position: 1, provider: "demo", model: "upstream", prices: [] };
const none = new Headers();

const read = (body: object, bytes = 1_000, headers = none) => readMessages(body, bytes, headers);
const sent = (body: object) => JSON.parse(messagesProviderRequest(read(body), { route }).body);

function refusal(body: object, headers = none): { code: string; param?: string } {
  try {
    read(body, 1_000, headers);
  } catch (error) {
    const { code, options } = error as { code: string; options: { param?: string } };
    return { code, param: options.param };
  }
  throw new Error("not refused");
}

const search = (fields: object) => ({ type: "web_search_20250305", name: "web_search", ...fields });
const fetching = (fields: object) => ({ type: "web_fetch_20250910", name: "web_fetch", ...fields });
/**
 * Returns the result of a web fetch. Its `content` has the type `BetaWebFetchBlockParam` in
 * src/resources/beta/messages/messages.ts of github.com/anthropics/anthropic-sdk-typescript.
 */
const fetched = (source: object) => ({
  type: "web_fetch_tool_result",
  tool_use_id: "t",
  content: { type: "web_fetch_result", url: "https://a.test", content: { type: "document", source } },
});
const png = { type: "base64", media_type: "image/png", data: "A".repeat(4_000) };

describe("Body of a Messages API request", () => {
  test("a Messages API request body reaches the provider unchanged, except for the route's model and the removed `platform`", () => {
    const body = {
      ...hello,
      system: [{ type: "text", text: "s", cache_control: { type: "ephemeral", ttl: "1h" } }],
      messages: [
        user([{ type: "text", text: "t", citations: null }]),
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "h", signature: "s" },
            { type: "tool_use", id: "t", name: "f", input: { a: 1 } },
          ],
        },
        user([
          { type: "tool_result", tool_use_id: "t", content: [{ type: "text", text: "r" }], is_error: false },
          { type: "search_result", source: "s", title: "t", content: [{ type: "text", text: "r" }] },
          fetched({ type: "text", media_type: "text/plain", data: "page" }),
          { type: "web_fetch_tool_result", tool_use_id: "u", content: { type: "web_fetch_tool_result_error" } },
        ]),
      ],
      tools: [{ name: "f", input_schema: { type: "object" }, eager_input_streaming: true }],
      tool_choice: { type: "auto", disable_parallel_tool_use: true },
      thinking: { type: "adaptive", display: "omitted" },
      output_config: { effort: "high" },
      context_management: { edits: [{ type: "clear_tool_uses_20250919" }] },
      metadata: { user_id: "u" },
      service_tier: "standard_only",
      stop_sequences: ["x"],
      top_k: 5,
      stream: true,
    };
    expect(sent({ ...body, platform: {} })).toEqual({ ...body, model: "upstream" });
  });

  test("keeps the numbers and names in a Messages API request as the client wrote them", () => {
    const text = `{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"2":9223372036854775807,"1":1.0}}]}]}`;
    const { body } = messagesProviderRequest(read(parseWithSource(text) as object), { route });
    expect(body).toContain('{"2":9223372036854775807,"1":1.0}');
  });

  test("leaves out members that the Messages API does not have, and reports their names", () => {
    const { ignored } = read({ ...hello, top_a: 1, diagnostics: { previous_message_id: "msg_1" } });
    expect(ignored).toEqual(["top_a", "diagnostics"]);
    expect(sent({ ...hello, top_a: 1 })).not.toHaveProperty("top_a");
  });

  // Clients send the empty lists of their settings: anthropics/anthropic-sdk-typescript, BetaMessageCreateParams.
  test.for(["mcp_servers", "fallbacks"])("leaves out the empty list %s without reporting it", (name) => {
    const request = { ...hello, [name]: [] };
    expect(read(request).ignored).toEqual([]);
    expect(sent(request)).not.toHaveProperty(name);
  });

  test.for<[string, object]>([
    ["container", { container: "c" }],
    ["mcp_servers", { mcp_servers: [{ type: "url", name: "s", url: "https://mcp.test" }] }],
    ["inference_geo", { inference_geo: "us" }],
    ["speed", { speed: "fast" }],
    ["fallbacks", { fallbacks: [{ model: "other" }] }],
    ["service_tier", { service_tier: "priority" }],
    ["context_management.edits.0.type", { context_management: { edits: [{ type: "compact_20260112" }] } }],
    ["tools.0.type", { tools: [{ type: "code_execution_20250825", name: "code_execution" }] }],
    ["tools.1.type", { tools: [search({ max_uses: 1 }), { type: "advisor_20260301", name: "advisor", model: "m" }] }],
    ["tools.0.type", { tools: [{ type: "mcp_toolset", mcp_server_name: "s" }] }],
    [
      "messages.0.content.0.source.file_id",
      { messages: [user([{ type: "image", source: { type: "file", file_id: "f" } }])] },
    ],
    [
      "messages.0.content.0.source.url",
      { messages: [user([{ type: "document", source: { type: "url", url: "https://a.test" } }])] },
    ],
    [
      "messages.0.content.0.content.content.source.file_id",
      { messages: [user([fetched({ type: "file", file_id: "f" })])] },
    ],
    [
      "messages.0.content.0.content.content.source.url",
      { messages: [user([fetched({ type: "url", url: "https://a.test" })])] },
    ],
    [
      "messages.0.content.0.content.0.type",
      {
        messages: [
          user([{ type: "search_result", source: "s", title: "t", content: [{ type: "image", source: png }] }]),
        ],
      },
    ],
    ["messages.0.content.0.type", { messages: [user([{ type: "container_upload", file_id: "f" }])] }],
  ])("returns unsupported_parameter for %s in a Messages API request", ([param, fields]) => {
    expect(refusal({ ...hello, ...fields })).toEqual({ code: "unsupported_parameter", param });
  });

  test.for<[string, object]>([
    ["max_tokens", { max_tokens: undefined }],
    ["max_tokens", { max_tokens: 128_001 }],
    ["max_tokens", { max_tokens: -1 }],
    ["messages", { messages: [] }],
    ["metadata.user_id", { metadata: { user_id: "u".repeat(513) } }],
    ["platform.max_steps", { platform: { max_steps: 2 } }],
    ["tools.0.max_uses", { tools: [search({ max_uses: 101 })] }],
    ["tools.0.max_uses", { tools: [search({ max_uses: 0 })] }],
    ["tools.0.max_content_tokens", { tools: [fetching({ max_content_tokens: 1_000_001 })] }],
    ["tools.0.input_schema", { tools: [{ name: "f" }] }],
    [
      "messages.0.content.0.source.url",
      { messages: [user([{ type: "image", source: { type: "url", url: "http://a.test" } }])] },
    ],
  ])("refuses a Messages API request with an invalid %s as invalid_request", ([param, fields]) => {
    expect(refusal({ ...hello, ...fields })).toEqual({ code: "invalid_request", param });
  });

  test.for([0, 128_000])("accepts max_tokens of %i", (max_tokens) => {
    expect(read({ ...hello, max_tokens })).toMatchObject({ outputLimit: max_tokens });
  });
});

describe("Reservation for a Messages API request", () => {
  test("the reservation for a Messages API request counts the text, each image four times, and the output limit", () => {
    const image = { type: "image", source: png };
    const messages = [
      user([
        image,
        { type: "document", source: { type: "content", content: [image] } },
        { type: "tool_result", tool_use_id: "t", content: [image] },
      ]),
    ];
    expect(read({ ...hello, messages }, 20_000)).toMatchObject({ images: 12, inputBytes: 8_000, outputLimit: 100 });
    const page = [user([fetched({ type: "content", content: [image] })])];
    expect(read({ ...hello, messages: page }, 20_000)).toMatchObject({ images: 4, inputBytes: 16_000 });
    const linked = [user([{ type: "image", source: { type: "url", url: "https://a.test/x" } }])];
    expect(read({ ...hello, messages: linked }, 300)).toMatchObject({ images: 4, inputBytes: 300 });
  });

  test("the reservation for a Messages API request covers the fee for every allowed search, and every possible read of the input", () => {
    expect(read({ ...hello, tools: [search({ max_uses: 2 })] }, 900)).toMatchObject({
      feeRequests: 2,
      inputReads: 3,
      inputBytes: 900 * 3 + (2 + 1) * 10_000 * 3,
    });
    const fetched = read({ ...hello, tools: [fetching({ max_uses: 1, max_content_tokens: 500 })] }, 900);
    expect([fetched.feeRequests, fetched.inputBytes]).toEqual([undefined, 900 * 2 + 500 * 3]);
  });

  // Claude Code sends searches with max_uses 8.
  test.for<[string, object[], number]>([
    ["each of eight searches' results once for each later reading", [search({ max_uses: 8 })], 36 * 10_000],
    ["the results of one search once", [search({ max_uses: 1 })], 10_000],
    [
      "larger pages before smaller ones",
      [fetching({ max_uses: 2, max_content_tokens: 500 }), fetching({ max_uses: 1, max_content_tokens: 2_000 })],
      2_000 * 3 + 500 * (2 + 1),
    ],
    [
      "searches before smaller pages",
      [fetching({ max_uses: 1, max_content_tokens: 100 }), search({ max_uses: 2 })],
      10_000 * (3 + 2) + 100,
    ],
  ])("reserves %s", ([, tools, tokens]) => {
    const { inputBytes, inputReads = 1 } = read({ ...hello, tools }, 80);
    expect(inputBytes).toBe(80 * inputReads + tokens * 3);
  });

  // The defaults of WebSearchTool and WebFetchTool of github.com/pydantic/pydantic-ai (models/anthropic.py), of
  // webSearch_20250305 of github.com/vercel/ai (packages/anthropic), and of LangChain's examples
  // (docs.langchain.com/oss/python/integrations/chat/anthropic).
  test.for<[object, object, { feeRequests?: number; inputReads: number; tokens: number }]>([
    [search({}), search({ max_uses: 5 }), { feeRequests: 5, inputReads: 6, tokens: 15 * 10_000 }],
    [search({ max_uses: null }), search({ max_uses: 5 }), { feeRequests: 5, inputReads: 6, tokens: 15 * 10_000 }],
    [
      fetching({ citations: { enabled: true } }),
      fetching({ citations: { enabled: true }, max_uses: 5, max_content_tokens: 25_000 }),
      { inputReads: 6, tokens: 15 * 25_000 },
    ],
    [
      fetching({ max_uses: 2, max_content_tokens: null }),
      fetching({ max_uses: 2, max_content_tokens: 25_000 }),
      { inputReads: 3, tokens: 3 * 25_000 },
    ],
    [
      fetching({ max_content_tokens: 100 }),
      fetching({ max_content_tokens: 100, max_uses: 5 }),
      { inputReads: 6, tokens: 15 * 100 },
    ],
  ])("limits the tool %j to the default, as reserved", ([tool, limited, { tokens, ...reserved }]) => {
    const call = read({ ...hello, tools: [tool] }, 80);
    expect(call).toMatchObject({ ...reserved, inputBytes: 80 * reserved.inputReads + tokens * 3 });
    expect(JSON.parse(messagesProviderRequest(call, { route }).body as string).tools).toEqual([limited]);
    expect(() => readCountTokens({ model: "m", messages: hello.messages, tools: [tool] }, 80, none)).not.toThrow();
  });

  test("a request to count tokens reserves nothing", () => {
    const { max_tokens, ...prompt } = hello;
    const count = readCountTokens(prompt, 5_000, none);
    expect(count).toMatchObject({ inputBytes: 0, outputLimit: 0, images: 0 });
  });
});

describe("Headers that a provider gets", () => {
  const headersOf = (headers: Record<string, string>) =>
    messagesProviderRequest(read(hello, 100, new Headers(headers)), { route }).headers;

  test("the provider gets only Anthropic's version and beta headers", () => {
    const passed = { "anthropic-version": "2023-06-01", "anthropic-beta": "a-2025-01-01,b-2025-02-02" };
    expect(headersOf({ ...passed, "x-stainless-lang": "js", authorization: "Bearer k", "x-api-key": "k" })).toEqual(
      passed,
    );
    expect(headersOf({})).toEqual({});
  });

  // https://platform.claude.com/docs/en/build-with-claude/context-windows
  test.for<[number | undefined, string, object]>([
    [200_000, "a-2025-01-01,context-1m-2025-08-07, b-2025-02-02", { "anthropic-beta": "a-2025-01-01, b-2025-02-02" }],
    [200_000, "context-1m-2025-08-07", {}],
    [undefined, "Context-1M-2025-08-07", {}],
    [200_001, "context-1m-2025-08-07", { "anthropic-beta": "context-1m-2025-08-07" }],
    [200_000, "context-management-2025-06-27", { "anthropic-beta": "context-management-2025-06-27" }],
  ])(
    "with a context window of %s tokens in the catalogue, forwards only beta headers that fit the window: %s",
    ([contextWindow, betas, expected]) => {
      const call = read(hello, 100, new Headers({ "anthropic-beta": betas }));
      expect(messagesProviderRequest(call, { route, contextWindow }).headers).toEqual(expected);
    },
  );

  test.for<[string, string]>([
    ["anthropic-version", "2023 06 01"],
    ["anthropic-version", "1".repeat(33)],
    ["anthropic-beta", "a;b"],
    ["anthropic-beta", "a".repeat(2_049)],
  ])("refuses a malformed %s header: %s", ([name, value]) => {
    expect(refusal(hello, new Headers({ [name]: value }))).toEqual({ code: "invalid_request", param: name });
  });
});
