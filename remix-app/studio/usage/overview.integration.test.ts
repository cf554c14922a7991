import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPerson, deletePerson, enter, type Person, type SignedInBrowser } from "../../../scripts/test/people.ts";
import { openContext } from "../../../scripts/test/request-context.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { join } from "../../../supabase/tests/database.ts";
import {
  begin,
  chatCall,
  createTenant,
  type OpenedRun,
  outcome,
  settle,
  type Tenant,
} from "../../../supabase/tests/gateway/fixtures.ts";
import { openPool } from "../../../supabase/tests/pools.ts";
import { readRange } from "../range.ts";
import { readWholeOverview } from "./overview.ts";

type Visitor = Person & { browser: SignedInBrowser };
const { db, close } = openPool(2);
let tenant: Tenant;
let run: OpenedRun;
let [member, stranger] = [{} as Visitor, {} as Visitor];

async function createVisitor(): Promise<Visitor> {
  const person = await createPerson();
  return { ...person, browser: await enter(person) };
}

beforeAll(async () => {
  tenant = await createTenant(db, { credits: "1000" });
  [member, stranger] = await Promise.all([createVisitor(), createVisitor()]);
  await join(db, { workspaceId: tenant.workspaceId, userId: member.id, role: "member" });
});
afterAll(async () => {
  await Promise.all([member, stranger].map(deletePerson));
  await close();
});

const at = (page: string) => `/workspaces/${tenant.workspaceId}/ai${page}`;

/** Parses a CSV file. Returns each line's values by column name. */
async function linesOf(page: string): Promise<Record<string, string>[]> {
  const { text } = await member.browser.get(at(page));
  const [head = "", ...lines] = text.trimEnd().split("\r\n");
  const names = head.split(",");
  return lines.map((line) => Object.fromEntries(line.split(",").map((value, index) => [names[index], value])));
}

test("the Overview of a member who cannot manage keys links to the Playground but not to the keys page", async () => {
  const overview = `/workspaces/${tenant.workspaceId}`;
  const page = await member.browser.get(overview);
  expect(page.status).toBe(200);
  expect(page.words).toContain("1 of 2 steps done");
  expect(page.words).toContain("ask a member who manages API keys");
  expect(page.text).toContain(at("/playground"));
  expect(page.text).not.toContain(at("/keys"));
  expect((await stranger.browser.get(overview)).status).toBe(404);
});

test("the overview of a workspace without requests says how to begin, and returns 404 to people outside the workspace", async () => {
  const page = await member.browser.get(at(""));
  expect(page.words).toContain("No requests yet");
  expect(page.text).toContain(at("/playground"));
  // The keys page requires the permission `manage_ai_keys`.
  expect(page.text).not.toContain(at("/keys"));
  expect((await member.browser.get(at("/keys"))).status).toBe(403);
  const [role] = await db.query(
    "insert into public.workspace_roles (workspace_id, name, permissions) values ($1, 'Keys', '{use_ai_studio,manage_ai_keys}') returning id",
    [tenant.workspaceId],
  );
  const be = (roleId: string) =>
    db.query(
      "update public.workspace_members set role_id = $3 where workspace_id = $1 and user_id = $2 returning role_id",
      [tenant.workspaceId, member.id, roleId],
    );
  const [before] = await db.query(
    "select role_id from public.workspace_members where workspace_id = $1 and user_id = $2",
    [tenant.workspaceId, member.id],
  );
  await be(role?.id);
  expect((await member.browser.get(at(""))).text).toContain(at("/keys"));
  expect((await member.browser.get(at("/keys"))).status).toBe(200);
  await be(before?.role_id);
  for (const path of ["", "/usage.csv", "/runs", "/runs.csv"]) {
    expect((await stranger.browser.get(at(path))).status, path).toBe(404);
    expect((await member.browser.get(at(path))).status, path).toBe(200);
  }
});

