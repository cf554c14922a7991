import { describe, expect, test } from "vitest";
import { parseJson } from "../http/parse-json.ts";
import { parseWithSource } from "../http/source-json.ts";
import { kinds } from "../providers/kinds/registry.ts";
import { chatProviderRequest } from "./provider-request.ts";
import { type Chat, readChat } from "./request.ts";
import { chatSchema, refusedMembers } from "./schema.ts";

const hello = { model: "m", messages: [{ role: "user", content: "hello" }] };
const route = { position: 1, provider: "demo", model: "upstream", prices: [] };
const workspaceId = "0b6b1a3e-0000-4000-8000-000000000000";

const sent = (chat: Chat, kind = kinds["openai-compatible"]) => {
  const provider = { baseUrl: "https://provider.test/v1", kind, allowPrivate: false, drains: false };
  return JSON.parse(chatProviderRequest(chat, { route, provider, workspaceId }).body);
};

function refusal(body: object): { code: string; param?: string } {
  try {
    readChat(body, 100);
  } catch (error) {
    const { code, options } = error as { code: string; options: { param?: string } };
    return { code, param: options.param };
  }
  throw new Error("not refused");
}

describe("Maximum cost of a chat", () => {
  test("assumes 2,048 output tokens unless max_tokens or max_completion_tokens is set", () => {
    expect(readChat(hello, 100)).toMatchObject({ outputLimit: 2_048, choices: 1, images: 0, inputBytes: 100 });
    expect(readChat({ ...hello, max_tokens: 5 }, 100).outputLimit).toBe(5);
    expect(readChat({ ...hello, max_completion_tokens: 6, n: 8 }, 100)).toMatchObject({ outputLimit: 6, choices: 8 });
    expect(refusal({ ...hello, max_tokens: 5, max_completion_tokens: 5 }).param).toBe("max_tokens");
  });

  test("counts images without counting their data as text", () => {
    const url = `data:image/png;base64,${"A".repeat(4_000)}`;
    const content = [
      { type: "text", text: "what is this?" },
      { type: "image_url", image_url: { url } },
      { type: "image_url", image_url: { url: "https://example.com/a.png", detail: "low" } },
    ];
    const chat = readChat({ ...hello, messages: [{ role: "user", content }] }, 5_000);
    expect(chat).toMatchObject({ images: 2, inputBytes: 5_000 - url.length, audio: false });
  });
});

describe("limits of a chat request's fields", () => {
  test.for([
    [{ max_completion_tokens: 1 }, { max_completion_tokens: 0 }, "max_completion_tokens"],
    [{ max_completion_tokens: 32_768 }, { max_completion_tokens: 32_769 }, "max_completion_tokens"],
    [{ max_tokens: 32_768 }, { max_tokens: 32_769 }, "max_tokens"],
    [{ n: 8 }, { n: 9 }, "n"],
    [{ stop: ["a", "b", "c", "d"] }, { stop: ["a", "b", "c", "d", "e"] }, "stop"],
    [{ temperature: 2 }, { temperature: 2.1 }, "temperature"],
    [{ max_completion_tokens: 7 }, { max_completion_tokens: 7.5 }, "max_completion_tokens"],
  ] as const)("a chat request may have %j but not %j", ([inside, outside, param]) => {
    expect(() => readChat({ ...hello, ...inside }, 100)).not.toThrow();
    expect(refusal({ ...hello, ...outside })).toEqual({ code: "invalid_request", param });
  });

  test("a chat accepts a JSON schema of at most 100,000 characters", () => {
    const format = (characters: number) => ({
      ...hello,
      response_format: {
        type: "json_schema",
        json_schema: { name: "s", schema: { description: "x".repeat(characters - '{"description":""}'.length) } },
      },
    });
    expect(() => readChat(format(100_000), 100)).not.toThrow();
    expect(refusal(format(100_001))).toEqual({ code: "invalid_request", param: "response_format.json_schema.schema" });
  });

  test("counts each character of a JSON schema once, regardless of its encoding", () => {
    const format = (more: string) => ({
      ...hello,
      response_format: {
        type: "json_schema",
        json_schema: { name: "s", schema: { description: "🙂".repeat(100_000 - '{"description":""}'.length) + more } },
      },
    });
    expect(() => readChat(format(""), 100)).not.toThrow();
    expect(refusal(format("x")).param).toBe("response_format.json_schema.schema");
  });

  test("requires a name and a schema in json_schema", () => {
    const format = (json_schema: object) => ({ ...hello, response_format: { type: "json_schema", json_schema } });
    expect(refusal(format({ schema: {} })).param).toBe("response_format.json_schema.name");
    expect(refusal(format({ name: "s" })).param).toBe("response_format.json_schema.schema");
  });
});

