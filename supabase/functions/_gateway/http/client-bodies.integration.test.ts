import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

async function ask(
  path: string,
  body: object,
): Promise<{ status: number; json: { platform?: { ignored?: string[] } } }> {
  const response = await fetch(tenant.client.baseURL + path, {
    method: "POST",
    headers: { authorization: `Bearer ${tenant.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "demo-chat", ...body }),
  });
  return { status: response.status, json: await response.json() };
}

const hi = { role: "user", content: "hi" };
const question = { role: "user", content: "2+3?" };
const call = { id: "t1", type: "function", function: { name: "add", arguments: "{}" } };
const result = { role: "tool", tool_call_id: "t1", content: "5" };

describe("a client's chat", () => {
  test.for<[string, object]>([
    [
      "LangChain, CrewAI and Instructor add a name to a tool message",
      { messages: [question, { role: "assistant", content: null, tool_calls: [call] }, { ...result, name: "add" }] },
    ],
    [
      "the AI SDK, Pydantic AI and Mastra send reasoning back",
      {
        messages: [
          question,
          {
            role: "assistant",
            content: "",
            reasoning_content: "thinking",
            reasoning_details: [{ type: "reasoning.text", text: "thinking" }],
            tool_calls: [{ index: 0, ...call, extra_content: { google: { thought_signature: "c2ln" } } }],
          },
          result,
        ],
      },
    ],
    [
      "openai-python sends a message back with its null fields",
      {
        messages: [
          hi,
          {
            role: "assistant",
            content: "hello",
            refusal: null,
            annotations: null,
            audio: null,
            function_call: null,
            tool_calls: null,
            parsed: null,
          },
          hi,
        ],
        tools: null,
      },
    ],
    [
      "@openai/agents sends a content part back with extra fields",
      {
        messages: [
          hi,
          { role: "assistant", content: [{ type: "text", text: "hello", role: "assistant", refusal: null }] },
          hi,
        ],
      },
    ],
    [
      "coding agents mark content to cache",
      {
        messages: [
          { role: "system", content: [{ type: "text", text: "s", cache_control: { type: "ephemeral" } }] },
          hi,
        ],
      },
    ],
  ])("serves a chat if %s", async ([, body]) => {
    const { status, json } = await ask("/chat/completions", body);
    expect(status).toBe(200);
    expect(json.platform).not.toHaveProperty("ignored");
  });

  test("serves a chat that follows OpenAI's schema, and lists the fields that were not sent to the provider", async () => {
    const { status, json } = await ask("/chat/completions", {
      messages: [hi],
      audio: { voice: "alloy", format: "wav" },
      prompt_cache_retention: "24h",
      prompt_cache_options: { mode: "implicit" },
      moderation: { model: "omni-moderation-latest" },
      safety_identifier: "u",
      store: false,
      top_k: 40,
      tools: [{ type: "web_search" }, { type: "function", function: { name: "add" } }],
    });
    expect(status).toBe(200);
    expect(json.platform?.ignored?.toSorted()).toEqual([
      "audio",
      "moderation",
      "prompt_cache_options",
      "top_k",
      "web_search",
    ]);
  });

  test("serves a chat in which the model calls a custom tool, streamed or not, and the client returns the tool's result", async () => {
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "call run with ls -l\n" }];
    const tools: OpenAI.ChatCompletionTool[] = [{ type: "custom", custom: { name: "run" } }];
    const { choices } = await tenant.client.chat.completions.create({ model: "demo-chat", messages, tools });
    const [message] = choices.map((choice) => choice.message);
    expect(message?.tool_calls).toMatchObject([{ type: "custom", custom: { name: "run", input: "ls -l\n" } }]);
    if (message?.tool_calls?.[0] === undefined) throw new Error("no call");
    const stream = await tenant.client.chat.completions.create({ model: "demo-chat", messages, tools, stream: true });
    let input = "";
    for await (const chunk of stream) {
      const [piece] = (chunk.choices[0]?.delta.tool_calls ?? []) as { custom?: { input?: string } }[];
      input += piece?.custom?.input ?? "";
    }
    expect(input).toBe("ls -l\n");
    messages.push(message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: "total 0" });
    const after = await tenant.client.chat.completions.create({ model: "demo-chat", messages, tools });
    expect(after.choices[0]?.message.content).toContain("total 0");
  });
});

describe("a Responses API request", () => {
  test("serves a Responses API request with a null field, as LlamaIndex sends it", async () => {
    expect((await ask("/responses", { input: "hi", user: null })).status).toBe(200);
  });

  test("serves a Responses API request with every field of OpenAI's schema, and lists the fields that were not sent to the provider", async () => {
    const pdf = { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERi0=" };
    const { status, json } = await ask("/responses", {
      input: [{ role: "user", content: [{ type: "input_text", text: "hi" }, pdf] }],
      prompt: { id: "pmpt_1" },
      max_tool_calls: 2,
      prompt_cache_retention: "24h",
      context_management: [{ type: "compaction" }],
      moderation: { model: "omni-moderation-latest" },
      client_metadata: { session: "s" },
      include: ["reasoning.encrypted_content", "web_search_call.results"],
      tools: [{ type: "web_search", external_web_access: false }],
    });
    expect(status).toBe(200);
    expect(json.platform?.ignored?.toSorted()).toEqual([
      "client_metadata",
      "context_management",
      "max_tool_calls",
      "moderation",
      "prompt",
      "web_search",
      "web_search_call.results",
    ]);
  });

  test("a Responses API request can use a custom tool from a namespace in its input, with and without streaming", async () => {
    const run = { type: "custom" as const, name: "run", format: { type: "text" as const } };
    const input: OpenAI.Responses.ResponseInput = [
      {
        type: "additional_tools",
        role: "developer",
        tools: [{ type: "namespace", name: "functions", description: "d", tools: [run] }],
      },
      { role: "user", content: "call run with ls -l\n" },
    ];
    const whole = await tenant.client.responses.create({ model: "demo-chat", input, store: false });
    const called = { type: "custom_tool_call", name: "run", namespace: "functions", input: "ls -l\n" };
    expect(whole.output).toMatchObject([called]);
    const final = await tenant.client.responses.stream({ model: "demo-chat", input, store: false }).finalResponse();
    expect(final.output).toMatchObject([called]);
    const [item] = whole.output;
    if (item?.type !== "custom_tool_call") throw new Error("no call");
    const output = { type: "custom_tool_call_output" as const, call_id: item.call_id, output: "total 0" };
    const after = await tenant.client.responses.create({
      model: "demo-chat",
      input: [...input, item, output],
      store: false,
    });
    expect(after.output_text).toContain("total 0");
  });

  test("refuses a Responses API request that refers to a stored item, and recommends store: false in the error", async () => {
    const { status, json } = await ask("/responses", {
      input: [
        { role: "user", content: [{ type: "input_text", text: "2+3?" }] },
        { type: "item_reference", id: "fc_1" },
        { type: "function_call_output", call_id: "t1", output: "5" },
      ],
    });
    expect(status).toBe(400);
    expect(json).toMatchObject({
      error: { code: "unsupported_parameter", param: "input.1.id", message: expect.stringContaining("store: false") },
    });
  });
});

describe("OpenAI endpoints that the gateway does not serve", () => {
  const ofClient: Record<string, (client: OpenAI) => PromiseLike<unknown>> = {
    completions: ({ completions }) => completions.create({ model: "demo-chat", prompt: "hi" }),
    moderations: ({ moderations }) => moderations.create({ input: "hi" }),
    "images/generations": ({ images }) => images.generate({ prompt: "hi" }),
    files: ({ files }) => files.list(),
    batches: ({ batches }) => batches.list(),
    uploads: ({ uploads }) => uploads.create({ bytes: 1, filename: "a", mime_type: "text/plain", purpose: "batch" }),
    "fine_tuning/jobs": ({ fineTuning }) => fineTuning.jobs.list(),
    vector_stores: ({ vectorStores }) => vectorStores.list(),
    assistants: ({ beta }) => beta.assistants.list(),
    threads: ({ beta }) => beta.threads.create(),
    conversations: ({ conversations }) => conversations.create(),
    containers: ({ containers }) => containers.list(),
    evals: ({ evals }) => evals.list(),
    videos: ({ videos }) => videos.list(),
    "realtime/client_secrets": ({ realtime }) => realtime.clientSecrets.create({}),
    "responses/compact": ({ responses }) => responses.compact({ model: "demo-chat", input: "hi" }),
    "responses/{id}": ({ responses }) => responses.retrieve("resp_1"),
    "chat/completions/{id}": ({ chat }) => chat.completions.retrieve("chatcmpl_1"),
    "audio/transcriptions": ({ audio }) =>
      audio.transcriptions.create({ model: "whisper-1", file: new File(["x"], "a.wav") }),
  };

  test.for(Object.keys(ofClient))(
    "OpenAI's endpoint %s answers 404 in OpenAI's error format with the request's id",
    async (path) => {
      const error = await ofClient[path]?.(tenant.client).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      expect(error).toBeInstanceOf(OpenAI.NotFoundError);
      expect(error).toMatchObject({
        code: "not_found",
        requestID: expect.stringMatching(/^req_/),
        error: { type: "invalid_request_error", param: null, message: expect.stringContaining("/v1/models") },
      });
    },
  );

  test("ignores a trailing slash in the path of a request, and answers HEAD requests without a body", async () => {
    const headers = { authorization: `Bearer ${tenant.key}` };
    for (const path of ["/models", "/models/", "/models/demo-chat/"]) {
      const answer = await fetch(tenant.client.baseURL + path, { headers });
      expect([path, answer.status]).toEqual([path, 200]);
      const head = await fetch(tenant.client.baseURL + path, { method: "HEAD", headers });
      expect([path, head.status, await head.text()]).toEqual([path, 200, ""]);
    }
    expect((await ask("/chat/completions/", { messages: [hi] })).status).toBe(200);
  });

  test("answers a compressed body with 415", async () => {
    const response = await fetch(`${tenant.client.baseURL}/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${tenant.key}`,
        "content-type": "application/json",
        "content-encoding": "gzip",
      },
      body: await new Response(new Blob(["{}"]).stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer(),
    });
    expect(response.status).toBe(415);
    expect((await response.json()).error.message).toContain("Content-Encoding");
  });
});