describe("the overview of a workspace with requests", () => {
  beforeAll(async () => {
    run = await begin(db, chatCall(tenant));
    const failed = await begin(db, chatCall(tenant));
    await settle(db, [outcome(run), outcome(failed, { status: "failed" })]);
    await db.query(
      `insert into ai.refused_daily
         (workspace_id, day, key_lineage_id, actor_id, model_id, feature, execution_mode, refused)
       values ($1, (now() at time zone 'UTC')::date, $2, $3, $4, 'chat', 'background', 3)`,
      [tenant.workspaceId, tenant.keyId, tenant.ownerId, tenant.model],
    );
    await db.query(
      `insert into ai.credit_ledger (account_id, kind, amount, balance_after)
       select id, 'refund', -0.00000001, 0 from ai.credit_accounts where workspace_id = $1`,
      [tenant.workspaceId],
    );
  });

  test("the overview's CSV file by day matches the ledger exactly", async () => {
    const today = (await linesOf("/usage.csv?range=7d"))[0];
    const [books] = await db.query(
      `select
         (select trim_scale(-sum(l.amount))::text from ai.credit_ledger l where l.run_id is not null and l.account_id = a.id) as billed,
         (select trim_scale(sum(r.cost_usd))::text from ai.runs r where r.workspace_id = a.workspace_id) as cost
       from ai.credit_accounts a where a.workspace_id = $1`,
      [tenant.workspaceId],
    );
    expect(today).toMatchObject({
      day: new Date().toISOString().slice(0, 10),
      requests: "2",
      failed: "1",
      refused: "3",
      other_credits: "0.00000001",
    });
    expect({ billed: today?.billed_credits, cost: today?.cost_usd }).toEqual(books);
  });

  test.each(["model", "feature", "key", "app", "member", "label"])(
    "the overview grouped by %s has the same rows as its CSV file",
    async (by) => {
      const lines = await linesOf(`/usage.csv?by=${by}`);
      expect(lines).toHaveLength(1);
      const page = await member.browser.get(at(`?by=${by}`));
      expect(page.words).toContain(lines[0]?.[by]);
      expect(page.words).toContain("50.0% failed, 3 more refused");
      expect(page.words).toContain("more credits were deducted without a run");
    },
  );

  test("the runs CSV file applies the same filters as the runs page", async () => {
    expect((await linesOf("/runs.csv?range=7d")).map(({ status }) => status).sort()).toEqual(["failed", "succeeded"]);
    const succeeded = await linesOf("/runs.csv?status=succeeded");
    expect(succeeded.map(({ id }) => id)).toEqual([run.run_id]);
    expect(await linesOf("/runs.csv?range=last-month")).toEqual([]);
    const page = await member.browser.get(at("/runs?status=succeeded"));
    expect(page.text).toContain(at(`/runs/${run.run_id}`));
    expect((await member.browser.get(at("/runs.csv?status=odd"))).status).toBe(400);
  });

  test("for an invalid date range, the page shows an error at the field and keeps the typed dates", async () => {
    const page = await member.browser.get(at("?from=2026-02-02&to=2026-02-01"));
    expect([page.status, page.words.includes("The first day can’t be after the last.")]).toEqual([400, true]);
    expect(page.text).toContain('value="2026-02-02"');
  });

  test.each(["", "/credits", "/costs", "/runs"])("the page %j rejects an unknown range", async (path) => {
    const page = await member.browser.get(at(`${path}?range=fortnight`));
    expect(page.status).toBe(400);
    expect(page.words).toContain("The range in the URL isn’t valid. Showing ");
    expect((await member.browser.get(at(`${path}?range=90d`))).status).toBe(200);
  });

  test("each usage file's name contains the days that it covers", async () => {
    const days = "from=2026-03-01&to=2026-03-31";
    const named = [
      [`/usage.csv?by=member&${days}`, "usage-by-member-2026-03-01-2026-03-31.csv"],
      [`/credits.csv?${days}`, "credits-2026-03-01-2026-03-31.csv"],
      [`/costs.csv?${days}`, "costs-2026-03-01-2026-03-31.csv"],
      [`/costs-by-provider.csv?${days}`, "costs-by-provider-2026-03-01-2026-03-31.csv"],
      ["/reconciliation.csv?month=2026-03", "reconciliation-2026-03.csv"],
      [`/runs.csv?${days}`, "runs-2026-03-01-2026-03-31.csv"],
      ["/runs.csv", `runs-until-${new Date().toISOString().slice(0, 10)}.csv`],
      ["/invoices.csv", `invoices-until-${new Date().toISOString().slice(0, 10)}.csv`],
    ];
    for (const [path = "", name] of named) {
      const { headers } = await member.browser.get(at(path));
      expect(headers.get("content-disposition")).toBe(`attachment; filename="${name}"`);
    }
  });

  test("no usage URL causes a database error", async () => {
    const position = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const bare = `createdAt":"0000-01-01T00:00:00Z","id":"${run.run_id}"`;
    const early = Buffer.from(`{"${bare}}`).toString("base64url");
    const days = ["from=9999-12-31&to=9999-12-31", "from=0001-01-01&to=0001-01-01"];
    const pages = ["", "/runs", "/costs", "/credits"];
    const files = ["/usage.csv", "/runs.csv", "/costs.csv", "/credits.csv"];
    const months = ["9999-12", "0001-01", "2026-13"].flatMap((month) =>
      ["", ".csv"].map((end) => at(`/reconciliation${end}?month=${month}`)),
    );
    const lists = ["usage", "credits", "provider-costs", "reconciliation"];
    const api = (list: string) => `/api/v1${at(`/${list}`)}`;
    const asked = [
      ...pages.flatMap((page) => days.map((query) => [at(`${page}?${query}`), 400] as const)),
      ...files.flatMap((file) => days.map((query) => [at(`${file}?${query}`), 400] as const)),
      ...months.map((address) => [address, 400] as const),
      ...["/runs", "/runs.csv"].flatMap((page) =>
        ["model=%00", "feature=%00"].map((query) => [at(`${page}?${query}`), 400] as const),
      ),
      [at(`/runs?cursor=${early}`), 400] as const,
      ...[
        "model=%00",
        "feature=%00",
        "from=0000-01-01",
        "to=0000-01-01T00:00:00Z",
        "from=2026-01-01T00:00:00%2B23:00",
      ].map((query) => [api(`runs?${query}`), 400] as const),
      [api(`runs?cursor=${early}`), 400] as const,
      ...["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-14:00"].flatMap((createdAt) =>
        ["runs", "provider-costs", "provider-invoices"].map(
          (list) => [api(`${list}?cursor=${position({ createdAt, id: run.run_id })}`), 200] as const,
        ),
      ),
      ...["0001-01-01", "9999-12-31"].map((day) => [api(`runs?from=${day}&to=${day}`), 200] as const),
      [api(`usage?cursor=${position(Array(7).fill("\0"))}`), 400] as const,
      [api(`usage?cursor=${position(Array(7).fill("\ud800"))}`), 400] as const,
      [api(`reconciliation?cursor=${position(["2026-01", "\0"])}`), 400] as const,
      [api(`provider-costs?cursor=${early}`), 400] as const,
      [api(`provider-invoices?cursor=${early}`), 400] as const,
    ];
    const answers = await Promise.all(asked.map(async ([address]) => (await member.browser.get(address)).status));
    expect(asked.map(([address], index) => [address, answers[index]])).toEqual(asked);
    const windows = lists.flatMap((list) =>
      ["0001-01-01", "9999-12-31"].flatMap((day) => [
        `${list}?from=${day}`,
        `${list}?to=${day}`,
        `${list}?from=${day}&to=${day}T12:00:00Z`,
      ]),
    );
    for (const window of windows) {
      expect([200, 400], window).toContain((await member.browser.get(api(window))).status);
    }
  });

  test("provider costs appear nowhere if the workspace hides them", async () => {
    const setVisible = (visible: boolean) =>
      db.query(
        `insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, $2)
         on conflict (workspace_id) do update set provider_cost_visible = excluded.provider_cost_visible`,
        [tenant.workspaceId, visible],
      );
    expect((await member.browser.get(at(""))).words).toContain("$");
    await setVisible(false);
    for (const path of ["", "?show=spend&by=model", "/runs"]) {
      expect((await member.browser.get(at(path))).words).not.toMatch(/\$|\bSpend\b|\bCost\b/);
    }
    expect((await linesOf("/usage.csv"))[0]?.cost_usd).toBe("");
    expect((await linesOf("/runs.csv"))[0]?.cost_usd).toBe("");
    await setVisible(true);
  });

  test("a usage file may have as many lines as its limit, and is refused if it has one more", async () => {
    const second = await begin(db, chatCall(tenant, { feature: "summary" }));
    await settle(db, [outcome(second)]);
    const context = await openContext(readStack());
    const range = readRange(new URL("https://test/?range=7d"), { now: new Date() });
    const reader = { kind: "member", userId: member.id, workspaceId: tenant.workspaceId } as const;
    const read = (limit: number) => readWholeOverview(context, { reader, range, by: "feature", limit });
    expect((await read(2)).map(({ label }) => label).sort()).toEqual(["chat", "summary"]);
    const refusal = await read(1).catch((error: unknown) => error as Response);
    expect(refusal).toMatchObject({ status: 400 });
    expect(await (refusal as Response).json()).toMatchObject({
      code: "INVALID_REQUEST",
      detail: "This export has more than 1 rows. Choose a shorter range.",
    });
  });

  test("the usage page by label shows 50 rows in less than 100 KB, and its CSV file has all rows", async () => {
    await db.query(
      `insert into ai.runs (
         id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, entity_id, routes,
         route, markup, status, usage_source, cost_usd, reserved_usd, reserved_credits, latency_ms, settled_at
       )
       select ai.run_id(now()), now(), $1, 'key', 'background', 'chat', 'test', 'm', rpad('customer-' || n || '-', 128, 'x'),
         '[{"position": 1, "provider": "demo", "model": "m", "prices": []}]', 1, 1, 'succeeded', 'provider', n, 0, 0, 5, now()
       from generate_series(1, 60) n`,
      [tenant.workspaceId],
    );
    const page = await member.browser.get(at("?range=7d&by=label"));
    expect(page.text.match(/entityId=customer-/g)).toHaveLength(50);
    expect(page.words).toContain("but the totals above include them");
    expect(Buffer.byteLength(page.text)).toBeLessThan(100_000);
    expect(
      (await linesOf("/usage.csv?range=7d&by=label")).filter(({ label }) => label?.startsWith("customer-")),
    ).toHaveLength(60);
  });
});
