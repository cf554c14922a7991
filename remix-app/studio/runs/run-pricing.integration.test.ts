import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { add, formatDecimal, parseDecimal } from "#shared/decimal.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../../scripts/test/people.ts";
import { join } from "../../../supabase/tests/database.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../supabase/tests/gateway/tenant.ts";

let tenant: GatewayTenant;
let owner: Person;
let browser: Awaited<ReturnType<typeof enter>>;
let pages: string;
let run: { id: string; cost: string; billed: string; charged: string };
const requestId = `priced-${randomUUID()}`;

beforeAll(async () => {
  [tenant, owner] = await Promise.all([createGatewayTenant(), createPerson()]);
  await join(tenant.db, { workspaceId: tenant.workspaceId, userId: owner.id, role: "owner" });
  browser = await enter(owner);
  pages = `/workspaces/${tenant.workspaceId}/ai/runs`;
  await tenant.client.chat.completions.create(
    { model: "demo-chat", messages: [{ role: "user", content: "Hello" }] },
    { headers: { "x-request-id": requestId, "x-platform-entity-id": "order-7" } },
  );
  await tenant.accountOf(requestId);
  const [row] = await query<typeof run>(
    `select r.id, trim_scale(r.cost_usd)::text as cost, trim_scale(r.billed_credits)::text as billed,
       (select trim_scale(-sum(l.amount))::text from ai.credit_ledger l where l.run_id = r.id) as charged
     from ai.runs r where r.request_id = $1`,
    [requestId],
  );
  if (!row) throw new Error("no run");
  run = row;
});
afterAll(async () => {
  await deletePerson(owner);
  await tenant.close();
});

type Line = { item: string; count: number; unitPriceUsd: number; amountUsd: number };
type ApiRun = Record<string, unknown> & { id: string; pricing: { lines: Line[] } & Record<string, unknown> };

/** Returns the digits of all JSON properties with the given name, as text so that no digit is lost in a float. */
const textsOf = (json: string, name: string) =>
  [...json.matchAll(new RegExp(`"${name}":(-?[\\d.]+)`, "g"))].map(([, digits]) => digits ?? "");
const sum = (amounts: readonly string[]) =>
  formatDecimal(amounts.map(parseDecimal).reduce(add, { units: 0n, scale: 0 }));
function rowsOf(csv: string): Record<string, string>[] {
  const [head = "", ...lines] = csv.trimEnd().split("\r\n");
  const names = head.split(",");
  return lines.map((line) => Object.fromEntries(line.split(",").map((value, index) => [names[index], value])));
}

test("a run's page, API, list, CSV and ledger show exactly the same price", async () => {
  const { text } = await browser.get(`/api/v1${pages}/${run.id}`);
  const api = JSON.parse(text) as ApiRun;
  expect(sum(textsOf(text, "amountUsd"))).toBe(run.cost);
  expect(new Set(textsOf(text, "costUsd"))).toEqual(new Set([run.cost]));
  expect([run.billed, ...textsOf(text, "billedCredits"), ...textsOf(text, "credits")]).toEqual(
    Array(4).fill(run.charged),
  );
  expect(api).toMatchObject({ keyName: "test", entityId: "order-7", httpStatus: 200, provider: "demo" });

  const listed = JSON.parse((await browser.get(`/api/v1${pages}?requestId=${requestId}`)).text) as { runs: ApiRun[] };
  expect(listed.runs.map(({ pricing }) => pricing)).toEqual([api.pricing]);

  const [row = {}] = rowsOf((await browser.get(`${pages}.csv?requestId=${requestId}`)).text);
  const amounts = Object.entries(row).filter(([name, value]) => name.endsWith("_amount_usd") && value !== "");
  expect(sum(amounts.map(([, value]) => value))).toBe(run.cost);
  expect(row).toMatchObject({ cost_usd: run.cost, billed_credits: run.billed, provider: "demo", markup: "1.2" });
  for (const { item, count } of api.pricing.lines) expect(row[`${item}_charged`]).toBe(String(count));

  const { words } = await browser.get(`${pages}/${run.id}`);
  for (const fact of [
    "How this was priced",
    "Text input",
    "$0.15 per million",
    `= ${run.billed} credits`,
    "Key “test”",
    "UTC",
  ]) {
    expect(words).toContain(fact);
  }
});

describe("filtering runs", () => {
  const found = async (search: string) => {
    const { text, status } = await browser.get(`/api/v1${pages}?${search}`);
    return status === 200 ? (JSON.parse(text) as { runs: ApiRun[] }).runs.map(({ id }) => id) : status;
  };

  test("runs can be filtered by key, provider and entity label in the API, on the page and in the CSV file", async () => {
    for (const search of [`keyId=${tenant.keyId}`, "provider=demo", "entityId=order-7"]) {
      expect(await found(search), search).toEqual([run.id]);
      const page = await browser.get(`${pages}?${search}`);
      expect(page.text, search).toContain(`${pages}/${run.id}`);
      expect(page.words, search).toContain("Clear filters");
      expect(
        rowsOf((await browser.get(`${pages}.csv?${search}`)).text).map(({ id }) => id),
        search,
      ).toEqual([run.id]);
    }
    expect(await found("entityId=order-8")).toEqual([]);
    expect((await browser.get(pages)).words).not.toContain("Clear filters");
  });

  test.for([
    `keyId=${randomUUID()}`,
    `appId=${randomUUID()}`,
    `memberId=${randomUUID()}`,
    "provider=absent",
    "keyId=no-id",
    "entityId=a%20b",
  ])("the runs page, its CSV file and the API return 400 for the unknown or invalid filter %s", async (search) => {
    const name = search.split("=")[0] ?? "";
    expect(await found(search)).toBe(400);
    for (const path of [`${pages}?${search}`, `${pages}.csv?${search}`, `/api/v1${pages}?${search}`]) {
      const { status, text } = await browser.get(path);
      expect(status, path).toBe(400);
      expect(text, path).toContain(`${name}: `);
    }
  });
});
