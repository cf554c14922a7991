import { randomUUID } from "node:crypto";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";
import { leaveOnceAsked, providerCalls } from "../../../tests/gateway/truth.ts";

let keeping: GatewayTenant;
let plain: GatewayTenant;
beforeAll(async () => {
  [keeping, plain] = await Promise.all([createGatewayTenant(), createGatewayTenant()]);
  await keeping.db.query("insert into ai.workspace_policies (workspace_id, content_capture) values ($1, true)", [
    keeping.workspaceId,
  ]);
});
afterAll(() => Promise.all([keeping.close(), plain.close()]));

const newId = () => `it-${randomUUID()}`;
const chat = (content: string, fields: object = {}) => ({
  model: "demo-chat",
  messages: [{ role: "user" as const, content }],
  ...fields,
});

/** Posts a request and returns the raw answer, which standard clients don't show. */
async function post(tenant: GatewayTenant, call: { path?: string; body: object; key: string; requestId?: string }) {
  const { path = "/chat/completions", body, key, requestId = newId() } = call;
  const response = await fetch(tenant.client.baseURL + path, {
    method: "POST",
    headers: {
      authorization: `Bearer ${tenant.key}`,
      "content-type": "application/json",
      "idempotency-key": key,
      "x-request-id": requestId,
    },
    body: JSON.stringify(body),
  });
  const replayed = response.headers.get("x-platform-idempotent-replay");
  return { status: response.status, headers: response.headers, replayed, text: await response.text(), requestId };
}

async function contentOf({ db, workspaceId }: GatewayTenant, requestId: string) {
  const rows = await db.query(
    `select c.prompt, c.tools, c.answer from ai.run_content c join ai.runs r on r.created_at = c.run_created_at and r.id = c.run_id
     where r.workspace_id = $1 and r.request_id = $2`,
    [workspaceId, requestId],
  );
  return rows[0];
}

