import { describe, expect, test } from "vitest";
import { parseWithSource } from "../http/source-json.ts";
import { kinds } from "../providers/kinds/registry.ts";
import { responsesProviderRequest } from "./provider-request.ts";
import { readResponses } from "./request.ts";
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

describe("Maximum cost of a response", () => {
  test.for([
    ["a stream", { stream: true }, 32_768],
    ["a whole answer", {}, 8_192],
    ["a step of the tool loop", { stream: true, tools: ["calculator"] }, 2_048],
  ] as const)("assumes the default output limit for %s if the request states none: %j", ([, fields, outputLimit]) => {
    expect(readResponses({ ...hello, ...fields }, 100)).toMatchObject({ outputLimit, outputLimitAssumed: true });
  });

  test("accepts the output limit under each of its names, but not under two names in the same request", () => {
    expect(readResponses(hello, 100)).toMatchObject({ choices: 1, images: 0, inputBytes: 100 });
    for (const name of ["max_output_tokens", "max_completion_tokens", "max_tokens"]) {
      expect(readResponses({ ...hello, [name]: 32_768 }, 100).outputLimit).toBe(32_768);
      expect(refusal({ ...hello, [name]: 32_769 })).toEqual({ code: "invalid_request", param: name });
      expect(refusal({ ...hello, [name]: 0 })).toEqual({ code: "invalid_request", param: name });
    }
    expect(refusal({ ...hello, max_output_tokens: 5, max_tokens: 5 }).param).toBe("max_tokens");
  });

  test("counts images anywhere in a request, without counting their data as text", () => {
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
])("refuses a media field in a part of another type, because the media would not be counted: %j", (part) => {
  const param = `input.0.content.0.${Object.keys(part).at(-1)}`;
  const input = [{ role: "user", content: [part] }];
  expect(refusal({ ...hello, input })).toEqual({ code: "invalid_request", param });
});

test("refuses files stored at the provider in any part, since they may belong to another tenant", () => {
  const input = [{ role: "user", content: [{ type: "input_text", text: "t", file_id: "file-1" }] }];
  expect(refusal({ ...hello, input })).toEqual({
    code: "unsupported_parameter",
    param: "input.0.content.0.file_id",
  });
});

describe("supported fields of a Responses API request", () => {
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
  ])("passes the field %s to the provider unchanged: %j", ([field, value]) => {
    const { body } = responsesProviderRequest(readResponses({ ...hello, [field]: value }, 100), to);
    expect(JSON.parse(body)[field]).toEqual(value);
  });
});

