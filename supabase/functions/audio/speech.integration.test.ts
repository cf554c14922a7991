import { randomUUID } from "node:crypto";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";
import { createAppToken, createMember } from "../../tests/gateway/tenant-callers.ts";
import { leaveOnceAsked } from "../../tests/gateway/truth.ts";

/** The prices of the demo's speech model in supabase/seed.sql, in USD per million tokens of text and of audio. */
const prices = { input: 0.5, audio: 10 };
const markup = 1.2;
const sampleRate = 24_000;

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

async function speak(
  fields: object,
  { key = tenant.key, headers = {} }: { key?: string; headers?: Record<string, string> } = {},
) {
  const requestId = randomUUID();
  const response = await fetch(`${tenant.client.baseURL}/audio/speech`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      "x-request-id": requestId,
      ...headers,
    },
    body: JSON.stringify(fields),
  });
  return { requestId, response, headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
}

/** Creates a speech model whose route uses the demo provider's model with the given faulty behaviour. */
async function speechModel(behaviour: string): Promise<string> {
  const id = `speech-${behaviour}-${randomUUID()}`;
  // Inserts everything in one statement, because `npm run doctor` may check the stack at any time and must not see an
  // incomplete model.
  await tenant.db.query(
    `with model as (
       insert into ai.models (id, kind, display_name, owned_by, voices) values ($1, 'speech', $1, 'test', '{Kore}')
     ), route as (
       insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 1, 'demo_speech', $2)
     )
     insert into ai.model_prices (model_id, provider_id, input_usd_per_million, output_usd_per_million, audio_output_usd_per_million)
     values ($1, 'demo_speech', 0.5, 10, 10)`,
    [id, `demo-speech/${behaviour}`],
  );
  await tenant.db.query("insert into ai.model_grants (model_id, plan_id) values ($1, 'team')", [id]);
  return id;
}

