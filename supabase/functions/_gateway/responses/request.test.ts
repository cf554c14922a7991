import { describe, expect, test } from "vitest";
import { kinds } from "../providers/kinds/registry.ts";
import { readResponses, responsesProviderRequest } from "./request.ts";
import { responsesSchema } from "./schema.ts";

const hello = { model: "m", input: "hello" };
const to = {
  provider: { baseUrl: "https://provider.test", kind: kinds["openai-compatible"], allowPrivate: false, drains: false },
  route: { position: 1, provider: "demo", model: "upstream", prices: [] },
  workspaceId: "0b6b1a3e-0000-4000-8000-000000000000",
};

function refusal(body: object): { code: string; param?: string } {
  try {
    readResponses(body, 100);
  } catch (error) {
    const { code, options } = error as { code: string; options: { param?: string } };
    return { code, param: options.param };
  }
  throw new Error("not refused");
}

describe("what a response may cost", () => {
  test("is 2,048 tokens of output unless told otherwise, under any one name", () => {
    expect(readResponses(hello, 100)).toMatchObject({ outputLimit: 2_048, choices: 1, images: 0, inputBytes: 100 });
    for (const name of ["max_output_tokens", "max_completion_tokens", "max_tokens"]) {
      expect(readResponses({ ...hello, [name]: 32_768 }, 100).outputLimit).toBe(32_768);
      expect(refusal({ ...hello, [name]: 32_769 })).toEqual({ code: "invalid_request", param: name });
      expect(refusal({ ...hello, [name]: 0 })).toEqual({ code: "invalid_request", param: name });
    }
    expect(refusal({ ...hello, max_output_tokens: 5, max_tokens: 5 }).param).toBe("max_tokens");
  });

  test("counts images wherever they are, and their data not as text", () => {
    const image_url = `data:image/png;base64,${"A".repeat(4_000)}`;
    const input = [
      {
        role: "user",
        content: [
          { type: "input_text", text: "?" },
          { type: "input_image", image_url },
        ],
      },
      { type: "function_call_output", call_id: "c", output: [{ type: "input_image", image_url }] },
    ];
    expect(readResponses({ ...hello, input }, 9_000)).toMatchObject({
      images: 2,
      inputBytes: 9_000 - 2 * image_url.length,
    });
  });
});

test.each([
  { type: "input_text", text: "t", image_url: "https://example.com/a.png" },
  { type: "input_text", text: "t", file_url: "https://example.com/a.pdf" },
  { type: "output_text", text: "t", uuid: "u" },
  { type: "input_image", image_url: "https://example.com/a.png", video_url: "https://example.com/a.mp4" },
])("refuses media in a part of another kind, which nothing would count: %j", (part) => {
  const param = `input.0.content.0.${Object.keys(part).at(-1)}`;
  const input = [{ role: "user", content: [part] }];
  expect(refusal({ ...hello, input })).toEqual({ code: "invalid_request", param });
});

test("refuses a file stored at the provider in any part, since it may be another tenant's", () => {
  const input = [{ role: "user", content: [{ type: "input_text", text: "t", file_id: "file-1" }] }];
  expect(refusal({ ...hello, input })).toEqual({
    code: "unsupported_parameter",
    param: "input.0.content.0.file_id",
  });
});

describe("what is offered reaches the provider as it came", () => {
  const message = (part: object) => [{ type: "message", role: "user", content: [part] }];
  test.for<[string, unknown]>([
    ["input", message({ type: "input_text", text: "t" })],
    ["input", message({ type: "input_image", image_url: "https://example.com/a.png", detail: "high" })],
    ["input", [{ type: "function_call", call_id: "c", name: "f", arguments: "{}" }]],
    ["input", [{ type: "function_call_output", call_id: "c", output: "o" }]],
    ["input", [{ type: "reasoning", summary: [], encrypted_content: "e" }]],
    ["instructions", "i"],
    ["tools", [{ type: "function", name: "f", parameters: {}, strict: false }]],
    ["tool_choice", "none"],
    ["tool_choice", { type: "function", name: "f" }],
    ["parallel_tool_calls", true],
    ["temperature", 2],
    ["top_p", 0],
    ["top_logprobs", 20],
    ["text", { verbosity: "high", format: { type: "json_object" } }],
    ["text", { format: { type: "json_schema", name: "s", schema: {} } }],
    ["reasoning", { effort: "low", summary: "auto" }],
    ["include", ["reasoning.encrypted_content"]],
    ["truncation", "disabled"],
    ["metadata", { a: "b" }],
    ["user", "u"],
    ["safety_identifier", "u"],
    ["service_tier", "default"],
    ["service_tier", "flex"],
  ])("%s: %j", ([field, value]) => {
    const { body } = responsesProviderRequest(readResponses({ ...hello, [field]: value }, 100), to);
    expect(JSON.parse(body)[field]).toEqual(value);
  });
});