describe("Passes supported fields to the provider unchanged", () => {
  const image = { type: "image_url", image_url: { url: "https://example.com/a.png", detail: "low" } };
  const sound = { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } };
  const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
  test.for<[string, unknown]>([
    [
      "messages",
      [
        { role: "system", content: "s" },
        { role: "developer", content: [{ type: "text", text: "d" }] },
      ],
    ],
    ["messages", [{ role: "user", name: "n", content: [{ type: "text", text: "t" }, image, sound] }]],
    ["messages", [{ role: "assistant", content: null, tool_calls: [call] }]],
    ["messages", [{ role: "assistant", content: [{ type: "refusal", refusal: "no" }] }]],
    ["messages", [{ role: "tool", content: "r", tool_call_id: "c" }]],
    ["tools", [{ type: "function", function: { name: "f", description: "d", parameters: {}, strict: true } }]],
    ["tool_choice", "required"],
    ["tool_choice", { type: "function", function: { name: "f" } }],
    ["parallel_tool_calls", false],
    ["n", 2],
    ["temperature", 0],
    ["top_p", 0.5],
    ["frequency_penalty", -2],
    ["presence_penalty", 2],
    ["logit_bias", { "50256": -100 }],
    ["logprobs", true],
    ["top_logprobs", 20],
    ["seed", 7],
    ["stop", "x"],
    ["stop", ["x", "y"]],
    ["reasoning_effort", "high"],
    ["reasoning_effort", "max"],
    ["verbosity", "low"],
    ["response_format", { type: "json_object" }],
    ["response_format", { type: "json_schema", json_schema: { name: "s", schema: {}, strict: false } }],
    ["metadata", { a: "b" }],
    ["user", "u"],
    ["safety_identifier", "u"],
    ["store", false],
    ["service_tier", "default"],
    ["service_tier", "priority"],
    ["modalities", ["text"]],
  ])("passes the field %s to the provider unchanged: %j", ([field, value]) => {
    expect(sent(readChat({ ...hello, [field]: value }, 100))[field]).toEqual(value);
  });
});

const weather = { id: "t1", type: "function", function: { name: "add", arguments: "{}" } };
const asked = { role: "user", content: "2+3?" };
const result = { role: "tool", tool_call_id: "t1", content: "5" };

describe("Passes members that clients and providers add to messages", () => {
  test.for<[string, object[]]>([
    [
      "a tool message's name, as LangChain, CrewAI and LiteLLM's examples send it",
      [asked, { role: "assistant", content: null, tool_calls: [weather] }, { ...result, name: "add" }],
    ],
    [
      // https://api-docs.deepseek.com/guides/thinking_mode, https://openrouter.ai/docs/use-cases/reasoning-tokens,
      // https://ai.google.dev/gemini-api/docs/thought-signatures
      "reasoning of DeepSeek and OpenRouter, and Gemini's thought signature",
      [
        asked,
        {
          role: "assistant",
          content: "",
          reasoning_content: "thinking",
          reasoning_details: [{ type: "reasoning.text", text: "thinking", index: 0, signature: null }],
          tool_calls: [{ index: 0, ...weather, extra_content: { google: { thought_signature: "c2ln" } } }],
        },
        result,
      ],
    ],
    [
      "a part with members of an answer, as @openai/agents sends it",
      [asked, { role: "assistant", content: [{ type: "text", text: "hello", role: "assistant" }] }, asked],
    ],
    [
      // https://openrouter.ai/docs/features/prompt-caching
      "a cache breakpoint, in a message, a part, an image and a tool call",
      [
        { role: "system", content: [{ type: "text", text: "s", cache_control: { type: "ephemeral" } }] },
        {
          role: "user",
          cache_control: { type: "ephemeral", ttl: null },
          content: [{ type: "image_url", image_url: { url: "https://example.com/a.png", format: "image/png" } }],
        },
        { role: "assistant", content: "x", annotations: [{ type: "url_citation", url_citation: { title: null } }] },
      ],
    ],
  ])("passes %s to the provider unchanged", ([, messages]) => {
    expect(sent(readChat({ ...hello, messages }, 100)).messages).toEqual(messages);
  });

  test("passes extra fields of a tool to the provider unchanged", () => {
    const tools = [
      {
        type: "function",
        cache_control: { type: "ephemeral" },
        function: { name: "f", parameters: { type: "object", default: null }, eager: true },
      },
    ];
    expect(sent(readChat({ ...hello, tools }, 100)).tools).toEqual(tools);
  });
});