const chunksOf = (text: string) =>
  text.split("\n\n").flatMap((event) => {
    const data = /^data: (\{.*)$/m.exec(event)?.[1];
    return data ? [JSON.parse(data)] : [];
  });

describe("the content that the gateway captures for a workspace", () => {
  test("captures the prompt and the answer, unchanged", async () => {
    const call = { body: chat("remember me"), key: newId() };
    const { text, requestId } = await post(keeping, call);
    await keeping.accountOf(requestId);
    expect(await contentOf(keeping, requestId)).toEqual({
      prompt: JSON.stringify(call.body),
      tools: null,
      answer: text,
    });
  });

  test("captures the arguments and results of server tools", async () => {
    const body = chat('call calculator with {"expression":"6*7"}', { platform: { tools: ["calculator"] } });
    const { requestId } = await post(keeping, { body, key: newId() });
    await keeping.accountOf(requestId);
    expect(JSON.parse((await contentOf(keeping, requestId))?.tools)).toEqual([
      { name: "calculator", arguments: '{"expression":"6*7"}', result: expect.stringContaining("42") },
    ]);
  });

  test("captures only the prompt if the answer is incomplete", async () => {
    const body = chat("[[words=20 pace=5]]", { model: "demo-cut", stream: true });
    const { requestId } = await post(keeping, { body, key: newId() });
    await keeping.accountOf(requestId);
    expect(await contentOf(keeping, requestId)).toEqual({ prompt: JSON.stringify(body), tools: null, answer: null });
  });

  test("captures nothing unless the workspace's policy enables capture", async () => {
    const { requestId } = await post(plain, { body: chat("forget me"), key: newId() });
    await plain.accountOf(requestId);
    expect(await contentOf(plain, requestId)).toBeUndefined();
  });
});

describe("a repeated call", () => {
  const bodies: [string, string, object][] = [
    ["a chat", "/chat/completions", chat("again")],
    [
      "a chat with server tools",
      "/chat/completions",
      chat("call current_time", { platform: { tools: ["current_time"] } }),
    ],
    ["a response", "/responses", { model: "demo-chat", input: "again" }],
    ["embeddings", "/embeddings", { model: "demo-embedding", input: "again" }],
  ];
  test.for(bodies)(
    "a repeat of %s with the same idempotency key is answered from the store, without a second provider call or charge",
    async ([, path, body]) => {
      const key = newId();
      const first = await post(keeping, { path, body, key });
      const { charged } = await keeping.accountOf(first.requestId);
      const before = await keeping.books();
      const calls = await providerCalls(keeping, first.requestId);
      const second = await post(keeping, { path, body, key });
      expect(second).toMatchObject({ status: 200, replayed: "true", text: first.text });
      expect(second.headers.get("x-request-id")).toBe(second.requestId);
      expect(first.replayed).toBeNull();
      expect(calls).toBeGreaterThan(0);
      expect(await providerCalls(keeping, first.requestId)).toBe(calls);
      expect(await providerCalls(keeping, second.requestId)).toBe(0);
      expect(await keeping.books()).toEqual(before);
      expect(Number(charged)).toBeGreaterThan(0);
    },
  );

  test("a repeated streaming call gets all content in one chunk, and then the last event", async () => {
    const key = newId();
    const body = chat("again and again", { stream: true, stream_options: { include_usage: true }, n: 2 });
    const first = await post(keeping, { body, key });
    await keeping.accountOf(first.requestId);
    const second = await post(keeping, { body, key });
    expect(second).toMatchObject({ status: 200, replayed: "true" });
    expect(second.text.endsWith("data: [DONE]\n\n")).toBe(true);
    const [content, completed, ...more] = chunksOf(second.text);
    expect(more).toEqual([]);
    const of = (text: string, index: number) =>
      chunksOf(text)
        .flatMap(({ choices }) => choices)
        .filter((choice) => choice.index === index)
        .map(({ delta }) => delta.content ?? "")
        .join("");
    for (const index of [0, 1]) {
      expect(content.choices[index]).toMatchObject({ index, finish_reason: "stop", delta: { role: "assistant" } });
      expect(of(second.text, index)).toBe(of(first.text, index));
    }
    expect(completed).toEqual(chunksOf(first.text).at(-1));
    expect(await providerCalls(keeping, first.requestId)).toBe(1);
    expect(await providerCalls(keeping, second.requestId)).toBe(0);
  });

  test("the OpenAI client's stream helpers return the same text and function calls for a repeated call", async () => {
    const tools = [{ type: "function" as const, function: { name: "weather", parameters: { type: "object" } } }];
    const idempotent = () => ({ headers: { "idempotency-key": key } });
    const key = newId();
    const ask = () =>
      keeping.client.chat.completions.stream({ ...chat("call weather"), tools }, idempotent()).finalMessage();
    const message = await ask();
    expect(message.tool_calls).toMatchObject([{ type: "function", function: { name: "weather" } }]);
    await expect.poll(ask).toEqual(message);

    const other = newId();
    const respond = (input: string, named = other) =>
      keeping.client.responses
        .stream(
          { model: "demo-chat", input, tools: [{ type: "function", name: "weather", parameters: {}, strict: false }] },
          { headers: { "idempotency-key": named } },
        )
        .finalResponse();
    const response = await respond("hello");
    const { output_text, output: said } = response;
    await expect.poll(() => respond("hello")).toMatchObject({ output_text, output: said });
    const called = newId();
    const { output } = await respond("call weather", called);
    await expect.poll(() => respond("call weather", called)).toMatchObject({ output });
  });

  test("a repeated call without a stored answer gets 409 with the run and its usage, and advice not to retry", async () => {
    const call = { body: chat("once"), key: newId() };
    const first = await post(plain, call);
    const { run } = await plain.accountOf(first.requestId);
    const second = await post(plain, call);
    expect([second.status, second.headers.get("x-should-retry"), second.replayed]).toEqual([409, "false", null]);
    expect(JSON.parse(second.text).error).toMatchObject({
      code: "idempotency_key_used",
      run_id: JSON.parse(first.text).platform.run_id,
      usage: { input_tokens: run.input_tokens, output_tokens: run.output_tokens },
      request_id: second.requestId,
    });
    expect(await providerCalls(plain, first.requestId)).toBe(1);
    expect(await providerCalls(plain, second.requestId)).toBe(0);
  });

  test("an idempotency key reused with another body or path gets 422 and no details of the first call", async () => {
    const key = newId();
    await keeping.accountOf((await post(keeping, { body: chat("one"), key })).requestId);
    for (const other of [
      { body: chat("two") },
      { path: "/embeddings", body: { model: "demo-embedding", input: "x" } },
    ]) {
      const { status, text } = await post(keeping, { ...other, key });
      expect([status, JSON.parse(text).error.code]).toEqual([422, "idempotency_key_reused"]);
      expect(text).not.toContain("demo provider");
    }
  });

  test("50 concurrent calls with one idempotency key cause one provider call and one charge, and every call gets 409 or the answer", async () => {
    const call = { body: chat("[[first=150]] together"), key: newId() };
    const answers = await Promise.all(Array.from({ length: 50 }, () => post(keeping, call)));
    const called = await Promise.all(answers.map(({ requestId }) => providerCalls(keeping, requestId)));
    expect(called.reduce((sum, calls) => sum + calls, 0)).toBe(1);
    const first = answers.filter(({ status, replayed }) => status === 200 && replayed === null);
    expect(first).toHaveLength(1);
    for (const { status, replayed, text } of answers) {
      if (status === 200) expect(text).toBe(first[0]?.text);
      else expect([status, replayed, JSON.parse(text).error.code]).toEqual([409, null, "request_in_progress"]);
    }
    const runs = "select count(*)::int as n from ai.runs where workspace_id = $1 and idempotency_key = $2";
    expect(await keeping.db.query(runs, [keeping.workspaceId, call.key])).toEqual([{ n: 1 }]);
  });

  test("a call gets 409 if it reuses the idempotency key of a call that its client aborted", {
    tags: "needs-stack-server",
  }, async () => {
    const [key, requestId] = [newId(), newId()];
    const headers = { "idempotency-key": key, "x-request-id": requestId };
    const leaving = new AbortController();
    const body = chat("[[first=3000]]");
    const call = keeping.client.chat.completions.create(body, { headers, signal: leaving.signal });
    void leaveOnceAsked(keeping, { requestId, leaving });
    await expect(call).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    await keeping.accountOf(requestId);
    expect(await post(keeping, { body, key })).toMatchObject({ status: 409 });
  });
});