test("members that clients and providers add to items and parts reach the provider unchanged", () => {
  const input = [
    {
      type: "message",
      role: "user",
      content: [{ type: "input_text", text: "t", cache_control: { type: "ephemeral" } }],
    },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "t", annotations: [], parsed: {} }] },
    { type: "function_call", call_id: "c", name: "f", arguments: "{}", namespace: "n" },
    { type: "function_call_output", call_id: "c", output: "o", name: "f" },
    { type: "reasoning", summary: [], format: "v1" },
  ];
  const { body } = responsesProviderRequest(readResponses({ ...hello, input }, 100), to);
  expect(JSON.parse(body).input).toEqual(input);
});

describe("null counts as absent", () => {
  test("in every optional field, such as LlamaIndex's user", () => {
    const optional = Object.keys(responsesSchema.shape).filter((name) => !["model", "input"].includes(name));
    expect(optional).toContain("user");
    const nulls = Object.fromEntries(optional.map((name) => [name, null]));
    const unoffered = { previous_response_id: null, conversation: null, prompt: null, context_management: null };
    expect(readResponses({ ...hello, ...nulls, ...unoffered }, 100)).toEqual(readResponses(hello, 100));
  });

  test.for([
    [{ text: { format: null, verbosity: null } }],
    [{ text: { format: { type: "json_schema", name: "s", schema: {}, strict: null, description: null } } }],
    [{ reasoning: { effort: null, summary: null, generate_summary: null } }],
    [{ tools: [{ type: "function", name: "f", parameters: null, description: null, strict: null }] }],
    [{ input: [{ role: "user", content: "x", id: null, status: null, phase: null }] }],
    [{ input: [{ role: "user", content: [{ type: "input_image", image_url: "https://e.com", file_id: null }] }] }],
    [{ input: [{ type: "reasoning", summary: [], content: null, encrypted_content: null }] }],
  ])("in %j", ([fields]) => {
    expect(() => readResponses({ ...hello, ...fields }, 100)).not.toThrow();
  });
});

describe("what is not offered", () => {
  const user = (part: object) => ({ input: [{ role: "user", content: [part] }] });
  test.for([
    [{ store: true }, "store"],
    [{ background: true }, "background"],
    [{ previous_response_id: "r" }, "previous_response_id"],
    [{ conversation: "c" }, "conversation"],
    [{ prompt: { id: "p" } }, "prompt"],
    [{ service_tier: "Priority tier" }, "service_tier"],
    [{ max_tool_calls: 3 }, "max_tool_calls"],
    [{ modalities: ["audio"] }, "modalities"],
    [{ tools: [{ type: "image_generation" }] }, "tools.0.type"],
    [{ tools: [{ type: "computer_use_preview" }] }, "tools.0.type"],
    [{ include: ["web_search_call.results"] }, "include.0"],
    [{ tools: [{ type: "web_search" }] }, "tools.0.type"],
    [{ tools: [{ type: "file_search", vector_store_ids: ["v"] }] }, "tools.0.type"],
    [{ tools: [{ type: "code_interpreter", container: "c" }] }, "tools.0.type"],
    [{ tools: [{ type: "mcp", server_label: "s" }] }, "tools.0.type"],
    [{ input: [{ type: "item_reference", id: "i" }] }, "input.0.type"],
    [user({ type: "input_file", file_id: "f" }), "input.0.content.0.type"],
    [user({ type: "input_image", image_url: "https://example.com/a.png", file_id: "f" }), "input.0.content.0.file_id"],
  ] as const)("%j", ([fields, param]) => {
    expect(refusal({ ...hello, ...fields })).toEqual({ code: "unsupported_parameter", param });
  });

  test.for([
    [{ temprature: 1 }, "temprature"],
    [{ input: [] }, "input"],
    [{ input: "" }, "input"],
    [{ input: [{ role: "tool", content: "x" }] }, "input.0.role"],
    [{ text: { format: { type: "json_schema", schema: {} } } }, "text.format.name"],
    [{ top_logprobs: 21 }, "top_logprobs"],
  ] as const)("%j is invalid", ([fields, param]) => {
    expect(refusal({ ...hello, ...fields })).toEqual({ code: "invalid_request", param });
  });
});