test("extra fields in input items and content parts reach the provider unchanged", () => {
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

describe("null counts as absent in a Responses API request", () => {
  test("null counts as absent in every optional field, such as `user`, which LlamaIndex sends", () => {
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
  ])("null counts as absent in %j", ([fields]) => {
    expect(() => readResponses({ ...hello, ...fields }, 100)).not.toThrow();
  });
});

describe("Refuses unsupported and invalid requests", () => {
  const user = (part: object) => ({ input: [{ role: "user", content: [part] }] });
  test.for([
    [{ store: true }, "store"],
    [{ background: true }, "background"],
    [{ previous_response_id: "r" }, "previous_response_id"],
    [{ conversation: "c" }, "conversation"],
    [{ service_tier: "Priority tier" }, "service_tier"],
    [{ modalities: ["audio"] }, "modalities"],
    [{ tools: [{ type: "toaster" }] }, "tools.0.type"],
    [
      { tools: [{ type: "namespace", name: "n", tools: [{ type: "mcp", server_label: "s" }] }] },
      "tools.0.tools.0.type",
    ],
    [{ tools: [{ type: "web_search" }], tool_choice: { type: "web_search" } }, "tool_choice.type"],
    [{ tools: [{ type: "web_search" }], tool_choice: "required" }, "tool_choice"],
    [{ input: [{ type: "item_reference", id: "i" }] }, "input.0.id"],
    [{ input: [{ id: "i" }] }, "input.0.id"],
    [{ input: [{ type: "hosted_call", id: "w", status: "completed" }] }, "input.0.type"],
    [user({ type: "input_file", file_id: "f" }), "input.0.content.0.file_id"],
    [user({ type: "input_file", file_url: "https://example.com/a.pdf" }), "input.0.content.0.file_url"],
    [{ reasoning: { mode: "pro" } }, "reasoning.mode"],
    [user({ type: "input_image", image_url: "https://example.com/a.png", file_id: "f" }), "input.0.content.0.file_id"],
  ] as const)("refuses %j as unsupported", ([fields, param]) => {
    expect(refusal({ ...hello, ...fields })).toEqual({ code: "unsupported_parameter", param });
  });

  test.for([
    [{ input: [] }, "input"],
    [{ input: "" }, "input"],
    [{ input: [{ role: "tool", content: "x" }] }, "input.0.role"],
    [{ text: { format: { type: "json_schema", schema: {} } } }, "text.format.name"],
    [{ top_logprobs: 21 }, "top_logprobs"],
  ] as const)("refuses %j as invalid", ([fields, param]) => {
    expect(refusal({ ...hello, ...fields })).toEqual({ code: "invalid_request", param });
  });
});

describe("Requests that current clients send", () => {
  const sent = (fields: object, kind = kinds.openai) => {
    const { body } = responsesProviderRequest(readResponses({ ...hello, ...fields }, 100), {
      ...to,
      provider: { ...to.provider, kind },
    });
    return JSON.parse(body);
  };
  const shell = { type: "function", name: "exec_command", parameters: {}, strict: false };
  const patch = { type: "custom", name: "apply_patch", format: { type: "grammar", syntax: "lark", definition: "x" } };

  // Codex CLI sends these: codex-rs/tools/src/tool_spec.rs and codex-rs/protocol/src/models.rs of
  // github.com/openai/codex.
  test("keeps custom tools, namespaces and their items, but removes web search and lists it as ignored", () => {
    const agents = { type: "namespace", name: "agents", description: "d", tools: [shell, patch] };
    const input = [
      { type: "message", role: "user", content: [{ type: "input_text", text: "edit" }] },
      { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "e" },
      {
        type: "custom_tool_call",
        id: "ctc_1",
        status: "completed",
        call_id: "c",
        name: "apply_patch",
        input: "*** Begin",
      },
      { type: "custom_tool_call_output", call_id: "c", output: "Success" },
      { type: "custom_tool_call_output", call_id: "d", output: [{ type: "input_text", text: "Success" }] },
      { type: "function_call", call_id: "f", name: "spawn", namespace: "agents", arguments: "{}" },
      { type: "function_call_output", call_id: "f", output: "o" },
      { type: "function_call_output", name: "spawn", namespace: "agents", output: "o" },
    ];
    const fields = {
      input,
      tools: [shell, patch, agents, { type: "web_search", external_web_access: false }],
      tool_choice: "auto",
      parallel_tool_calls: true,
      include: ["reasoning.encrypted_content"],
      reasoning: { effort: "medium", summary: "auto", context: "all_turns" },
      text: { verbosity: "low" },
      store: false,
      client_metadata: { installation: "i" },
    };
    const { tools, client_metadata, ...unchanged } = fields;
    expect(sent(fields)).toMatchObject({ ...unchanged, tools: [shell, patch, agents] });
    expect(sent(fields)).not.toHaveProperty("client_metadata");
    const asked = readResponses({ ...hello, ...fields }, 100);
    expect([asked.ignored, Object.keys(asked.others ?? {})]).toEqual([["web_search"], ["client_metadata"]]);
  });

  // Codex sends tools in input items to "responses lite" models: codex-rs/tools/src/tool_spec.rs,
  // create_tools_json_for_responses_lite.
  test("keeps the tools that an input item defines, but removes and reports the item's hosted tools", () => {
    const functions = { type: "namespace", name: "functions", description: "", tools: [patch, shell] };
    const tools = (list: object[]) => ({ type: "additional_tools", id: "at_1", role: "developer", tools: list });
    const hi = { type: "message", role: "user", content: "hi" };
    const input = [tools([functions, { type: "web_search" }]), tools([{ type: "tool_search" }]), hi];
    const fields = { input, tool_choice: "auto", parallel_tool_calls: false };
    expect(sent(fields)).toMatchObject({ ...fields, input: [tools([functions]), hi] });
    const asked = readResponses({ ...hello, ...fields, tools: [{ type: "web_search" }] }, 9_000);
    expect(asked.ignored).toEqual(["web_search", "web_search", "tool_search"]);
    expect(asked.body).toMatchObject({ tool_choice: "auto" });
    expect(asked.inputEstimate.input_tokens).toBeGreaterThan(40);
  });

  // ResponseInputItem of openai-node, resources/responses/responses.ts, lists these items.
  test("leaves the items of hosted tools out of the input, and reports them as ignored", () => {
    const hi = { type: "message", role: "user", content: "hi" };
    const search = { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "q" } };
    const list = { type: "mcp_list_tools", id: "mcpl_1", server_label: "s", tools: [{ name: "t", input_schema: {} }] };
    const input = [list, hi, search, { type: "local_shell_call_output", id: "l", output: "o" }, hi];
    expect(sent({ input }).input).toEqual([hi, hi]);
    const { ignored } = readResponses({ ...hello, input }, 100);
    expect(ignored).toEqual(["mcp_list_tools", "web_search_call", "local_shell_call_output"]);
  });

  test("sends an input item to the provider with its members in the original order and its numbers unchanged", () => {
    const items =
      '[{"type":"function_call","call_id":"c","name":"f","arguments":"{}","2":1,"1":9223372036854775807},' +
      '{"role":"user","content":[{"type":"input_text","text":"t","at":1e400}],"n":1.0}]';
    const { body } = responsesProviderRequest(
      readResponses(parseWithSource(`{"model":"m","input":${items}}`), 100),
      to,
    );
    expect(body).toContain('"2":1,"1":9223372036854775807}');
    expect(body).toContain('{"type":"input_text","text":"t","at":1e400}');
  });

  // CompactionTrigger and ResponseCompactionItemParam of openai-node, resources/responses/responses.ts. Codex sends
  // these items if openai_base_url is set.
  test("keeps compaction and configuration items in the input", () => {
    const input = [
      { type: "compaction", id: "cmp_1", encrypted_content: "c2VjcmV0" },
      { type: "configuration_update", reasoning: { effort: "low" } },
      { type: "message", role: "user", content: "hi" },
      { type: "compaction_trigger" },
    ];
    expect(sent({ input }).input).toEqual(input);
  });

  // ToolSearchTool and ResponseToolSearchOutputItemParam of openai-node, resources/responses/responses.ts. Codex finds
  // the tools of MCP servers this way: codex-rs/core/src/tools/handlers/tool_search.rs of github.com/openai/codex.
  test("keeps a tool search that the client runs, and its results", () => {
    const search = { type: "tool_search", execution: "client", description: "Finds tools", parameters: {} };
    const found = { type: "namespace", name: "mcp__math", tools: [{ ...shell, defer_loading: true }] };
    const call = {
      type: "tool_search_call",
      call_id: "c1",
      execution: "client",
      arguments: { query: "add", limit: 8 },
    };
    const output = (tools: object[]) => ({
      type: "tool_search_output",
      call_id: "c1",
      status: "completed",
      execution: "client",
      tools,
    });
    expect(sent({ tools: [search] })).toMatchObject({ tools: [search] });
    expect(sent({ tools: [search], input: [call, output([found])] }).input).toEqual([call, output([found])]);
    expect(sent({ tools: [search], input: [call, output([{ type: "mcp" }])] }).input).toEqual([call, output([])]);
    const estimate = (input: object[]) => readResponses({ ...hello, input }, 9_000).inputEstimate.input_tokens;
    expect(estimate([call, output([found])])).toBeGreaterThan(estimate([call, output([])]) + 20);
  });

  test("leaves out and reports a tool search that the provider runs", () => {
    for (const execution of [undefined, null, "server"]) {
      const asked = readResponses({ ...hello, tools: [shell, { type: "tool_search", execution }] }, 100);
      expect([asked.ignored, asked.body.tools]).toEqual([["tool_search"], [shell]]);
    }
  });

  test.for([
    { type: "custom", name: "apply_patch" },
    { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "exec_command" }] },
  ])("keeps the tool choice %j", (tool_choice) => {
    expect(sent({ tools: [shell, patch], tool_choice }).tool_choice).toEqual(tool_choice);
  });

  test.for([
    [{ prompt: { id: "p" } }],
    [{ max_tool_calls: 3 }],
    [{ context_management: [{ type: "compaction" }] }],
    [{ moderation: { model: "m" } }],
    [{ temprature: 1 }],
  ])("does not send %j to the provider, and reports the field's name", ([fields]) => {
    expect(Object.keys(readResponses({ ...hello, ...fields }, 100).others ?? {})).toEqual(Object.keys(fields ?? {}));
    expect(sent(fields ?? {})).toEqual(sent({}));
  });

  test("passes prompt_cache_retention to a provider whose kind lists it", () => {
    expect(sent({ prompt_cache_retention: "24h" }).prompt_cache_retention).toBe("24h");
    expect(sent({ prompt_cache_retention: "24h" }, kinds.groq)).not.toHaveProperty("prompt_cache_retention");
  });

  test("drops the `include` values that only hosted tools could use, and reports each one", () => {
    const include = ["web_search_call.results", "reasoning.encrypted_content"];
    expect(readResponses({ ...hello, include }, 100).ignored).toEqual(["web_search_call.results"]);
    expect(sent({ include }).include).toEqual(["reasoning.encrypted_content"]);
  });

  test("keeps files and images in a tool's result", () => {
    const file_data = `data:application/pdf;base64,${"A".repeat(4_000)}`;
    const output = [
      { type: "input_file", filename: "a.pdf", file_data },
      { type: "input_image", image_url: "https://example.com/a.png" },
    ];
    const input = [{ type: "function_call_output", call_id: "c", output }];
    expect(sent({ input }).input).toEqual(input);
    expect(readResponses({ ...hello, input }, 5_000)).toMatchObject({ images: 1, hasUnmeasuredInput: true });
  });

  test("leaves out a reference to an item of the same input, and refuses any other reference with advice on how to fix it", () => {
    const call = { type: "function_call", id: "fc_1", call_id: "c", name: "f", arguments: "{}" };
    const result = { type: "function_call_output", call_id: "c", output: "o" };
    const input = [call, { type: "item_reference", id: "fc_1" }, { id: "fc_1" }, result];
    expect(sent({ input }).input).toEqual([call, result]);
    // Microsoft's Agent Framework sends previous_response_id in every tool loop
    // (python/packages/openai/agent_framework_openai/_chat_client.py of github.com/microsoft/agent-framework).
    for (const stored of [{ input: input.slice(1) }, { previous_response_id: "r" }, { conversation: "c" }]) {
      expect(() => readResponses({ ...hello, ...stored }, 100)).toThrow(
        /send store: false and the whole conversation in input \(docs\/clients\.md#stored-conversations\)/,
      );
    }
  });
});

