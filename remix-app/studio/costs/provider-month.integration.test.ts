import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { registerApp } from "../../../supabase/tests/apps/fixtures.ts";
import { type Bill, type BillLine, billedModels, bills } from "../../../supabase/tests/finance/provider-bills.ts";
import { type InProcessGateway, openGateway } from "../../../supabase/tests/gateway/in-process.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../supabase/tests/gateway/tenant.ts";
import { listedReconciliation, type ReconciledMonth } from "./provider-import-schema.ts";
import { cellsOf } from "./reconciliation.ts";

/**
 * Simulates the three providers. Answers with the usage of the bill line that the prompt names, and refuses all other
 * prompts.
 */
const upstream = createServer(async (request, response) => {
  let text = "";
  for await (const piece of request) text += piece;
  const { model, messages, stream } = JSON.parse(text);
  const line = bills
    .flatMap(({ lines }) => lines)
    .find((each) => each.model === model && each.name === messages.at(-1).content);
  if (!line) {
    response.writeHead(400, { "content-type": "application/json" }).end('{"error":{"message":"Refused."}}');
    return;
  }
  const { usage, tier } = line;
  const head = {
    id: "c",
    created: 1,
    model,
    ...(model.startsWith("gpt") ? { service_tier: tier?.[1] ?? "default" } : {}),
  };
  const message = { role: "assistant", content: "Hello there" };
  if (!stream) {
    const choices = [{ index: 0, message, finish_reason: "stop" }];
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ ...head, object: "chat.completion", choices, usage }));
    return;
  }
  const event = (rest: object) => `data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", ...rest })}\n\n`;
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(event({ choices: [{ index: 0, delta: message, finish_reason: "stop" }] }));
  response.end(`${event({ choices: [], usage })}data: [DONE]\n\n`);
});

let tenant: GatewayTenant;
let gateway: InProcessGateway;
let appId: string;
/** Our model ids by the provider's model name. */
const modelIds = new Map<string, string>();
/** Last month as YYYY-MM, UTC. */
const month = new Date(Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth() - 1)).toISOString().slice(0, 7);

beforeAll(async () => {
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  const { port } = upstream.address() as AddressInfo;
  const settings = { BASE_URL: `http://127.0.0.1:${port}`, API_KEY: "sk-test" };
  const provider = (id: string, own: Record<string, string>) =>
    Object.entries({ ...settings, ...own }).map(([name, value]) => [`AI_PROVIDER_${id}_${name}`, value] as const);
  gateway = await openGateway(
    Object.fromEntries([
      ...provider("EU_OPENAI", { KIND: "openai", BILLING_NAME: "openai", ACCOUNT: "acct-1" }),
      ...provider("DEEPSEEK", { KIND: "deepseek" }),
      ...provider("SEARCH", { KIND: "perplexity", BILLING_NAME: "perplexity" }),
    ]),
  );
  tenant = await createGatewayTenant();
  // Does not switch to the service role. The pool's role owns the functions, so it may call them directly.
  const db = { ...tenant.db, asRole: <T>(_: string, work: () => Promise<T>) => work() };
  appId = (await registerApp(db, { kind: "external", workspaceId: tenant.workspaceId })).id;
  for (const model of billedModels) await addModel(model);
  await callForAMonth();
}, 120_000);
afterAll(async () => {
  await gateway.close();
  await tenant.close();
  upstream.closeAllConnections();
  upstream.close();
});

async function addModel(model: (typeof billedModels)[number]): Promise<void> {
  const { db, workspaceId } = tenant;
  const id = `${model.name}-${randomUUID()}`;
  modelIds.set(model.name, id);
  // Enables the model last, so that the doctor never sees an enabled model without a price.
  await db.query(
    "insert into ai.models (id, kind, display_name, owned_by, enabled) values ($1, 'chat', $1, 'test', false)",
    [id],
  );
  await db.query(
    `insert into ai.model_routes (model_id, position, provider_id, provider_model, trusts_stated_cost)
     values ($1, 1, $2, $3, $4)`,
    [id, model.provider, model.name, "trusts" in model],
  );
  for (const price of model.prices) {
    await db.query(
      `insert into ai.model_prices (
         model_id, provider_id, service_tier, input_usd_per_million, cached_input_usd_per_million,
         cache_write_usd_per_million, output_usd_per_million, request_fee_usd
       )
       select $1, $2, coalesce(p.tier, 'default'), p.input, p.cached_input, p.cache_write, p.output, p.fee
       from jsonb_to_record($3) as p (
         tier text, input numeric, cached_input numeric, cache_write numeric, output numeric, fee numeric
       )`,
      [id, model.provider, JSON.stringify(price)],
    );
  }
  await db.query("insert into ai.model_grants (model_id, workspace_id) values ($1, $2)", [id, workspaceId]);
  await db.query("update ai.models set enabled = true where id = $1", [id]);
}

/** Makes every call that the bills list and one call that fails, then spreads the runs over the days of the month. */
async function callForAMonth(): Promise<void> {
  const client = gateway.clientOf(tenant.key);
  const calls = bills.flatMap(({ lines }) => lines.flatMap((line) => Array<BillLine>(line.calls).fill(line)));
  const ask = async ({ name, model, tier, stream = false }: Omit<BillLine, "usage" | "usd" | "calls">) => {
    const answer = await client.chat.completions.create({
      model: modelIds.get(model) ?? "",
      messages: [{ role: "user", content: name }],
      stream,
      ...(tier ? { service_tier: tier[0] as "priority" } : {}),
    });
    if (Symbol.asyncIterator in answer) for await (const _ of answer);
  };
  for (let n = 0; n < calls.length; n += 20) await Promise.all(calls.slice(n, n + 20).map(ask));
  await expect(ask({ name: "refused", model: "gpt-5.6-terra" })).rejects.toMatchObject({ status: 400 });
  await gateway.settled();
  await tenant.db.query(
    `with numbered as (
       select r.created_at, r.id, row_number() over (order by r.id) as n from ai.runs r where r.workspace_id = $1
     )
     update ai.runs r
     set created_at = $2::timestamp at time zone 'UTC' + (m.n % 28) * interval '1 day' + m.n * interval '1 minute'
     from numbered m
     where r.created_at = m.created_at and r.id = m.id`,
    [tenant.workspaceId, `${month}-01`],
  );
}

