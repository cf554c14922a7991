import { randomUUID } from "node:crypto";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";
import { expectTruth } from "../../tests/gateway/truth.ts";

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

const model = "demo-embedding";

describe("embeddings", () => {
  test.for([
    ["one text", "Grüße an alle"],
    ["several texts", ["a", "b", "c"]],
    ["tokens", [1, 2, 3, 4]],
    ["several lists of tokens", [[1, 2], [3]]],
  ] as [string, string | string[] | number[] | number[][]][])(
    "meters embeddings of %s to the last digit",
    async ([, input]) => {
      const requestId = randomUUID();
      const headers = { "x-request-id": requestId };
      const answer = await tenant.client.embeddings.create({ model, input, dimensions: 8 }, { headers });
      for (const { embedding } of answer.data) expect(Math.hypot(...embedding)).toBeCloseTo(1);
      const account = await tenant.accountOf(requestId);
      expect(account.run).toMatchObject({ status: "succeeded", usage_source: "provider", feature: "embeddings" });
      expect(account.run.input_tokens).toBe(answer.usage.prompt_tokens);
      expectTruth(account);
      const { platform } = answer as unknown as { platform: { billed_credits: number; steps: object[] } };
      expect(platform.billed_credits).toBe(Number(account.run.billed_credits));
      expect(platform.steps).toMatchObject([{ step: 1, type: "model", name: model, status: "succeeded" }]);
    },
  );

  test("returns the same embedding in both encodings", async () => {
    const ask = (encoding_format: "float" | "base64") =>
      tenant.client.embeddings.create({ model, input: "a", dimensions: 4, encoding_format });
    const [float] = (await ask("float")).data;
    const [base64] = (await ask("base64")).data;
    const bytes = Buffer.from(base64?.embedding as unknown as string, "base64");
    expect([...new Float32Array(new Uint8Array(bytes).buffer)]).toEqual(float?.embedding);
  });

  test.for([
    ["an empty text", { input: "" }, "input"],
    ["an empty list", { input: [] }, "input"],
    ["a mixture of texts and tokens", { input: ["a", 1] }, "input"],
    ["2,049 texts", { input: Array.from({ length: 2_049 }, () => "a") }, "input"],
    ["0 dimensions", { input: "a", dimensions: 0 }, "dimensions"],
  ] as [string, object, string][])("refuses an embeddings request with %s", async ([, fields, param]) => {
    const call = tenant.client.embeddings.create({ model, ...(fields as { input: string }) });
    await expect(call).rejects.toBeInstanceOf(OpenAI.BadRequestError);
    await expect(call).rejects.toMatchObject({ code: "invalid_request", param });
  });

  test("drops unknown fields of an embeddings request and lists them in the answer", async () => {
    const fields = { input: "a", input_type: "query", dimensions: null } as never;
    expect(await tenant.client.embeddings.create({ model, ...(fields as { input: string }) })).toMatchObject({
      platform: { ignored: ["input_type"] },
    });
  });

  test("embeds 2,048 texts, and refuses models that don't serve embeddings", async () => {
    const input = Array.from({ length: 2_048 }, () => "a");
    expect((await tenant.client.embeddings.create({ model, input, dimensions: 1 })).data).toHaveLength(2_048);
    const chat = tenant.client.embeddings.create({ model: "demo-chat", input: "a" });
    await expect(chat).rejects.toMatchObject({ status: 404, code: "endpoint_not_served" });
    const messages = [{ role: "user" as const, content: "a" }];
    await expect(tenant.client.chat.completions.create({ model, messages })).rejects.toMatchObject({
      code: "endpoint_not_served",
    });
    const none = tenant.client.embeddings.create({ model: "no-such-model", input: "a" });
    await expect(none).rejects.toMatchObject({ status: 404, code: "model_not_found" });
  });

  test("refuses an embeddings request of more than 1 MiB with 413", { tags: "needs-stack-server" }, async () => {
    const ask = (bytes: number) => {
      const frame = JSON.stringify({ model, input: "", encoding_format: "base64" });
      return tenant.client.embeddings.create({ model, input: "a".repeat(bytes - frame.length) });
    };
    expect((await ask(1_048_576)).data).toHaveLength(1);
    await expect(ask(1_048_577)).rejects.toMatchObject({ status: 413, code: "payload_too_large" });
  });
});
