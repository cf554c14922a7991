import { Agent, request } from "node:http";
import { setImmediate } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

const hello = { model: "demo-chat", messages: [{ role: "user", content: "hello" }] };
const withText = (text: string) => `{"model":"demo-chat","messages":[{"role":"user","content":"${text}"}]}`;

async function post(body: BodyInit, headers: Record<string, string> = {}) {
  const response = await fetch(`${tenant.client.baseURL}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${tenant.key}`, "content-type": "application/json", ...headers },
    body,
  });
  return { status: response.status, ...((await response.json()) as { error: Record<string, unknown> }) };
}

describe("answers a bad body with a client error in OpenAI's format", () => {
  const bodies: [string, string | Uint8Array<ArrayBuffer>, string][] = [
    ["nothing", "", "invalid_json"],
    ["an incomplete JSON object", '{"model":', "invalid_json"],
    ["an array", "[]", "invalid_request"],
    ["a lone surrogate", withText("\\ud800"), "invalid_request"],
    ["a NUL character", withText("\\u0000"), "invalid_request"],
    ["a raw NUL byte", withText("\u0000"), "invalid_json"],
    ["a NUL character in the model's name", '{"model":"demo\\u0000chat","messages":[]}', "invalid_request"],
    [
      "invalid UTF-8",
      new Uint8Array([...new TextEncoder().encode('{"model":"'), 0xc3, 0x28, 0x22, 0x7d]),
      "invalid_json",
    ],
    ["deep nesting", `{"model":${"[".repeat(100_000)}${"]".repeat(100_000)}}`, "invalid_request"],
    ["deep nesting in a schema", JSON.stringify({ ...hello, metadata: { a: nested(500) } }), "invalid_request"],
    ["a number instead of messages", '{"model":"demo-chat","messages":7}', "invalid_request"],
    ["an enormous number", '{"model":"demo-chat","messages":[],"n":1e999}', "invalid_request"],
    ["a `__proto__` member", '{"model":"demo-chat","messages":[],"__proto__":{"n":8}}', "invalid_request"],
    [
      "a schema of 100,001 characters",
      JSON.stringify({ ...hello, response_format: schemaOf(100_001) }),
      "invalid_request",
    ],
  ];
  test.for(bodies)("answers a bad body with 400 in OpenAI's format: %s", async ([, body, code]) => {
    const { status, error } = await post(body);
    expect([status, error.code]).toEqual([400, code]);
    expect(error).toMatchObject({ type: "invalid_request_error", request_id: expect.stringMatching(/^req_/) });
  });

  test("says how to find a model that accepts audio if the requested one does not", async () => {
    const sound = { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } };
    const { status, error } = await post(JSON.stringify({ ...hello, messages: [{ role: "user", content: [sound] }] }));
    expect([status, error.code, error.param]).toEqual([400, "unsupported_parameter", "messages"]);
    expect(error.message).toBe(
      "This model takes no audio. Send text, or choose a model whose prices in GET /v1/models have audio_input_usd_per_million.",
    );
  });

  test("answers a content type other than JSON with 415", async () => {
    expect(await post(JSON.stringify(hello), { "content-type": "text/plain" })).toMatchObject({ status: 415 });
  });

  test("answers a body of 10 MB with 413, with or without a stated length", {
    tags: "needs-stack-server",
  }, async () => {
    const body = withText("x".repeat(10_000_000));
    for (const announced of [true, false]) {
      const { status, text } = await postOnce(body, announced);
      expect([status, JSON.parse(text).error.code]).toEqual([413, "payload_too_large"]);
    }
  });

  test.for([
    ["x-request-id", "bad id"],
    ["x-request-id", "x".repeat(129)],
    ["X-Platform-Operation", "a/b"],
    ["X-Platform-Entity-Id", "x".repeat(129)],
    ["idempotency-key", "x".repeat(256)],
  ] as const)("answers 400 and names the header that is invalid: %s: %s", async ([name, value]) => {
    const { status, error } = await post(JSON.stringify(hello), { [name]: value });
    expect([status, error.param]).toEqual([400, name]);
  });

  test("a call whose header names another workspace gets 403", async () => {
    for (const workspace of ["0b6b1a3e-0000-4000-8000-000000000000", "nonsense"]) {
      const { status, error } = await post(JSON.stringify(hello), { "X-Platform-Workspace-Id": workspace });
      expect([status, error.code]).toEqual([403, "workspace_mismatch"]);
      // The caller and the workspace are checked before the body and the other headers.
      const worse = await post("{", { "X-Platform-Workspace-Id": workspace, "X-Platform-Operation": "a/b" });
      expect([worse.status, worse.error.code]).toEqual([403, "workspace_mismatch"]);
    }
  });
});

