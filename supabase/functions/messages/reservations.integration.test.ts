import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { MessageParams } from "../../tests/gateway/messages-client.ts";
import { createMessagesTenant, type MessagesTenant } from "../../tests/gateway/messages-tenant.ts";
import { buildPdf } from "../_gateway/usage/pdf-fixtures.ts";

let tenant: MessagesTenant;
beforeAll(async () => {
  tenant = await createMessagesTenant();
});
afterAll(() => tenant.close());

const scan = buildPdf({ pages: 1, pictureBytes: 786_000 }).toString("base64");
const document = {
  type: "document",
  source: { type: "base64", media_type: "application/pdf", data: scan },
};
const search = (max_uses: number) => ({
  type: "web_search_20250305",
  name: "web_search",
  max_uses,
});

/** Sends a message. Returns the amount that its run had reserved. */
async function reservedUsd(params: Partial<MessageParams>): Promise<number> {
  const requestId = `it-${randomUUID()}`;
  const body = { model: "demo-messages", max_tokens: 1_000, messages: [{ role: "user" as const, content: "hello" }] };
  await tenant.messages.create({ ...body, ...params }, { headers: { "x-request-id": requestId } });
  await tenant.accountOf(requestId);
  const [run] = await tenant.db.query<{ usd: number }>(
    "select reserved_usd::float as usd from ai.runs where request_id = $1 and workspace_id = $2",
    [requestId, tenant.workspaceId],
  );
  if (!run) throw new Error("no run");
  return run.usd;
}

// A page and the output limit cost 0.0198 USD.
test.for<[string, object]>([
  ["a message", document],
  ["a tool result", { type: "tool_result", tool_use_id: "t", content: [document] }],
])("a scanned page in %s reserves no more than ten times its cost", async ([, block]) => {
  const usd = await reservedUsd({
    messages: [{ role: "user", content: [block, { type: "text", text: "Summarize." }] }],
  });
  expect(usd).toBeGreaterThan(0.0198);
  expect(usd).toBeLessThan(0.198);
});

// Claude Code sends max_uses 8. Eight results of 12,000 tokens would be read 36 times in all.
test("eight searches reserve at most what their results can cost", async () => {
  const usd = await reservedUsd({ max_tokens: 32_000, tools: [search(8)] });
  expect(usd).toBeGreaterThan(0.56);
  expect(usd).toBeLessThanOrEqual(2.18);
});

test("counts tokens although the budget is spent", async () => {
  await tenant.db.query(
    `insert into ai.budgets (scope, subject_id, workspace_id, limit_usd, spent_usd, period_start)
     values ('workspace', $1, $1, 1, 2, date_trunc('month', now() at time zone 'UTC'))`,
    [tenant.workspaceId],
  );
  const prompt = { model: "demo-messages", messages: [{ role: "user" as const, content: "hello" }] };
  await expect(tenant.messages.create({ ...prompt, max_tokens: 10 })).rejects.toMatchObject({ status: 402 });
  expect((await tenant.messages.countTokens(prompt)).input_tokens).toBeGreaterThan(0);
});