test("passes a tool's schema to the provider with its numbers, names and order unchanged", () => {
  const schema =
    '{"type":"object","properties":{"2":{"maximum":9223372036854775807,"minimum":1e400},"1":{"default":1.0},"__proto__":{"const":null}}}';
  const body = `{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}],"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":${schema}}}}`;
  const json = new Request("http://f/", { method: "POST", headers: { "content-type": "application/json" } });
  const chat = readChat(parseJson(json, new TextEncoder().encode(body)), body.length);
  for (const kind of [kinds.openai, kinds.mistral, kinds["openai-compatible"]]) {
    const provider = { baseUrl: "https://provider.test/v1", kind, allowPrivate: false, drains: false };
    const { body: sentBody } = chatProviderRequest(chat, { route, provider, workspaceId });
    expect(sentBody).toContain(`"parameters":${schema}}`);
    expect(sentBody).toContain(`"schema":${schema}}`);
  }
});

test("passes messages, content parts and tool calls to the provider with numbers, member names and member order unchanged", () => {
  const messages =
    '[{"role":"user","content":[{"type":"text","text":"t","at":1e400}],"2":1,"1":0},' +
    '{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},' +
    '{"role":"tool","tool_call_id":"c","content":"5","ms":1.0,"id":9223372036854775807}]';
  const chat = readChat(parseWithSource(`{"model":"m","messages":${messages}}`), messages.length);
  const kind = kinds["openai-compatible"];
  const provider = { baseUrl: "https://provider.test/v1", kind, allowPrivate: false, drains: false };
  const { body } = chatProviderRequest(chat, { route, provider, workspaceId });
  expect(body).toContain(`"messages":${messages}`);
});

describe("Members that the gateway doesn't define", () => {
  const others = { top_k: 4, prompt_cache_retention: "24h", __proto__: { x: 1 }, moderation: { model: "m" } };

  test("a chat field that the gateway doesn't define is sent only to providers whose kind lists the field", () => {
    const chat = readChat({ ...hello, ...others }, 100);
    expect(sent(chat, kinds.openai)).toMatchObject({ prompt_cache_retention: "24h" });
    expect(sent(chat, kinds.openai)).not.toHaveProperty("top_k");
    expect(sent(chat, kinds.vllm)).toMatchObject({ top_k: 4 });
    expect(sent(chat, kinds.vllm)).not.toHaveProperty("moderation");
    expect(sent(chat)).toEqual(sent(readChat(hello, 100)));
    expect(Object.keys(chat.others ?? {})).toEqual(["top_k", "prompt_cache_retention", "moderation"]);
  });

  test.for([
    [{ audio: { voice: "alloy", format: "wav" } }],
    [{ prediction: { type: "content", content: "x" } }],
    [{ prompt_cache_options: { mode: "implicit" } }],
    [{ web_search_options: {} }],
    [{ temprature: 1 }],
    [JSON.parse('{"__proto__":{"n":9}}')],
  ] as const)("leaves out the unknown members of %j and reports their names", ([fields]) => {
    const body = Object.assign(Object.create(null), hello);
    for (const [name, value] of Object.entries(fields)) Object.defineProperty(body, name, { value, enumerable: true });
    const chat = readChat(body, 100);
    expect(Object.keys(chat.others ?? {})).toEqual(Object.keys(fields));
    expect(sent(chat, kinds.openai)).toEqual(sent(readChat(hello, 100), kinds.openai));
  });

  test.for(Object.entries(kinds))(
    "the extra members that the provider kind %s passes on are not in the chat schema and are not refused by the gateway",
    ([, { passes = [] }]) => {
      expect(passes.filter((name) => name in chatSchema.shape || name in refusedMembers)).toEqual([]);
    },
  );
});

describe("Tools that a provider would run", () => {
  const add = { type: "function", function: { name: "add" } };
  test.for(["web_search", "web_search_preview", "mcp", "code_interpreter", "file_search", "image_generation"])(
    "leaves out the tool %s, reports it, and keeps other tools",
    (type) => {
      const chat = readChat({ ...hello, tools: [{ type, x: 1 }, add], tool_choice: "required" }, 100);
      expect(chat.ignored).toEqual([type]);
      expect(sent(chat)).toMatchObject({ tools: [add], tool_choice: "required" });
    },
  );

  test("leaves out all tool settings if no tools remain", () => {
    // Only the responses API lets clients run tool_search themselves.
    const tools = [{ type: "web_search" }, { type: "tool_search", execution: "client" }];
    const chat = readChat({ ...hello, tools, tool_choice: "auto", parallel_tool_calls: false }, 100);
    expect(chat.ignored).toEqual(["web_search", "tool_search"]);
    expect(sent(chat)).toEqual(sent(readChat(hello, 100)));
  });
});

