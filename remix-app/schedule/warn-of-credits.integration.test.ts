import { afterAll, beforeEach, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { createPerson, type Person } from "../../scripts/test/apps.ts";
import { mailEnv as env, lockOutbox } from "../../scripts/test/mail-env.ts";
import { join } from "../../supabase/tests/database.ts";
import { begin, chatCall, createTenant, type Tenant } from "../../supabase/tests/gateway/fixtures.ts";
import { openPool } from "../../supabase/tests/pools.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { warnOfCredits } from "./alert-task.ts";
import { sendDueMails } from "./send-due-mails.ts";

const { db, close } = openPool(2);
let tenant: Tenant;
let admin: Person;
lockOutbox();
beforeEach(async () => {
  [tenant, admin] = await Promise.all([createTenant(db, { credits: "20000" }), createPerson()]);
  await join(db, { workspaceId: tenant.workspaceId, userId: admin.id, role: "admin" });
});
afterAll(close);

const soon = () => AbortSignal.timeout(20_000);
const setBalance = (credits: string) =>
  db.query("update ai.credit_accounts set balance = $2 where workspace_id = $1", [tenant.workspaceId, credits]);
const kept = () => db.query("select from private.outgoing_mails where recipient = $1", [admin.email]);

/** Repeats the sweep, because it does nothing while the stack's own server is sweeping. */
async function warn(): Promise<void> {
  await expect
    .poll(
      async () => {
        await warnOfCredits(env).run(soon());
        const rows = await db.query<{ posted: boolean }>(
          `select k.level > 'funded' and k.posted_at is not null as posted
           from ai.credit_accounts a join ai.credit_alerts k on k.account_id = a.id where a.workspace_id = $1`,
          [tenant.workspaceId],
        );
        return rows[0]?.posted;
      },
      { timeout: 10_000 },
    )
    .toBe(true);
}

/**
 * Sends the due emails until none are left, because the stack's own server may be sending some of them. Returns the
 * emails to the admin.
 */
async function received() {
  const send = async () => {
    await sendDueMails(env).run(soon());
    return kept();
  };
  await expect.poll(send, { timeout: 10_000 }).toEqual([]);
  return mailsTo(admin.email);
}

test("concurrent sweepers send one low-balance email, with the exact balance and a link", async () => {
  await setBalance("9999.99999999");
  await callAtOnce(() => warnOfCredits(env).run(soon()));
  await warn();
  const mails = await received();
  expect(mails).toHaveLength(1);
  expect(mails[0]?.subject).toBe("A workspace is low on credits");
  expect(mails[0]?.text).toContain("Balance: 10,000.00 credits");
  expect(mails[0]?.text).toContain(`${new URL(env.BASE_URL).origin}/workspaces/${tenant.workspaceId}/ai/credits`);
});

test("sends one email after calls are refused for lack of credits, and another one after a top-up is used up", async () => {
  await setBalance("0.00000001");
  const answers = await callAtOnce(() => begin(db, chatCall(tenant)));
  expect(new Set(answers.map(({ refused }) => refused))).toEqual(new Set(["insufficient_credits"]));
  await warn();
  await setBalance("0");
  await warn();
  expect((await received()).map(({ subject }) => subject)).toEqual(["A workspace is out of credits"]);
  await db.query("select ai.grant_credits('workspace', $1, 50000, 'test', 'INV-1')", [tenant.workspaceId]);
  await setBalance("0");
  await warn();
  expect(await received()).toHaveLength(2);
});

test("a balance above the threshold sends no email", async () => {
  await setBalance("10000");
  await warnOfCredits(env).run(soon());
  expect(await kept()).toEqual([]);
  expect(await mailsTo(admin.email)).toEqual([]);
});
