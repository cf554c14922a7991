import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openPlainTab } from "../../remix-app/testing/plain-tab.ts";
import { judgeBooks } from "../../scripts/soak/audit/charges.ts";
import type { BookFact } from "../../scripts/soak/audit/facts.ts";
import { createAiKey } from "../../supabase/functions/_shared/ai-key.ts";
import { type OneMachine, startOneMachine } from "./processes.ts";

const { IDENTITY_BIN, POSTGREST_BIN, CADDY_BIN } = process.env;
const folder = mkdtempSync(path.join(tmpdir(), "gatehouse-compose-"));
let starting: Promise<OneMachine>;
let machine: OneMachine;
let client: pg.Client;

beforeAll(async () => {
  const substitutes = Object.entries({ IDENTITY_BIN, POSTGREST_BIN, CADDY_BIN }).flatMap(([name, value]) =>
    value ? [] : [name],
  );
  if (substitutes.length > 0) console.log(`Servers of the local stack run in place of ${substitutes.join(", ")}.`);
  starting = startOneMachine(folder, { IDENTITY_BIN, POSTGREST_BIN, CADDY_BIN });
  machine = await starting;
  client = new pg.Client({ connectionString: machine.dbUrl });
  await client.connect();
  // The web server may have to be built first.
}, 240_000);
afterAll(async () => {
  await client?.end();
  // Also after a start that took too long. A start that failed has stopped what it started.
  await starting.then(
    ({ stop }) => stop(),
    () => undefined,
  );
  rmSync(folder, { recursive: true, force: true });
});

const email = "ada@one-machine.test";
const password = "a long enough password of Ada’s";
const grantedCredits = "1000";

async function one<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row> {
  const { rows } = await client.query<Row>(sql, values);
  if (!rows[0]) throw new Error(`no row: ${sql}`);
  return rows[0];
}