describe("The gateway's own tools", () => {
  const serverTools = (fields: object) => readResponses({ ...hello, ...fields }, 100).serverTools;
  const tool = { type: "function", name: "weather" };

  test("the gateway's own tools can be requested in `tools` or in `platform`, and count as input when described to the model", () => {
    expect(serverTools({ tools: ["calculator"] })).toEqual({ maxSteps: 4, tools: ["calculator"] });
    expect(serverTools({ platform: { max_steps: 8, tools: ["current_time"] } })).toEqual({
      maxSteps: 8,
      tools: ["current_time"],
    });
    const { body, inputBytes } = readResponses({ ...hello, tools: ["calculator"], max_steps: 1 }, 100);
    expect(body).toEqual({
      ...hello,
      tools: [expect.objectContaining({ type: "function", name: "calculator", strict: false })],
    });
    expect(inputBytes).toBe(100 + JSON.stringify(body.tools).length);
  });

  test("max_steps alone does not enable the gateway's own tools", () => {
    for (const fields of [{ max_steps: 8 }, { platform: { max_steps: 1 } }, { platform: { tools: [] } }]) {
      expect(readResponses({ ...hello, ...fields }, 100)).toMatchObject({ body: hello, serverTools: undefined });
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
  ] as const)("refuses the tool settings %j as invalid", ([fields, param]) => {
    expect(refusal({ ...hello, ...fields })).toEqual({ code: "invalid_request", param });
  });
});

test("the request to the provider names the provider's model and the reserved limit, forbids storage, and separates prompt caches by workspace", () => {
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

test("requests OpenAI's default tier unless the client names a tier, since projects may have another default", () => {
  const provider = { ...to.provider, kind: kinds.openai };
  const tierOf = (asked: object) =>
    JSON.parse(responsesProviderRequest(readResponses({ ...hello, ...asked }, 100), { ...to, provider }).body)
      .service_tier;
  expect(tierOf({})).toBe("default");
  expect(tierOf({ service_tier: "auto" })).toBe("default");
  expect(tierOf({ service_tier: "flex" })).toBe("flex");
});