describe("the last credits of a balance", () => {
  test("the last credits admit only as many concurrent calls as they cover", async () => {
    // A call reserves about 0.8 credits, nearly all of it for 100 output tokens.
    const poor = await createGatewayTenant({ credits: "4" });
    const calls = await Promise.allSettled(
      Array.from({ length: 100 }, () =>
        poor.client.chat.completions.create({
          model: "demo-slow",
          messages: [{ role: "user", content: "[[words=1 first=400]]" }],
          max_completion_tokens: 100,
        }),
      ),
    );
    const admitted = calls.filter(({ status }) => status === "fulfilled").length;
    const refused = calls.flatMap((call) => (call.status === "rejected" ? [call.reason.status] : []));
    expect(admitted).toBeGreaterThan(0);
    expect(new Set(refused)).toEqual(new Set([402]));
    const reserved = "select max(reserved_credits)::text as one from ai.runs where workspace_id = $1";
    const [{ one }] = (await poor.db.query(reserved, [poor.workspaceId])) as [{ one: string }];
    // Settled calls cost less than they reserved, so more calls may be admitted than the balance could reserve at once.
    // The balance must never become negative.
    const { balance } = await poor.books();
    expect(Number(balance)).toBeGreaterThanOrEqual(0);
    expect(admitted).toBeGreaterThanOrEqual(Math.floor(4 / Number(one)));
    await poor.close();
  });
});

function nested(depth: number): unknown {
  return depth === 0 ? "x" : [nested(depth - 1)];
}

function schemaOf(characters: number): object {
  const schema = { description: "x".repeat(characters - '{"description":""}'.length) };
  return { type: "json_schema", json_schema: { name: "s", schema } };
}

/**
 * Posts a body on a separate connection and returns the answer. Sends the body in chunks unless its length is
 * announced.
 */
async function postOnce(body: string, announced: boolean): Promise<{ status?: number; text: string }> {
  // On a kept-alive connection, the server still reads the rest of the body after an early answer. If it closed the
  // connection instead, the answer could be lost.
  const agent = new Agent({ keepAlive: true });
  const call = request(new URL(`${tenant.client.baseURL}/chat/completions`), {
    method: "POST",
    agent,
    headers: {
      authorization: `Bearer ${tenant.key}`,
      "content-type": "application/json",
      ...(announced ? { "content-length": String(body.length) } : { "transfer-encoding": "chunked" }),
    },
  });
  let answered = false;
  const answer = new Promise<{ status?: number; text: string }>((resolve, reject) => {
    call.once("response", (response) => {
      answered = true;
      let text = "";
      response.setEncoding("utf8").on("data", (data) => {
        text += data;
      });
      response.once("end", () => resolve({ status: response.statusCode, text }));
    });
    // Ignores an error after the answer, because sending the rest of the body to a closed connection fails.
    call.on("error", (error) => answered || reject(error));
  });
  for (let at = 0; at < body.length && !answered; at += 65_536) {
    call.write(body.slice(at, at + 65_536));
    await setImmediate();
  }
  return answer.finally(() => {
    call.destroy();
    agent.destroy();
  });
}