/** Returns the link in the first email to an address. */
async function linkTo(address: string): Promise<string> {
  const find = async () => {
    const mails = (await (await fetch(`${machine.mailbox}/api/email`)).json()) as {
      to: { address: string }[];
      html: string;
    }[];
    const mail = mails.find(({ to }) => to.some((each) => each.address === address));
    return /https?:\/\/[^\s"'<>]+\/auth\/confirm\?[^\s"'<>]+/.exec(mail?.html ?? "")?.[0].replaceAll("&amp;", "&");
  };
  await expect.poll(find, { timeout: 10_000 }).toBeDefined();
  return (await find()) ?? "";
}

test("a person signs up, confirms the email, calls the gateway, and the books agree", async () => {
  const { BASE_URL = "", SUPABASE_URL = "" } = machine.settings;
  const tab = openPlainTab(BASE_URL);
  await tab.open("/signup");
  tab.fill("Email", email);
  tab.fill("Password", password);
  await tab.press("Create account");
  expect([tab.status(), tab.path()], machine.logs()).toEqual([200, expect.stringMatching(/^\/signup\/check-mail/)]);
  await tab.open(await linkTo(email));
  await tab.press("Confirm and sign in");
  const again = openPlainTab(BASE_URL);
  await again.open("/login");
  again.fill("Email", email);
  again.fill("Password", password);
  await again.press("Sign in");
  await again.open("/workspaces");
  expect([again.status(), again.path()], machine.logs()).toEqual([200, "/workspaces"]);

  // What an operator enters in the console.
  await client.query(`
    insert into ai.plans (id, name, payer, markup, initial_credits, requests_per_minute, tokens_per_minute)
      values ('team', 'Team', 'workspace', 1.2, 0, 6000, 10000000);
    insert into ai.models (id, kind, display_name, owned_by, context_window, output_limit, default_output_limit)
      values ('demo-chat', 'chat', 'Demo', 'demo', 128000, 4096, 512);
    insert into ai.model_routes (model_id, position, provider_id, provider_model)
      values ('demo-chat', 1, 'demo', 'demo-chat');
    insert into ai.model_prices (model_id, provider_id, input_usd_per_million, cached_input_usd_per_million, output_usd_per_million)
      values ('demo-chat', 'demo', 0.40, 0.10, 1.60);
    insert into ai.model_grants (model_id, plan_id) values ('demo-chat', 'team');
  `);
  const person = await one<{ id: string }>("select id from auth.users where email = $1", [email]);
  const workspace = await one<{ id: string }>(
    "insert into public.workspaces (name, plan_id, created_by) values ('Acme', 'team', $1) returning id",
    [person.id],
  );
  await client.query("insert into ai.key_approvals (workspace_id) values ($1)", [workspace.id]);
  await client.query("select ai.grant_credits('workspace', $1, $2, 'test')", [workspace.id, grantedCredits]);
  const { text: key, lookup, hash } = await createAiKey();
  await client.query("select ai.create_key($1, $2, 'test', $3, $4)", [
    workspace.id,
    person.id,
    lookup,
    Buffer.from(hash),
  ]);

  const call = (body: object) =>
    fetch(`${SUPABASE_URL}/functions/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "demo-chat", messages: [{ role: "user", content: "Hello" }], ...body }),
    });
  const whole = await call({});
  expect([whole.status, await whole.json()], machine.logs()).toEqual([
    200,
    expect.objectContaining({ choices: [expect.objectContaining({ finish_reason: "stop" })] }),
  ]);
  expect(await (await call({ stream: true })).text()).toMatch(/data: \[DONE\]\s*$/);

  const readBook = () =>
    one<BookFact>(
      `select 'Acme' as tenant, $2 as granted, a.balance::text, a.reserved::text,
         (select coalesce(sum(l.amount), 0)::text from ai.credit_ledger l where l.account_id = a.id) as ledger,
         (select coalesce(sum(r.billed_credits), 0)::text from ai.runs r where r.workspace_id = $1) as billed,
         (select count(*)::int from ai.runs r where r.workspace_id = $1 and r.status = 'running') as "openRuns"
       from ai.credit_accounts a where a.workspace_id = $1`,
      [workspace.id, grantedCredits],
    );
  await expect.poll(async () => (await readBook()).openRuns, { timeout: 10_000 }).toBe(0);
  const book = await readBook();
  expect(judgeBooks([book]).flatMap(({ failures }) => failures)).toEqual([]);
  expect(Number(book.billed)).toBeGreaterThan(0);
  await again.open(`/workspaces/${workspace.id}/ai/runs`);
  expect(again.words()).toContain("demo-chat");
});

test("Supabase's address gives each key its role, and nothing without one", async () => {
  const { SUPABASE_URL = "", SUPABASE_SECRET_KEY = "", SUPABASE_PUBLISHABLE_KEY = "" } = machine.settings;
  const statusOf = async (path: string, headers: Record<string, string>) =>
    (await fetch(`${SUPABASE_URL}${path}`, { headers })).status;
  const both = (key: string) => ({ apikey: key, authorization: `Bearer ${key}` });
  const admins = "/auth/v1/admin/users";
  expect(await statusOf(admins, both(SUPABASE_SECRET_KEY))).toBe(200);
  expect(await statusOf(admins, both(SUPABASE_PUBLISHABLE_KEY))).toBeGreaterThanOrEqual(401);
  expect(await statusOf(admins, both(`${SUPABASE_SECRET_KEY}x`))).toBeGreaterThanOrEqual(401);
  const profiles = "/rest/v1/profiles?select=id";
  expect(await statusOf(profiles, both(SUPABASE_SECRET_KEY))).toBe(200);
  expect(await statusOf(profiles, { apikey: SUPABASE_SECRET_KEY })).toBe(200);
  expect(await statusOf(profiles, both(SUPABASE_PUBLISHABLE_KEY))).toBeGreaterThanOrEqual(401);
  expect(await statusOf(profiles, both(`${SUPABASE_SECRET_KEY}x`))).toBe(401);
});

// The substitutes of both servers have no limits by address.
if (IDENTITY_BIN && CADDY_BIN)
  test("a caller cannot escape the limits by stating other addresses", async () => {
    const { SUPABASE_URL = "", SUPABASE_SECRET_KEY = "", SUPABASE_PUBLISHABLE_KEY = "" } = machine.settings;
    const guess = async (apikey: string, nth: number) => {
      const address = `203.0.113.${nth}`;
      const { status } = await fetch(`${SUPABASE_URL}/auth/v1/verify`, {
        method: "POST",
        headers: {
          apikey,
          "content-type": "application/json",
          "sb-forwarded-for": address,
          "x-forwarded-for": address,
        },
        body: JSON.stringify({ type: "email", email, token: "0000000000" }),
      });
      return status;
    };
    const statuses: number[] = [];
    for (let nth = 0; nth < 40; nth += 1) statuses.push(await guess(SUPABASE_PUBLISHABLE_KEY, nth));
    expect([statuses[0], statuses.at(-1)]).toEqual([403, 429]);
    // Our servers state each visitor's address.
    expect(await guess(SUPABASE_SECRET_KEY, 41)).toBe(403);
  });
