import { afterAll, beforeAll, expect, test } from "vitest";
import { createPerson, deletePerson, enter, type Person, type SignedInBrowser } from "../../../scripts/test/people.ts";
import { join, one } from "../../../supabase/tests/database.ts";
import {
  createTenant,
  type OpenedRun,
  outcome,
  settle,
  type Tenant,
} from "../../../supabase/tests/gateway/fixtures.ts";
import { openPool } from "../../../supabase/tests/pools.ts";
import { maxCursorLength } from "../../http/list-page.ts";
import { usageDimensions } from "./usage.ts";

const { db, close } = openPool(1);
let tenant: Tenant;
let person: Person;
let browser: SignedInBrowser;

beforeAll(async () => {
  tenant = await createTenant(db, { credits: "1" });
  person = await createPerson();
  await join(db, { workspaceId: tenant.workspaceId, userId: person.id, role: "member" });
  browser = await enter(person);
});
afterAll(async () => {
  await deletePerson(person);
  await close();
});

/** Every part has the database's maximum length, so the cursor is as long as possible. */
const longest = { model: "m".repeat(128), feature: "f".repeat(128), provider: "p".repeat(32) };

/** Inserts a settled run at the current time. */
async function addRun({ model, feature, provider, label }: typeof longest & { label?: string }): Promise<void> {
  const routes = [
    { position: 1, provider, model: "m", prices: [{ min_input_tokens: 0, input: "0.1", output: "0.1" }] },
  ];
  const openedRun = await one<OpenedRun>(db, {
    sql: `insert into ai.runs (
            id, created_at, workspace_id, app_id, actor_id, key_id, key_lineage_id, credential_source, execution_mode, feature,
            request_id, model_id, entity_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits
          )
          select ai.run_id(t.now), t.now, $1, gen_random_uuid(), gen_random_uuid(), $2, $2, 'key', 'interactive', $3, 'test', $4, $6, $5, 1,
            true, a.id, 0, 0
          from ai.credit_accounts a, (select now() as now) t
          where a.workspace_id = $1
          returning id as run_id, to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as created_at,
            routes, ai.credits_per_usd(markup)::text as credits_per_usd`,
    values: [tenant.workspaceId, tenant.keyId, feature, model, JSON.stringify(routes), label ?? null],
  });
  await settle(db, [outcome(openedRun)]);
}

test("every cursor that the usage API returns leads to the next page, even the longest possible cursor", async () => {
  await addRun(longest);
  await addRun({ ...longest, model: `${longest.model.slice(1)}z` });
  const usage = async (cursor?: string) => {
    const groupBy = usageDimensions.filter((name) => name !== "label").join(",");
    const search = new URLSearchParams({ groupBy, limit: "1", ...(cursor && { cursor }) });
    const { status, text } = await browser.get(`/api/v1/workspaces/${tenant.workspaceId}/ai/usage?${search}`);
    expect(status, text).toBe(200);
    return JSON.parse(text) as { rows: { model: string }[]; nextCursor: string | null };
  };
  const first = await usage();
  expect(first.rows).toMatchObject([longest]);
  expect(first.nextCursor).toHaveLength(590);
  const second = await usage(first.nextCursor ?? "");
  expect([second.rows.map(({ model }) => model.at(-1)), second.nextCursor]).toEqual([["z"], null]);
});

test("usage by label can also be grouped by day, but by nothing else", async () => {
  await addRun({ ...longest, label: "customer-1" });
  const usage = async (groupBy: string, cursor = "") => {
    const search = new URLSearchParams({ groupBy, limit: "1", ...(cursor && { cursor }) });
    const { status, text } = await browser.get(`/api/v1/workspaces/${tenant.workspaceId}/ai/usage?${search}`);
    return { status, body: JSON.parse(text) };
  };
  const first = await usage("label");
  expect(first.body.rows).toMatchObject([{ label: null, day: null, requests: 2 }]);
  const second = await usage("label", first.body.nextCursor);
  expect(second.body).toMatchObject({ rows: [{ label: "customer-1", requests: 1 }], nextCursor: null });
  expect((await usage("day,label")).body.rows).toMatchObject([{ label: null, day: expect.any(String) }]);
  // A cursor for other dimensions has a different number of parts.
  expect((await usage("day", first.body.nextCursor)).status).toBe(400);
  expect(await usage("label,model")).toMatchObject({
    status: 400,
    body: { detail: expect.stringContaining("label can only be combined with day") },
  });
});

test(`a usage cursor of ${maxCursorLength} characters is parsed, and a longer one is rejected`, async () => {
  const detailOf = async (cursor: string) => {
    const { status, text } = await browser.get(`/api/v1/workspaces/${tenant.workspaceId}/ai/usage?cursor=${cursor}`);
    return [status, JSON.parse(text).detail];
  };
  expect(await detailOf("x".repeat(maxCursorLength))).toEqual([
    400,
    "The cursor is invalid. Send the nextCursor of an earlier page.",
  ]);
  const refused = await detailOf("x".repeat(maxCursorLength + 1));
  expect(refused).toEqual([400, "limit must be a number from 1 to 100, and cursor the nextCursor of an earlier page."]);
});
