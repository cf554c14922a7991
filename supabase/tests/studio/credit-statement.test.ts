import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import type { CreditStatement } from "../../../remix-app/studio/credits/statement.ts";
import { statementLines } from "../../../remix-app/studio/credits/statement-lines.ts";
import { add, formatDecimal, parseDecimal } from "../../functions/_shared/decimal.ts";
import { createUser, type Database, join, one, test } from "../database.ts";
import { createTenant, type Tenant } from "../gateway/fixtures.ts";

const month = "2026-06";

async function read(db: Database, { ownerId, workspaceId }: Pick<Tenant, "ownerId" | "workspaceId">, of = month) {
  const sql = "select ai.read_credit_statement($1, $2, $3) as answer";
  const values = [ownerId, workspaceId, of];
  return (await db.asRole("service_role", () => one<{ answer: CreditStatement }>(db, { sql, values }))).answer;
}

/** Opens an account of a workspace or a member, and adds its balance before the month. */
async function openAccount(db: Database, payer: "workspace" | "member", ownerId: string): Promise<string> {
  const sql = "select ai.open_credit_account($1, $2, 0) as id";
  return (await one<{ id: string }>(db, { sql, values: [payer, ownerId] })).id;
}

/** Books an entry at a time, as settlement and grants do. */
async function book(
  db: Database,
  account: string,
  entry: {
    at: string;
    amount: string;
    kind?: string;
    run?: { id: string; at: string } | undefined;
    description?: string;
  },
): Promise<string> {
  const { at, amount, kind = "grant", run, description = null } = entry;
  const { id } = await one<{ id: string }>(db, {
    sql: `with changed as (update ai.credit_accounts set balance = balance + $2 where id = $1 returning balance)
      insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id, description, created_at)
      select $1, $3, $2, balance, $4, $5, $6, $7 from changed returning id`,
    values: [account, amount, kind, run?.at ?? null, run?.id ?? null, description, at],
  });
  return id;
}

/** Adds a run of a member with its ledger entry. */
async function use(
  db: Database,
  {
    workspaceId,
    account,
    actor,
    model = "model-a",
    at,
    settledAt = at,
    credits,
  }: Record<string, string> & { at: string; credits: string; account: string },
) {
  const id = randomUUID();
  await db.query(
    `insert into ai.runs (
       id, created_at, workspace_id, actor_id, credential_source, execution_mode, feature, request_id, model_id, routes,
       route, markup, status, usage_source, billed_credits, account_id, reserved_usd, reserved_credits, settled_at
     )
     values ($1::uuid, $2, $3, $4, 'session', 'interactive', 'chat', $1::uuid::text, $5, '[{"position": 1, "provider": "demo"}]',
       1, 1, 'succeeded', 'provider', $6, $7, 0, 0, $8)`,
    [id, at, workspaceId, actor, model, credits, account, settledAt],
  );
  await book(db, account, { at: settledAt ?? at, amount: `-${credits}`, kind: "usage", run: { id, at } });
  return { id, at };
}

/** Checks that the lines add up to the closing balance, and the use to its line. */
function expectSum(account: CreditStatement["accounts"][number] | undefined) {
  if (!account) throw new Error("no account");
  const sum = (amounts: string[]) => formatDecimal(amounts.map(parseDecimal).reduce(add, parseDecimal("0")));
  const lines = statementLines(account).map(({ credits }) => credits);
  expect(sum(lines.slice(0, -1))).toBe(lines.at(-1));
  expect(sum(account.use.map(({ credits }) => credits))).toBe(account.used);
  expect(account.unexplained).toBe("0");
}

