import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";

const month = new Date().toISOString().slice(0, 7);
const tag = `Spender ${randomUUID().slice(0, 8)}`;
const costUsd = "98765432.000000000001";
let admin: ConsoleAdmin;
let finance: ConsoleAdmin;
let person: Person;
let workspaces: { id: string; name: string }[];

const addRun = (run: { workspaceId: string; actorId: string | null; costUsd: string }) =>
  query(
    `insert into ai.runs (
       id, created_at, workspace_id, actor_id, credential_source, execution_mode, feature, request_id, model_id, routes, route,
       markup, status, usage_source, cost_usd, billed_credits, reserved_usd, reserved_credits, account_id, settled_at
     )
     select ai.run_id(now()), now(), $1, $2, 'key', 'interactive', 'chat', $4, 'm',
       jsonb_build_array(jsonb_build_object('position', 1, 'provider', $4::text)), 1, 1, 'failed', 'provider', $3, 12.5, 0, 0,
       gen_random_uuid(), now()`,
    [run.workspaceId, run.actorId, run.costUsd, tag],
  );

beforeAll(async () => {
  [admin, finance, person] = await Promise.all([
    createConsoleAdmin(),
    createConsoleAdmin({ role: "finance" }),
    createPerson(),
  ]);
  workspaces = await query<{ id: string; name: string }>(
    `insert into public.workspaces (name, plan_id, created_by)
     select $1 || n, 'free', $2 from generate_series(1, 2) n returning id, name`,
    [`${tag} `, person.id],
  );
  const [first, second] = workspaces.map(({ id }) => id);
  await addRun({ workspaceId: first ?? "", actorId: person.id, costUsd });
  await addRun({ workspaceId: second ?? "", actorId: null, costUsd: "98765431" });
});
afterAll(async () => {
  await query("delete from ai.runs where created_at > now() - interval '1 hour' and request_id = $1", [tag]);
  await query("delete from public.workspaces where id = any ($1)", [workspaces.map(({ id }) => id)]);
  await Promise.all([admin, finance, person].map(deletePerson));
});

const linesOf = (file: string) => file.trimEnd().split("\r\n");

test("spending lists the workspaces of the current month with exact amounts, and links to them", async () => {
  const { status, text, words } = await admin.browser.get("/admin/spending");
  expect(status).toBe(200);
  const [first, second] = workspaces;
  for (const { id, name } of workspaces) expect(text).toContain(`href="/admin/workspaces/${id}">${name}</a>`);
  expect(text.indexOf(first?.name ?? "")).toBeLessThan(text.indexOf(second?.name ?? ""));
  expect(words).toContain("$98,765,432.000000000001");
  const overview = await admin.browser.get(`/admin/workspaces/${first?.id}`);
  expect(overview.words).toMatch(/This month 1 run, 1 failed/);
  expect(overview.words).toContain("$98,765,432.000000000001");
});

test("spending by account names the account, and lists runs without one as “No account”", async () => {
  const { text, words } = await admin.browser.get("/admin/spending?by=account");
  expect(text).toContain(`/admin/users/${person.id}`);
  expect(words).toContain(person.email);
  expect(words).toContain("No account");
});

test("finance people see spending by workspace without links to admins' pages, and no accounts", async () => {
  const { status, text, words } = await finance.browser.get("/admin/spending");
  expect([status, words]).toEqual([200, expect.stringContaining(`${tag} 1`)]);
  expect(text).not.toMatch(/href="\/admin\/workspaces|by=account/);
  expect(words).not.toContain(person.email);
  for (const path of ["/admin/spending?by=account", `/admin/spending.csv?by=account&month=${month}`]) {
    const refused = await finance.browser.get(path);
    expect([path, refused.status]).toEqual([path, 403]);
    expect(refused.text).not.toContain(person.email);
  }
  expect((await finance.browser.get(`/admin/spending.csv?month=${month}`)).status).toBe(200);
});

test("spending is closed to everyone else", async () => {
  const browser = await enter(person);
  for (const path of ["/admin/spending", `/admin/spending.csv?month=${month}`]) {
    expect([path, (await browser.get(path)).status]).toEqual([path, 403]);
  }
});

test("the file of spending has a row for each workspace or account, with exact amounts", async () => {
  const [byWorkspace, byAccount] = await Promise.all(
    ["workspace", "account"].map((by) => admin.browser.get(`/admin/spending.csv?month=${month}&by=${by}`)),
  );
  const [head, ...rows] = linesOf(byWorkspace?.text ?? "");
  expect(head).toBe(
    "month,workspace_id,workspace,plan,deleted,runs,failed,cost_usd,billed_credits,balance,available,last_day",
  );
  const today = new Date().toISOString().slice(0, 10);
  expect(rows).toContain(`${month},${workspaces[0]?.id},${tag} 1,Free,false,1,1,98765432.000000000001,12.5,,,${today}`);
  const [accountHead, ...accounts] = linesOf(byAccount?.text ?? "");
  expect(accountHead).toContain("month,account_id,account,email,deleted");
  expect(accounts.filter((line) => line.includes(person.email))).toEqual([
    expect.stringMatching(new RegExp(`${person.id},.*,1,1,98765432\\.000000000001,12\\.5,`)),
  ]);
  expect(accounts.filter((line) => line.startsWith(`${month},,No account,,false,`))).toHaveLength(1);
});

test("a heading sorts the list, and an unknown order or owner is the default", async () => {
  const sorted = await admin.browser.get("/admin/spending?sort=failed");
  expect(sorted.text).toMatch(/aria-sort="descending"><a href="\?sort=failed"/);
  const byDefault = await admin.browser.get("/admin/spending?sort=unknown&by=unknown");
  expect(byDefault.status).toBe(200);
  expect(byDefault.text).toMatch(/aria-sort="descending"><a href="[^"]*"[^>]*>Cost</);
  expect(byDefault.words).toContain(`${tag} 1`);
});

test("an invalid month or cursor is refused with 400", async () => {
  const wrong = await admin.browser.get("/admin/spending?month=2026-13");
  expect([wrong.status, wrong.words]).toEqual([400, expect.stringContaining("isn’t valid")]);
  expect((await admin.browser.get("/admin/spending.csv?month=2026-13")).status).toBe(400);
  const cursors = [
    "x",
    Buffer.from('["NaN",""]').toString("base64url"),
    Buffer.from('["1","x"]').toString("base64url"),
  ];
  for (const cursor of cursors) {
    expect([cursor, (await admin.browser.get(`/admin/spending?cursor=${cursor}`)).status]).toEqual([cursor, 400]);
  }
  expect((await admin.browser.get("/admin/spending?month=2000-01")).words).toContain("No runs this month.");
});