describe("speech", () => {
  test("speech is a downloadable WAV file, with the run's details in headers", async () => {
    const { headers, bytes, requestId } = await speak({ input: "Hello there, this is a test.", voice: "Kore" });
    expect(headers.get("content-type")).toBe("audio/wav");
    expect(headers.get("content-disposition")).toBe('attachment; filename="speech.wav"');
    expect(headers.get("cache-control")).toContain("no-store");
    expect(bytes.subarray(0, 4).toString()).toBe("RIFF");
    expect([bytes.readUInt32LE(4), bytes.readUInt32LE(40)]).toEqual([bytes.length - 8, bytes.length - 44]);
    expect([bytes.readUInt16LE(22), bytes.readUInt32LE(24), bytes.readUInt16LE(34)]).toEqual([1, sampleRate, 16]);
    const { run, charged, truth } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "succeeded", usage_source: "provider", feature: "speech" });
    expect([run.input_tokens, run.output_tokens]).toEqual([truth[0]?.usage.input, truth[0]?.usage.output]);
    const cost = (run.input_tokens * prices.input + run.output_tokens * prices.audio) / 1_000_000;
    expect(Number(run.cost_usd)).toBeCloseTo(cost, 12);
    expect(Number(charged)).toBeCloseTo(cost * 10_000 * markup, 8);
    expect(headers.get("x-platform-run-id")).toMatch(/^[0-9a-f-]{36}$/);
    expect(Number(headers.get("x-platform-billed-credits"))).toBe(Number(charged));
    expect(Number(headers.get("x-platform-output-tokens"))).toBe(run.output_tokens);
    expect(headers.get("x-platform-usage-source")).toBe("provider");
  });

  test("speech has the same samples in WAV and raw PCM, differs between voices, and works with the standard client", async () => {
    const ask = async (response_format: "wav" | "pcm", voice: string) => {
      const answer = await tenant.client.audio.speech.create({
        model: "demo-speech",
        voice,
        input: "Hi",
        response_format,
      });
      return { type: answer.headers.get("content-type"), bytes: Buffer.from(await answer.arrayBuffer()) };
    };
    const [wav, pcm, other] = [await ask("wav", "alloy"), await ask("pcm", "alloy"), await ask("pcm", "Puck")];
    expect(pcm.type).toBe("audio/pcm;rate=24000");
    expect(wav.bytes.subarray(44)).toEqual(pcm.bytes);
    expect(other.bytes).not.toEqual(pcm.bytes);
  });

  test("accepts 10,000 characters of speech input", async () => {
    const { response, bytes } = await speak({ input: "x".repeat(10_000), response_format: "pcm" });
    expect([response.status, bytes.length]).toEqual([200, 10_000 * 0.05 * sampleRate * 2]);
  });

  test.for([
    [{ input: "a", voice: "unknown" }, 400, "invalid_request", "voice"],
    [{ input: "a", response_format: "mp3" }, 400, "invalid_request", "response_format"],
    [{ input: "a", model: "demo-chat" }, 404, "endpoint_not_served", "model"],
  ] as const)("refuses the speech request %j with %d", async ([fields, status, code, param]) => {
    const { response, bytes } = await speak(fields);
    expect([response.status, JSON.parse(bytes.toString()).error]).toMatchObject([status, { code, param }]);
  });

  test("refuses a speech request of 70 KB with 413", { tags: "needs-stack-server" }, async () => {
    const { response, bytes } = await speak({ input: "a".repeat(70_000) });
    expect([response.status, JSON.parse(bytes.toString()).error]).toMatchObject([
      413,
      { code: "payload_too_large", param: null },
    ]);
  });

  test("the error for an unknown voice names the endpoint that lists each model's voices", async () => {
    const { bytes } = await speak({ input: "a", voice: "unknown" });
    const { message } = JSON.parse(bytes.toString()).error;
    expect(message).toBe("The model does not have this voice. GET /v1/models lists the voices of each model.");
  });

  test("refuses an app token without tts:use with 403 before it validates the body", async () => {
    const person = await createMember(tenant);
    const { app, token } = await createAppToken(tenant, person);
    await tenant.db.query("update private.apps set scopes = '{workspace:session,ai:use}' where id = $1", [app.id]);
    const headers = { "X-Platform-Workspace-Id": tenant.workspaceId };
    for (const fields of [{ input: "a" }, { input: "a", response_format: "mp3" }, { input: 7 }]) {
      const { response, bytes } = await speak(fields, { key: token, headers });
      expect([response.status, JSON.parse(bytes.toString()).error.code]).toEqual([403, "insufficient_scope"]);
    }
  });

  test("charges speech by the length of its audio if the provider states no usage", async () => {
    const input = "Hello there";
    const { requestId, headers } = await speak({ input, model: await speechModel("demo-no-usage") });
    const { run, truth } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "succeeded", usage_source: "provider_partial" });
    expect(run.output_tokens).toBe(truth[0]?.usage.output);
    expect(headers.get("x-platform-usage-source")).toBe("provider_partial");
  });

  test.for([
    ["demo-error-500", 502],
    ["demo-error-429", 429],
    ["demo-cut", 502],
    ["demo-garbage", 502],
    ["demo-reset", 502],
  ] as const)("charges nothing for speech if the provider fails (%s), and answers %i", async ([behaviour, status]) => {
    const { requestId, response } = await speak({ input: "Hello", model: await speechModel(behaviour) });
    expect(response.status).toBe(status);
    const { run, charged } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "failed", usage_source: "unavailable" });
    expect(charged).toBe("0.00000000");
  });

  test("cancels speech at the provider if the client leaves", { tags: "needs-stack-server" }, async () => {
    const model = await speechModel("demo-slow");
    const requestId = randomUUID();
    const leaving = new AbortController();
    const call = tenant.client.audio.speech.create(
      { model, voice: "Kore", input: "Hello" },
      { headers: { "x-request-id": requestId }, signal: leaving.signal },
    );
    void leaveOnceAsked(tenant, { requestId, leaving });
    await expect(call).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    const { run, truth } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "cancelled", http_status: 499, usage_source: "estimated_partial" });
    expect(truth).toMatchObject([{ aborted: true }]);
  });

  test("lists speech models with their voices", async () => {
    expect(await tenant.client.models.retrieve("demo-speech")).toMatchObject({
      platform: { kind: "speech", voices: expect.arrayContaining(["Kore"]) },
    });
  });
});