function importLine({ provider, accountId }: Bill, { name, usd }: Pick<BillLine, "name" | "usd">, observedAt: string) {
  return tenant.db.query("select ai.store_provider_cost($1, $2, $3)", [
    tenant.workspaceId,
    appId,
    JSON.stringify({
      provider,
      ...(accountId === undefined ? {} : { accountId }),
      externalRunId: `${month}:${name}`,
      amountUsd: usd,
      occurredAt: `${month}-28T00:00:00Z`,
      observedAt,
    }),
  ]);
}

/** Reads the month's reconciliation as shown on its page. */
async function reconcile(): Promise<{ lines: ReconciledMonth[]; states: unknown[] }> {
  const [row] = await tenant.db.query(
    `select ai.reconcile_costs(w.created_by, w.id, $2::timestamp at time zone 'UTC',
       ($2::timestamp + interval '1 month') at time zone 'UTC') as answer
     from public.workspaces w where w.id = $1`,
    [tenant.workspaceId, `${month}-01`],
  );
  const { records } = listedReconciliation.parse(row?.answer);
  const today = new Date().toISOString().slice(0, 10);
  const cells = records.flatMap((record) => cellsOf(record, { today }));
  return {
    lines: records,
    states: cells.map(({ provider, account, state }) => [provider, account.of === "one" ? account.id : "all", state]),
  };
}

const agreeing = (bill: Bill) => ({
  provider: bill.provider,
  meteredUsd: bill.totalUsd,
  importedUsd: bill.totalUsd,
  invoicedUsd: bill.totalUsd,
  importedDifferenceUsd: "0",
  invoicedDifferenceUsd: "0",
});
const byName = (one: { provider: string }, other: { provider: string }) => (one.provider < other.provider ? -1 : 1);

describe("a month of three providers", () => {
  test("the costs of three providers in a month agree with hand-calculated bills, on one line per provider", async () => {
    for (const bill of bills) {
      for (const line of bill.lines) await importLine(bill, line, `${month}-28T12:00:00Z`);
      await tenant.db.query(
        "select ai.record_provider_invoice(w.created_by, w.id, $2, $3) from public.workspaces w where w.id = $1",
        [
          tenant.workspaceId,
          appId,
          JSON.stringify({
            provider: bill.provider,
            ...(bill.accountId === undefined ? {} : { accountId: bill.accountId }),
            reference: `${bill.provider}-${month}`,
            amountUsd: bill.totalUsd,
            issuedOn: `${month}-28`,
            periodStart: `${month}-01`,
            reviewedAt: `${month}-28T12:00:00Z`,
          }),
        ],
      );
    }
    const { lines, states } = await reconcile();
    expect(lines).toMatchObject(bills.toSorted(byName).map(agreeing));
    expect(states).toEqual([
      ["deepseek", "all", "agrees"],
      ["openai", "all", "agrees"],
      ["openai", "acct-1", "agrees"],
      ["perplexity", "all", "agrees"],
    ]);
    const openaiLine = lines.find(({ provider }) => provider === "openai");
    // 111 calls on the bill, and a failed one that cost nothing.
    expect(openaiLine).toMatchObject({ runs: 112, accounts: [{ accountId: "acct-1", meteredUsd: "2.85", runs: 112 }] });
  });

  test("the month's costs of three providers still agree with their bills after the days are rolled up", async () => {
    const before = await reconcile();
    await expect
      .poll(async () => {
        await tenant.db.query("select ai.roll_up_usage(100)");
        const sql =
          "select count(*)::int as summed from ai.usage_daily where workspace_id = $1 and billing_name is not null";
        return (await tenant.db.query<{ summed: number }>(sql, [tenant.workspaceId]))[0]?.summed;
      })
      .toBeGreaterThan(27);
    expect(await reconcile()).toEqual(before);
  });

  test("if one line of a provider's bill is imported a cent off, reconciliation shows a one-cent difference for that provider", async () => {
    const corrections = ["0.28", "0.038", "0.093"];
    const differences = ["0.01", "0.01", "-0.01"];
    for (const [n, bill] of bills.entries()) {
      const [line] = bill.lines;
      await importLine(bill, { name: line?.name ?? "", usd: corrections[n] ?? "" }, `${month}-28T13:00:00Z`);
    }
    const { lines, states } = await reconcile();
    const found = bills.map(({ provider }) => lines.find((line) => line.provider === provider));
    expect(found.map((line) => line?.importedDifferenceUsd)).toEqual(differences);
    expect(found[0]?.accounts).toMatchObject([{ importedDifferenceUsd: "0.01", invoicedDifferenceUsd: "-0.01" }]);
    expect(states).toEqual([
      ["deepseek", "all", "invoice_differs"],
      ["openai", "all", "invoice_differs"],
      ["openai", "acct-1", "invoice_differs"],
      ["perplexity", "all", "invoice_differs"],
    ]);
  });
});