describe("Custom tools", () => {
  const format = { type: "grammar", grammar: { syntax: "lark", definition: "start: /x/" } };
  const tools = [{ type: "custom", custom: { name: "run", description: "d", format } }];
  const call = { id: "c1", type: "custom", custom: { name: "run", input: "ls\n" } };

  test.for([
    { type: "custom", custom: { name: "run" } },
    {
      type: "allowed_tools",
      allowed_tools: { mode: "required", tools: [{ type: "custom", custom: { name: "run" } }] },
    },
  ])("custom tools, their calls and the tool choice %j reach the provider", (tool_choice) => {
    const messages = [
      ...hello.messages,
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "c1", content: "file" },
    ];
    for (const kind of [kinds.openai, kinds["openai-compatible"]]) {
      expect(sent(readChat({ ...hello, messages, tools, tool_choice }, 100), kind)).toMatchObject({
        messages,
        tools,
        tool_choice,
      });
    }
  });
});

test("passes a chat's file on to the provider, and marks a file whose pages can't be counted", () => {
  const file_data = `data:application/pdf;base64,${"A".repeat(4_000)}`;
  const messages = [{ role: "user", content: [{ type: "file", file: { filename: "a.pdf", file_data } }] }];
  const chat = readChat({ ...hello, messages }, 5_000);
  expect(sent(chat).messages).toEqual(messages);
  expect(chat.hasUnmeasuredInput).toBe(true);
});

describe("null counts as absent in a chat request", () => {
  test("null counts as absent in a history that openai-python dumps with model_dump()", () => {
    const dumped = {
      refusal: null,
      annotations: null,
      audio: null,
      function_call: null,
      tool_calls: null,
      parsed: null,
      name: null,
    };
    const messages = [asked, { role: "assistant", content: "hello", ...dumped }, { ...asked, name: null }];
    expect(sent(readChat({ ...hello, messages }, 100)).messages).toEqual([
      asked,
      { role: "assistant", content: "hello" },
      asked,
    ]);
  });

  test("null counts as absent in every optional field", () => {
    const optional = Object.keys(chatSchema.shape).filter((name) => !["model", "messages"].includes(name));
    expect(optional.length).toBeGreaterThan(20);
    const nulls = Object.fromEntries(optional.map((name) => [name, null]));
    expect(readChat({ ...hello, ...nulls }, 100)).toEqual(readChat(hello, 100));
  });

  test.for([
    [{ stream: true, stream_options: { include_usage: null, include_obfuscation: null } }],
    [{ response_format: { type: "json_schema", json_schema: { name: "s", schema: {}, strict: null } } }],
    [{ tools: [{ type: "function", function: { name: "f", description: null, parameters: null, strict: null } }] }],
    [{ platform: { tools: null, max_steps: null } }],
    [{ tool_choice: { type: "function", name: null, function: { name: "f", description: null } } }],
    [{ metadata: { a: null }, logit_bias: { "7": null } }],
    [{ messages: [{ role: "user", content: [{ type: "text", text: "t", cache_control: null }] }] }],
    [
      {
        messages: [
          { role: "user", content: [{ type: "image_url", image_url: { url: "https://e.com", detail: null } }] },
        ],
      },
    ],
    [{ messages: [{ role: "assistant", content: null, tool_calls: [{ ...weather, index: null }] }] }],
  ] as const)("null counts as absent in %j", ([fields]) => {
    expect(() => readChat({ ...hello, ...fields }, 100)).not.toThrow();
  });

  test("an empty list of tool calls, which openai-java sends and OpenAI refuses, counts as absent", () => {
    const messages = [asked, { role: "assistant", content: "hello", tool_calls: [] }];
    expect(sent(readChat({ ...hello, messages }, 100)).messages).toEqual([
      asked,
      { role: "assistant", content: "hello" },
    ]);
  });

  test("null does not count as absent in a required field", () => {
    expect(refusal({ ...hello, model: null }).param).toBe("model");
    expect(refusal({ ...hello, messages: [{ role: "user", content: null }] }).param).toBe("messages.0.content");
    expect(refusal({ ...hello, messages: [null] }).code).toBe("invalid_request");
  });
});

