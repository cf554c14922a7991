import { Client } from "pg";
import { afterAll, beforeEach, expect, test, vi } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { createPerson, type Person } from "../../scripts/test/apps.ts";
import {
  afterStackServer,
  mailEnvDown as down,
  mailEnv as env,
  lockOutbox,
  whileOthersWait,
} from "../../scripts/test/mail-env.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { join } from "../../supabase/tests/database.ts";
import { begin, chatCall, createTenant, type Tenant } from "../../supabase/tests/gateway/fixtures.ts";
import { openPool } from "../../supabase/tests/pools.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { warnOfBudgets } from "./alert-task.ts";
import { sendDueMails } from "./send-due-mails.ts";

const { db, close } = openPool(2);
let tenant: Tenant;
let admin: Person;
lockOutbox();
beforeEach(async () => {
  [tenant, admin] = await Promise.all([createTenant(db), createPerson()]);
  await join(db, { workspaceId: tenant.workspaceId, userId: admin.id, role: "admin" });
});
afterAll(close);

const soon = () => AbortSignal.timeout(20_000);
const spend = (spent: string) =>
  db.query("update ai.budgets set spent_usd = $2 where workspace_id = $1", [tenant.workspaceId, spent]);
const kept = () =>
  db.query<{ attempts: number }>("select attempts from private.outgoing_mails where recipient = $1", [admin.email]);
const resend = async (given = env) => {
  await afterStackServer();
  await db.query("update private.outgoing_mails set next_attempt_at = now() where recipient = $1", [admin.email]);
  await sendDueMails(given).run(soon());
};
/** Runs `work` while no server sweeps. Otherwise, the stack's own server could send a warning in the middle of it. */
async function withoutSweeps(work: () => Promise<unknown>): Promise<void> {
  const client = new Client({ connectionString: readStack().supabase.dbUrl });
  await client.connect();
  try {
    await client.query("select pg_advisory_lock(hashtextextended('ai.sweep_budget_alerts', 0))");
    await work();
  } finally {
    await client.end();
  }
}
/** Repeats the sweep, because it does nothing while the stack's own server is sweeping. */
async function warn(): Promise<void> {
  await expect
    .poll(
      async () => {
        await warnOfBudgets(env).run(soon());
        const [row] = await db.query<{ done: boolean }>(
          `select bool_and(posted_at is not null) as done from ai.budget_alerts where workspace_id = $1`,
          [tenant.workspaceId],
        );
        return row?.done;
      },
      { timeout: 10_000 },
    )
    .toBe(true);
}

test("concurrent sweepers send one email when a budget threshold is crossed, with the amounts and a link to the budgets", async () => {
  await db.query("select ai.set_budget('workspace', $1, $1, 10)", [tenant.workspaceId]);
  await spend("8.000000000001");
  await callAtOnce(() => warnOfBudgets(env).run(soon()));
  await warn();
  await Promise.all(Array.from({ length: 5 }, () => sendDueMails(env).run(soon())));
  await expect.poll(kept).toEqual([]);
  const mails = await mailsTo(admin.email);
  expect(mails).toHaveLength(1);
  expect(mails[0]?.subject).toBe("The monthly budget of a workspace is 80% used");
  expect(mails[0]?.text).toContain("Budget: $10.00 for ");
  expect(mails[0]?.text).toContain("Spent: $8.00");
  expect(mails[0]?.text).toContain(`${new URL(env.BASE_URL).origin}/workspaces/${tenant.workspaceId}/ai/budgets`);
});

test("a budget with too little left for a call sends one email, with the amount left", async () => {
  await db.query("select ai.set_budget('workspace', $1, $1, 10)", [tenant.workspaceId]);
  // Without a refused call, the same budget is only 80% used.
  await withoutSweeps(async () => {
    await spend("9.999999999999");
    const answers = await callAtOnce(() => begin(db, chatCall(tenant)));
    expect(new Set(answers.map(({ refused }) => refused))).toEqual(new Set(["budget_exceeded"]));
  });
  await Promise.all(Array.from({ length: 5 }, () => warnOfBudgets(env).run(soon())));
  await warn();
  await spend("10");
  await warn();
  await resend();
  await expect.poll(kept).toEqual([]);
  const mails = await mailsTo(admin.email);
  expect(mails).toHaveLength(1);
  expect(mails[0]?.subject).toBe("Requests are refused: too little is left of a workspace’s monthly budget");
  expect(mails[0]?.text).toContain("Left: $0.000000000001");
});

test("concurrent sweepers send one email to the owner of an envelope that refused a call, with a link to raise it", async () => {
  const [opened] = await db.query<{ answer: { id: string } }>(
    "select ai.open_envelope($1, $2, '', '{\"usd\": \"5\"}', $3, $2, $3) as answer",
    [tenant.workspaceId, tenant.keyId, admin.id],
  );
  const id = opened?.answer.id;
  await db.query("update ai.budgets set spent_usd = 4.9, refused_at = now() where subject_id = $1", [id]);
  await callAtOnce(() => warnOfBudgets(env).run(soon()));
  await warn();
  await resend();
  await expect.poll(kept).toEqual([]);
  const mails = await mailsTo(admin.email);
  expect(mails).toHaveLength(1);
  expect(mails[0]?.subject).toBe("A task is waiting for a decision: its limit of $5.00 is used up");
  expect(mails[0]?.text).toContain(
    `${new URL(env.BASE_URL).origin}/workspaces/${tenant.workspaceId}/ai/envelopes/${id}`,
  );
});

test("a budget warning waits while the mail server is down, and is sent once afterwards", async () => {
  await db.query("select ai.set_budget('workspace', $1, $1, 10)", [tenant.workspaceId]);
  await spend("5");
  await warn();
  const said = vi.spyOn(console, "error").mockImplementation(() => {});
  await whileOthersWait(admin.email, () => resend(down));
  await whileOthersWait(admin.email, () => resend(down));
  expect(said.mock.calls.join()).not.toContain(admin.email);
  said.mockRestore();
  // While the warning waits, it is neither lost nor recorded again.
  await warn();
  expect((await kept()).length + (await mailsTo(admin.email)).length).toBe(1);
  await resend();
  await resend();
  await expect.poll(kept).toEqual([]);
  expect(await mailsTo(admin.email)).toHaveLength(1);
});

test("a workspace without budgets gets no email", async () => {
  await warnOfBudgets(env).run(soon());
  expect(await mailsTo(admin.email)).toEqual([]);
  expect(await db.query("select from ai.budget_alerts where workspace_id = $1", [tenant.workspaceId])).toEqual([]);
});
