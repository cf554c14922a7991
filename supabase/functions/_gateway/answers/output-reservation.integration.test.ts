import { afterAll, beforeAll, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

let tenant: GatewayTenant;
let gateway: InProcessGateway;
beforeAll(async () => {
  tenant = await createGatewayTenant();
  gateway = await openGateway();
});
afterAll(async () => {
  await gateway.close();
  await tenant.close();
});

const outputLimit = 30_000;
const expectedOutput = 20;

/** Gives the workspace a budget that covers the input and this number of output tokens, and a history of its calls. */
async function setBudget(tokens: number): Promise<void> {
  const { db, workspaceId } = tenant;
  await db.query(
    `select ai.set_budget('workspace', $1, $1, 0.000000000001 + p.output_usd_per_million * $2 / 1000000, reserves_expected => true)
     from ai.model_prices p where p.model_id = 'demo-chat' and upper(p.valid) is null and p.service_tier = 'default'
     limit 1`,
    [workspaceId, tokens],
  );
  for (const feature of ["chat", "responses"]) {
    await db.query(
      `insert into ai.output_histories (workspace_id, model_id, feature, outputs)
       values ($1, 'demo-chat', $2, array_fill($3::bigint, array[20])) on conflict do nothing`,
      [workspaceId, feature, expectedOutput],
    );
  }
}

async function stream(path: string, words: number): Promise<string> {
  const prompt = `[[words=${words} pace=1]]`;
  const messages = [{ role: "user", content: prompt }];
  const bodies: Record<string, object> = {
    "chat/completions": { messages, max_tokens: outputLimit },
    responses: { input: prompt, max_output_tokens: outputLimit },
  };
  const response = await gateway.fetch(`http://gateway.test/v1/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${tenant.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "demo-chat", stream: true, ...bodies[path] }),
  });
  expect(response.status).toBe(200);
  const text = await response.text();
  await gateway.settled();
  return text;
}

const readBooks = async () =>
  (
    await tenant.db.query(
      `select r.status, r.error_code, r.output_tokens::int, b.spent_usd <= b.limit_usd as holds,
         b.reserved_usd = 0 and b.spent_usd = (select sum(cost_usd) from ai.runs where workspace_id = $1) as agrees
       from ai.runs r join ai.budgets b using (workspace_id)
       where r.workspace_id = $1 order by r.created_at desc limit 1`,
      [tenant.workspaceId],
    )
  )[0] as { status: string; error_code: string | null; output_tokens: number; holds: boolean; agrees: boolean };

test.for(["chat/completions", "responses"])(
  "a stream ends with the budget's error where its budget ends: %s",
  async (path) => {
    const spent = await tenant.db.query<{ tokens: number }>(
      "select coalesce(sum(input_tokens + output_tokens), 0)::int as tokens from ai.runs where workspace_id = $1",
      [tenant.workspaceId],
    );
    await setBudget((spent[0]?.tokens ?? 0) + 400);
    const answer = await stream(path, 5_000);
    expect(answer).toContain("budget_exceeded");
    expect(answer).toContain("workspace");
    expect(answer).not.toContain("response.completed");
    const { output_tokens: output, ...books } = await readBooks();
    expect(books).toEqual({ status: "failed", error_code: "budget_exceeded", holds: true, agrees: true });
    expect(output).toBeGreaterThanOrEqual(expectedOutput);
    expect(output).toBeLessThanOrEqual(400);
  },
);

test("a stream that its budget covers ends as usual, and calls the database once for each step", async () => {
  await setBudget(1_000_000);
  const calls = gateway.line.calls().length;
  expect(await stream("chat/completions", 400)).toContain("[DONE]");
  expect(await readBooks()).toMatchObject({ status: "succeeded", holds: true, agrees: true });
  const made = gateway.line.calls().slice(calls);
  expect(made.filter((name) => name === "extend_run").length).toBeGreaterThanOrEqual(1);
  expect(made.filter((name) => name === "extend_run").length).toBeLessThanOrEqual(4);
});
