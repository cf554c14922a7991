import { randomUUID } from "node:crypto";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";
import { createAiKey } from "../../_shared/ai-key.ts";

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

const newId = () => `it-${randomUUID()}`;
const chatOf = (model: string, prompt = "hello there"): OpenAI.ChatCompletionCreateParamsNonStreaming => ({
  model,
  messages: [{ role: "user", content: prompt }],
});

describe("errors", () => {
  const failing = (model: string) =>
    tenant.client.chat.completions.create(chatOf(model)).then(
      () => undefined,
      (error: unknown) => error,
    );

  test.for([
    ["demo-error-500", OpenAI.InternalServerError, { status: 502, code: "provider_error" }],
    ["demo-error-429", OpenAI.RateLimitError, { status: 429, code: "rate_limit_exceeded" }],
    ["demo-error-401", OpenAI.InternalServerError, { status: 502, code: "provider_error" }],
    ["demo-all-fail", OpenAI.RateLimitError, { status: 429, code: "rate_limit_exceeded" }],
    ["demo-reset", OpenAI.InternalServerError, { status: 502, code: "provider_error" }],
    ["demo-redirect", OpenAI.InternalServerError, { status: 502, code: "provider_error" }],
    ["demo-garbage", OpenAI.InternalServerError, { status: 502, code: "provider_error" }],
    ["demo-error-400", OpenAI.BadRequestError, { status: 400, code: "invalid_request" }],
    ["no-such-model", OpenAI.NotFoundError, { status: 404, code: "model_not_found" }],
  ] as const)(
    "the client throws the matching error class, status and code for %s",
    async ([model, type, properties]) => {
      const error = await failing(model);
      expect(error).toBeInstanceOf(type);
      expect(error).toMatchObject(properties);
      const { requestID, message } = error as InstanceType<typeof OpenAI.APIError>;
      expect(requestID).toMatch(/^req_/);
      expect(message).not.toMatch(/demo/i);
      if (model === "no-such-model") return;
      const account = await tenant.accountOf(String(requestID));
      expect(account.run).toMatchObject({
        status: "failed",
        usage_source: "unavailable",
        billed_credits: "0.00000000",
      });
      expect(account.steps.at(-1)).toMatchObject({ type: "model", status: "failed" });
    },
  );

  test("the OpenAI SDK reports a malformed or unknown key as an AuthenticationError", async () => {
    const stranger = await createGatewayTenant();
    await stranger.db.query("delete from ai.keys where id = $1", [stranger.keyId]);
    for (const apiKey of ["sk-wrong", stranger.key]) {
      const call = tenant.client.withOptions({ apiKey }).chat.completions.create(chatOf("demo-chat"));
      await expect(call).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
      await expect(call).rejects.toMatchObject({ status: 401, code: "invalid_api_key" });
    }
    await stranger.close();
  });

  test.for(["demo-reset", "demo-cut"])(
    "the gateway does not repeat a failed call to the model %s, even on a reused connection",
    async (model) => {
      for (let n = 0; n < 3; n++) {
        await tenant.client.chat.completions.create(chatOf("demo-chat"));
        const requestId = newId();
        const headers = { "x-request-id": requestId };
        const call = tenant.client.chat.completions.create(chatOf(model), { headers });
        await expect(call).rejects.toMatchObject({ status: 502 });
        await expect(call.catch((error) => error.headers.get("x-should-retry"))).resolves.toBe("false");
        expect((await tenant.accountOf(requestId)).truth).toHaveLength(1);
      }
    },
  );

  test("answers every invalid key with the same error", async () => {
    const { text: unknown } = await createAiKey();
    const answers = await Promise.all(
      ["sk-wrong", unknown].map(async (key) => {
        const answer = await fetch(`${tenant.client.baseURL}/chat/completions`, {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json", "x-request-id": "same" },
          body: JSON.stringify(chatOf("demo-chat")),
        });
        return { status: answer.status, challenge: answer.headers.get("www-authenticate"), body: await answer.json() };
      }),
    );
    expect(answers[0]).toMatchObject({ status: 401, challenge: "Bearer" });
    expect(answers[1]).toEqual(answers[0]);
  });

  test("names the invalid field of a body only to callers with a valid key", async () => {
    const bad = { ...chatOf("demo-chat"), max_completion_tokens: 0 };
    const stranger = await createGatewayTenant();
    await stranger.db.query("update ai.keys set revoked_at = now() where id = $1", [stranger.keyId]);
    await expect(stranger.client.chat.completions.create(bad)).rejects.toMatchObject({ status: 401 });
    await expect(tenant.client.chat.completions.create(bad)).rejects.toMatchObject({
      status: 400,
      code: "invalid_request",
      param: "max_completion_tokens",
    });
    await stranger.close();
  });

  test("answers an empty balance with 402", async () => {
    const poor = await createGatewayTenant({ credits: "0.0001" });
    await expect(poor.client.chat.completions.create(chatOf("demo-chat"))).rejects.toMatchObject({
      status: 402,
      code: "insufficient_credits",
    });
    await poor.close();
  });

  test("the OpenAI SDK reports an exceeded rate limit as a RateLimitError with the time to retry", async () => {
    const limited = await createGatewayTenant();
    await limited.db.query("update ai.keys set requests_per_minute = 1 where id = $1", [limited.keyId]);
    const calls = await Promise.allSettled(
      [1, 2, 3].map(() => limited.client.chat.completions.create(chatOf("demo-chat"))),
    );
    const refused = calls.flatMap((call) => (call.status === "rejected" ? [call.reason] : []));
    expect(refused.length).toBeGreaterThanOrEqual(1);
    for (const error of refused) {
      expect(error).toBeInstanceOf(OpenAI.RateLimitError);
      expect(Number(error.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
      expect(error.headers.get("x-ratelimit-limit-requests")).toBe("1");
    }
    await limited.close();
  });

  test("concurrent calls with one idempotency key call the provider once, and the others learn that the key is in use", async () => {
    const requestId = newId();
    const headers = { "x-request-id": requestId, "idempotency-key": newId() };
    const calls = await Promise.allSettled(
      Array.from({ length: 50 }, () => tenant.client.chat.completions.create(chatOf("demo-chat"), { headers })),
    );
    expect(calls.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    const { truth } = await tenant.accountOf(requestId);
    expect(truth).toHaveLength(1);
    await expect(tenant.client.chat.completions.create(chatOf("demo-chat"), { headers })).rejects.toMatchObject({
      status: 409,
      code: "idempotency_key_used",
    });
    await expect(
      tenant.client.chat.completions.create(chatOf("demo-chat", "other"), { headers }),
    ).rejects.toMatchObject({
      status: 422,
      code: "idempotency_key_reused",
    });
  });
});