// vLLM reads the media of any part with a `uuid`, including media that it has stored under that uuid:
// https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/chat_utils.py, _parse_chat_message_content_mm_part
describe("Refuses media that would not be counted or may belong to another tenant", () => {
  const image = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
  test.for<[string, object]>([
    ["user", { type: "text", text: "t", image_url: { url: "https://example.com/a.png" } }],
    ["user", { type: "text", text: "t", video_url: { url: "https://example.com/a.mp4" } }],
    ["user", { type: "text", text: "t", uuid: "u" }],
    ["user", { type: "text", text: "t", file: { file_id: "file-1" } }],
    ["user", { ...image, uuid: "u" }],
    ["user", { ...image, input_audio: { data: "AAAA", format: "wav" } }],
    [
      "user",
      { type: "input_audio", input_audio: { data: "AAAA", format: "wav" }, audio_url: { url: "https://e.com" } },
    ],
    ["system", { type: "text", text: "t", image_embeds: "AAAA" }],
    ["assistant", { type: "refusal", refusal: "no", uuid: "u" }],
  ])("refuses media in a part of a message of role %s: %j", ([role, part]) => {
    const param = `messages.0.content.0.${Object.keys(part).at(-1)}`;
    expect(refusal({ ...hello, messages: [{ role, content: [part] }] })).toEqual({ code: "invalid_request", param });
  });

  test("a chat request that passes media by file id is refused with unsupported_parameter", () => {
    const messages = [{ role: "user", content: [{ type: "text", text: "t", file_id: "file-1" }] }];
    const param = "messages.0.content.0.file_id";
    expect(refusal({ ...hello, messages })).toEqual({ code: "unsupported_parameter", param });
  });

  test("accepts a media member that is null", () => {
    const part = { type: "text", text: "t", uuid: null, image_url: null };
    expect(() => readChat({ ...hello, messages: [{ role: "user", content: [part] }] }, 100)).not.toThrow();
  });
});

describe("Refuses unsupported requests", () => {
  test.for([
    [{ store: true }, "store"],
    [{ service_tier: "Priority tier" }, "service_tier"],
    [{ modalities: ["text", "audio"] }, "modalities"],
    [{ modalities: ["image"] }, "modalities.0"],
    [{ modalities: ["text", "audio"], audio: { voice: "alloy", format: "wav" } }, "modalities"],
    [{ conversation: "c" }, "conversation"],
    [{ functions: [{ name: "f" }] }, "functions"],
    [{ function_call: "auto" }, "function_call"],
    [{ tools: [{ type: "toaster" }] }, "tools.0.type"],
    [{ tools: [{ type: "mcp" }], tool_choice: { type: "mcp", server_label: "s" } }, "tool_choice.type"],
    [{ tools: [{ type: "mcp" }], tool_choice: "required" }, "tool_choice"],
    [
      {
        tools: [{ type: "mcp" }],
        tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [{ type: "mcp" }] } },
      },
      "tool_choice",
    ],
    [{ previous_response_id: "r" }, "previous_response_id"],
    [{ background: true }, "background"],
    [
      { messages: [{ role: "user", content: [{ type: "file", file: { file_id: "f" } }] }] },
      "messages.0.content.0.file.file_id",
    ],
  ] as const)("refuses %j as unsupported", ([fields, param]) => {
    expect(refusal({ ...hello, ...fields })).toEqual({ code: "unsupported_parameter", param });
  });

  test("refuses a reference to audio that a provider stores", () => {
    const messages = [{ role: "assistant", content: "x", audio: { id: "audio_1" } }];
    expect(refusal({ ...hello, messages })).toEqual({ code: "unsupported_parameter", param: "messages.0.audio" });
  });

  test.for([null, 7, "x", [], {}, { model: "m" }, { model: 1, messages: [] }, { ...hello, messages: {} }])(
    "refuses the body %j as invalid",
    (body) => {
      expect(refusal(body as object).code).toBe("invalid_request");
    },
  );
});