describe("the gateway's own tools", () => {
  const serverTools = (fields: object) => readResponses({ ...hello, ...fields }, 100).serverTools;
  const tool = { type: "function", name: "weather" };

  test("are asked for in either spelling, and described to the model at their cost", () => {
    expect(serverTools({ tools: ["calculator"] })).toEqual({ maxSteps: 4, tools: ["calculator"] });
    expect(serverTools({ platform: { max_steps: 8, tools: ["current_time"] } })).toEqual({
      maxSteps: 8,
      tools: ["current_time"],
    });
    const { request, inputBytes } = readResponses({ ...hello, tools: ["calculator"], max_steps: 1 }, 100);
    expect(request).toEqual({
      ...hello,
      tools: [expect.objectContaining({ type: "function", name: "calculator", strict: false })],
    });
    expect(inputBytes).toBe(100 + JSON.stringify(request.tools).length);
  });

  test("max_steps alone changes nothing", () => {
    for (const fields of [{ max_steps: 8 }, { platform: { max_steps: 1 } }, { platform: { tools: [] } }]) {
      expect(readResponses({ ...hello, ...fields }, 100)).toMatchObject({ request: hello, serverTools: undefined });
    }
  });

  test.for([
    [{ max_steps: 0 }, "max_steps"],
    [{ max_steps: 9 }, "max_steps"],
    [{ max_steps: 1.5 }, "max_steps"],
    [{ platform: { max_steps: 9, tools: ["calculator"] } }, "platform.max_steps"],
    [{ tools: ["fetch"] }, "tools.0"],
    [{ tools: ["constructor"] }, "tools.0"],
    [{ platform: { tools: ["calculator", "exec"] } }, "platform.tools.1"],
    [{ platform: { url: "http://x" } }, "platform.url"],
    [{ tools: ["calculator", tool] }, "tools"],
    [{ tools: [tool], platform: { tools: ["calculator"] } }, "tools"],
    [{ tools: ["calculator"], platform: { tools: ["calculator"] } }, "platform.tools"],
    [{ tools: ["calculator"], max_steps: 2, platform: { max_steps: 2 } }, "max_steps"],
  ] as const)("%j is invalid", ([fields, param]) => {
    expect(refusal({ ...hello, ...fields })).toEqual({ code: "invalid_request", param });
  });
});

test("the provider's body names its model and the reserved limit, is never stored, and shares no cache", () => {
  const asked = { ...hello, max_tokens: 9, prompt_cache_key: "k", stream: true, metadata: { a: "b" } };
  expect(JSON.parse(responsesProviderRequest(readResponses(asked, 100), to).body)).toEqual({
    input: "hello",
    model: "upstream",
    max_output_tokens: 9,
    store: false,
    stream: true,
    metadata: { a: "b" },
    prompt_cache_key: `${to.workspaceId}:k`,
  });
});

test("names the default tier to OpenAI, whose projects may have another default, unless the client names one", () => {
  const provider = { ...to.provider, kind: kinds.openai };
  const tierOf = (asked: object) =>
    JSON.parse(responsesProviderRequest(readResponses({ ...hello, ...asked }, 100), { ...to, provider }).body)
      .service_tier;
  expect(tierOf({})).toBe("default");
  expect(tierOf({ service_tier: "auto" })).toBe("auto");
});