test("a statement adds up from the opening to the closing balance, by model and member", async ({ db }) => {
  const tenant = await createTenant(db);
  const { workspaceId, ownerId } = tenant;
  const other = await createUser(db);
  await join(db, { workspaceId, userId: other.id, role: "member" });
  const account = await openAccount(db, "workspace", workspaceId);
  await book(db, account, { at: "2026-05-31T23:59:59Z", amount: "100" });
  const granted = await book(db, account, { at: "2026-06-01T00:00:00Z", amount: "50.00000001", description: "Top-up" });
  await db.query(
    "insert into ai.credit_references (account_id, reference, amount, entry_id) values ($1, 'INV-7', 50, $2)",
    [account, granted],
  );
  await book(db, account, {
    at: "2026-06-20T00:00:00Z",
    amount: "-5",
    kind: "refund",
    description: "Goodwill withdrawn",
  });
  const run = { workspaceId, account, actor: ownerId };
  // Began in May, but was billed in June.
  await use(db, { ...run, at: "2026-05-31T23:59:58Z", settledAt: "2026-06-01T00:00:02Z", credits: "1.00000001" });
  const corrected = await use(db, { ...run, at: "2026-06-10T00:00:00Z", credits: "2" });
  await use(db, { ...run, actor: other.id, at: "2026-06-11T00:00:00Z", credits: "3" });
  await use(db, { ...run, model: "model-b", at: "2026-06-12T00:00:00Z", credits: "4" });
  await book(db, account, { at: "2026-06-13T00:00:00Z", amount: "0.5", kind: "adjustment", run: corrected });
  // Belongs to July.
  await use(db, { ...run, at: "2026-06-30T23:59:59Z", settledAt: "2026-07-01T00:00:00Z", credits: "7" });

  const statement = await read(db, tenant);
  expect(statement).toMatchObject({ outcome: "listed", month, isEnded: true, paidByMembers: "0" });
  const [shown] = statement.accounts;
  expect(shown).toMatchObject({
    payer: "workspace",
    opening: "100",
    added: "50.00000001",
    deducted: "5",
    used: "10.00000001",
    corrected: "0.5",
    usedElsewhere: "0",
    closing: "135.5",
    changes: [
      { credits: "50.00000001", description: "Top-up", reference: "INV-7" },
      { credits: "-5", description: "Goodwill withdrawn", reference: null },
    ],
  });
  expect(shown?.use.map(({ model, memberId, requests, credits }) => [model, memberId, requests, credits])).toEqual([
    ["model-b", ownerId, 1, "4"],
    ["model-a", ownerId, 2, "3.00000001"],
    ["model-a", other.id, 1, "3"],
  ]);
  expectSum(shown);
  expect((await read(db, tenant, "2026-07")).accounts[0]).toMatchObject({
    opening: "135.5",
    used: "7",
    closing: "128.5",
  });
});

test("a workspace that changed its plan states what members paid before, and adds up", async ({ db }) => {
  const tenant = await createTenant(db, { payer: "member" });
  const { workspaceId, ownerId } = tenant;
  const own = await openAccount(db, "member", ownerId);
  await book(db, own, { at: "2026-06-01T00:00:00Z", amount: "20" });
  await use(db, { workspaceId, account: own, actor: ownerId, at: "2026-06-02T00:00:00Z", credits: "8" });
  const elsewhere = await createTenant(db, { payer: "member" });
  await use(db, {
    workspaceId: elsewhere.workspaceId,
    account: own,
    actor: ownerId,
    at: "2026-06-03T00:00:00Z",
    credits: "1.5",
  });

  const before = await read(db, tenant);
  expect(before.accounts).toMatchObject([
    { payer: "member", opening: "0", added: "20", used: "8", usedElsewhere: "1.5", closing: "10.5" },
  ]);
  expectSum(before.accounts[0]);
  expect(before.paidByMembers).toBe("0");

  await db.query("update ai.plans set payer = 'workspace' where id = $1", [tenant.planId]);
  const account = await openAccount(db, "workspace", workspaceId);
  await book(db, account, { at: "2026-06-15T00:00:00Z", amount: "1000", description: "Initial credits of the plan" });
  await use(db, { workspaceId, account, actor: ownerId, at: "2026-06-16T00:00:00Z", credits: "30" });
  const after = await read(db, tenant);
  expect(after.accounts).toMatchObject([
    { payer: "workspace", opening: "0", added: "1000", used: "30", usedElsewhere: "0", closing: "970" },
  ]);
  expectSum(after.accounts[0]);
  expect(after.paidByMembers).toBe("8");
});

test("a balance that changed without an entry is stated as not explained, and the lines add up", async ({ db }) => {
  const tenant = await createTenant(db);
  const account = await openAccount(db, "workspace", tenant.workspaceId);
  await book(db, account, { at: "2026-05-31T23:59:59Z", amount: "2" });
  await book(db, account, { at: "2026-06-01T00:00:00Z", amount: "10" });
  await db.query("update ai.credit_accounts set balance = balance + 3 where id = $1", [account]);
  await book(db, account, { at: "2026-06-02T00:00:00Z", amount: "1" });
  await book(db, account, { at: "2026-07-01T00:00:00Z", amount: "5" });
  const [shown] = (await read(db, tenant)).accounts;
  expect(shown).toMatchObject({ opening: "2", added: "11", unexplained: "3", closing: "16" });
  expect(shown?.changes).toHaveLength(2);
});

test("a statement is for members who may see credits, and for months that have begun", async ({ db }) => {
  const tenant = await createTenant(db);
  const stranger = await createUser(db);
  expect(await read(db, { ...tenant, ownerId: stranger.id })).toEqual({ outcome: "not_allowed" });
  expect(await read(db, tenant, "2999-01")).toMatchObject({ outcome: "bad_window" });
  const current = new Date().toISOString().slice(0, 7);
  expect(await read(db, tenant, current)).toMatchObject({ outcome: "listed", isEnded: false });
});