describe("The gateway's own tools", () => {
  const serverTools = (fields: object) => readChat({ ...hello, ...fields }, 100).serverTools;
  const tool = { type: "function", function: { name: "weather" } };

  test("the gateway's own tools can be requested in `tools` or in `platform`, with 4 steps by default", () => {
    expect(serverTools({ tools: ["calculator"] })).toEqual({ maxSteps: 4, tools: ["calculator"] });
    expect(serverTools({ tools: ["calculator", "calculator"], max_steps: 8 })).toEqual({
      maxSteps: 8,
      tools: ["calculator"],
    });
    expect(serverTools({ platform: { max_steps: 1, tools: ["current_time", "calculator"] } })).toEqual({
      maxSteps: 1,
      tools: ["current_time", "calculator"],
    });
  });

  test("the gateway's own tools are described to the model and count as input", () => {
    const { body, inputBytes } = readChat({ ...hello, tools: ["calculator"], max_steps: 2 }, 100);
    expect(body).toEqual({
      ...hello,
      tools: [{ type: "function", function: expect.objectContaining({ name: "calculator" }) }],
    });
    expect(inputBytes).toBe(100 + JSON.stringify(body.tools).length);
  });

  test.for(["auto", "required"] as const)(
    "an empty `tools` list changes nothing if the gateway's own tools are used with tool_choice %s",
    (tool_choice) => {
      const asked = { ...hello, platform: { tools: ["calculator"] }, tool_choice, parallel_tool_calls: false };
      expect(readChat({ ...asked, tools: [] }, 100)).toEqual(
        expect.objectContaining({ body: readChat(asked, 100).body, ignored: [] }),
      );
    },
  );

  test("max_steps alone does not enable the gateway's own tools", () => {
    for (const fields of [
      { max_steps: 8 },
      { platform: { max_steps: 1 } },
      { platform: { tools: [] } },
      { platform: {} },
    ]) {
      expect(readChat({ ...hello, ...fields }, 100)).toMatchObject({ body: hello, serverTools: undefined });
    }
  });

  test.for([
    [{ max_steps: 0 }, "max_steps"],
    [{ max_steps: 9 }, "max_steps"],
    [{ platform: { max_steps: 9, tools: ["calculator"] } }, "platform.max_steps"],
    [{ tools: ["fetch"] }, "tools.0"],
    [{ tools: ["constructor"] }, "tools.0"],
    [{ platform: { tools: ["calculator", "exec"] } }, "platform.tools.1"],
    [{ platform: { url: "http://x" } }, "platform.url"],
    [{ tools: ["calculator", tool] }, "tools"],
    [{ tools: [tool], platform: { tools: ["calculator"] } }, "tools"],
    [{ tools: ["calculator"], platform: { tools: ["calculator"] } }, "platform.tools"],
    [{ tools: ["calculator"], max_steps: 2, platform: { max_steps: 2 } }, "max_steps"],
    [{ tools: ["calculator"], n: 2 }, "n"],
  ] as const)("refuses the tool settings %j as invalid", ([fields, param]) => {
    expect(refusal({ ...hello, ...fields })).toEqual({ code: "invalid_request", param });
  });
});

describe("The request body sent to the provider", () => {
  test("sends the provider's model name, and the output limit as max_tokens or max_completion_tokens depending on the provider", () => {
    const body = { messages: hello.messages, model: "upstream" };
    expect(sent(readChat(hello, 100))).toEqual({ ...body, max_tokens: 2_048 });
    expect(sent(readChat({ ...hello, max_completion_tokens: 9 }, 100))).toEqual({ ...body, max_tokens: 9 });
    const toOpenai = sent(readChat({ ...hello, max_tokens: 9 }, 100), kinds.openai);
    expect(toOpenai).toEqual({ ...body, max_completion_tokens: 9, service_tier: "default" });
  });

  test("a stream requests usage if the provider's kind accepts stream_options, and passes on only options that the kind supports", () => {
    for (const stream_options of [undefined, null, {}, { include_usage: false }, { include_obfuscation: false }]) {
      const chat = readChat({ ...hello, stream: true, stream_options }, 100);
      const expected = { ...stream_options, include_usage: true };
      expect(sent(chat, kinds.openai)).toMatchObject({ stream: true, stream_options: expected });
      expect(sent(chat, kinds.vllm).stream_options).toEqual({ include_usage: true });
      expect(sent(chat)).not.toHaveProperty("stream_options");
    }
  });

  test("separates the prompt caches of different workspaces", () => {
    const chat = readChat({ ...hello, prompt_cache_key: "k" }, 100);
    expect(sent(chat).prompt_cache_key).toBe(`${workspaceId}:k`);
    const none = readChat({ ...hello, prompt_cache_key: null, safety_identifier: null }, 100);
    expect(sent(none)).not.toHaveProperty("prompt_cache_key");
  });
});
