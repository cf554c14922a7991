import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test as raceTest } from "vitest";
import { createUser, type Database, join, one, signIn, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { openLine, untilItWaits } from "../race-fixtures.ts";
import { createAdmin, createOwned } from "./fixtures.ts";

const mail = { subject: "Your account was deleted", body: "It was deleted." };

/** Lets the time of a scheduled deletion come, before that of all others. */
const letItBeDue = (db: Pick<Database, "query">, id: string) =>
  db.query(
    `update private.account_deletions
     set requested_at = '2000-01-01', due_at = '2000-01-02', checked_at = null where user_id = $1`,
    [id],
  );

const sweep = async (db: Database) =>
  (await one<{ deleted: number }>(db, { sql: "select private.delete_due_accounts() as deleted" })).deleted;

/** Sweeps in a test's transaction. Waits for the stack's own sweep, because a sweep does nothing while another runs. */
async function deleteDue(db: Database): Promise<number> {
  await db.query("select pg_advisory_xact_lock(hashtextextended('private.delete_due_accounts', 0))");
  return sweep(db);
}

const exists = async (db: Database, id: string) =>
  (await db.query("select from auth.users where id = $1", [id])).length === 1;

/** Returns an account's ban, as a number of years. */
const yearsBanned = async (db: Database, id: string) =>
  (
    await one<{ years: number | null }>(db, {
      sql: "select extract(year from age(u.banned_until, now()))::integer as years from auth.users u where u.id = $1",
      values: [id],
    })
  ).years;

describe("scheduling an account's deletion", () => {
  test("bans the account, ends its sessions, and emails the reason and the time to its owner", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    await signIn(db, { userId: account.id });
    expect(await admin.ask("request_account_deletion", { subject: account.id, days: 3, mail })).toEqual({});
    expect(await yearsBanned(db, account.id)).toBeGreaterThan(90);
    expect(await db.query("select from auth.sessions where user_id = $1", [account.id])).toEqual([]);
    const [event, ...others] = await db.query<{ kind: string; details: { reason: string; deletion: string } }>(
      `select e.kind, e.details from public.security_events e
       join private.outgoing_mails m on m.event_id = e.id where e.user_id = $1`,
      [account.id],
    );
    expect([event?.kind, event?.details.reason, others]).toEqual(["deletion_requested", "test", []]);
    const days = (Date.parse(event?.details.deletion ?? "") - Date.now()) / 86_400_000;
    expect(Math.abs(days - 3)).toBeLessThan(0.1);
    const { overview } = await one<{ overview: { deletion: { reason: string; blockers: unknown[] } } }>(db, {
      sql: "select private.account_overview($1) as overview",
      values: [account.id],
    });
    expect(overview.deletion).toMatchObject({ reason: "test", blockers: [] });
  });

  test.for([
    [0, "days"],
    [1, undefined],
    [30, undefined],
    [31, "days"],
  ] as const)("after %i days is refused: %s", async ([days, refused], { db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    expect((await admin.ask("request_account_deletion", { subject: account.id, days })).refused).toBe(refused);
  });

  test("waits seven days by default, and happens once", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    expect(await admin.ask("request_account_deletion", { subject: account.id })).toEqual({});
    const { days } = await one<{ days: number }>(db, {
      sql: "select extract(day from due_at - now())::integer as days from private.account_deletions where user_id = $1",
      values: [account.id],
    });
    expect(days).toBe(7);
    expect(await admin.ask("request_account_deletion", { subject: account.id })).toMatchObject({
      refused: "conflict",
      last: { actorEmail: admin.email },
    });
  });

  test("is refused for oneself and unknown accounts, and its ban can't be lifted alone", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    const request = (subject: string) => admin.ask("request_account_deletion", { subject });
    expect(await request(admin.id)).toEqual({ refused: "oneself" });
    expect(await request(randomUUID())).toEqual({ refused: "not_found" });
    expect(await request(account.id)).toEqual({});
    expect(await admin.ask("ban_account", { subject: account.id, until: null })).toMatchObject({ refused: "conflict" });
    expect(await admin.ask("unban_account", { subject: account.id })).toEqual({ refused: "deletion" });
  });
});

describe("keeping an account", () => {
  test("lifts its ban, and emails the reason to its owner", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    await admin.ask("request_account_deletion", { subject: account.id });
    expect(await admin.ask("cancel_account_deletion", { subject: account.id, reason: "Asked to stay" })).toEqual({});
    expect(await yearsBanned(db, account.id)).toBeNull();
    const [event] = await db.query(
      `select e.details from public.security_events e
       join private.outgoing_mails m on m.event_id = e.id where e.user_id = $1 and e.kind = 'deletion_canceled'`,
      [account.id],
    );
    expect(event).toEqual({ details: { reason: "Asked to stay" } });
    expect(await admin.ask("cancel_account_deletion", { subject: account.id })).toMatchObject({ refused: "conflict" });
    await letItBeDue(db, account.id);
    expect(await exists(db, account.id)).toBe(true);
  });

  test("an account whose ban a recovery lifted can be banned again, also beyond its deletion's end", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    await admin.ask("request_account_deletion", { subject: account.id });
    await db.query("update auth.users set banned_until = null where id = $1", [account.id]);
    const until = new Date(Date.now() + 3 * 86_400_000).toISOString();
    expect(await admin.ask("ban_account", { subject: account.id, until })).toEqual({});
    expect(await yearsBanned(db, account.id)).toBeGreaterThan(98);
    await admin.ask("cancel_account_deletion", { subject: account.id });
    const [row] = await db.query<{ until: Date }>("select banned_until as until from auth.users where id = $1", [
      account.id,
    ]);
    expect(row?.until.toISOString()).toBe(until);
  });

  test("restores the ban that the account had before", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    await db.query("update auth.users set banned_until = now() + interval '3 years 1 day' where id = $1", [account.id]);
    await admin.ask("request_account_deletion", { subject: account.id });
    await admin.ask("cancel_account_deletion", { subject: account.id });
    expect(await yearsBanned(db, account.id)).toBe(3);
  });
});

describe("deleting the accounts that are due", () => {
  test("deletes an account once its time has come, and not before", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    await admin.ask("request_account_deletion", { subject: account.id, days: 1, mail });
    await db.query(
      "update private.account_deletions set requested_at = '2000-01-01', due_at = now() + interval '1 second' where user_id = $1",
      [account.id],
    );
    await deleteDue(db);
    expect(await exists(db, account.id)).toBe(true);
    await letItBeDue(db, account.id);
    expect(await db.asRole("service_role", () => deleteDue(db))).toBe(1);
    expect(await exists(db, account.id)).toBe(false);
    const mails = "select subject, body from private.outgoing_mails where recipient = $1";
    expect(await db.query(mails, [account.email])).toEqual([mail]);
  });

  test("writes a line with the admin and the reason, and without the deleted email", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    await admin.ask("request_account_deletion", { subject: account.id, reason: "Left the company" });
    await letItBeDue(db, account.id);
    expect(await deleteDue(db)).toBe(1);
    const [line] = await db.query(
      "select actor_id, reason, request_id, to_jsonb(l)::text as text from private.admin_audit_log l where action = 'account.delete' and target = $1",
      [account.id],
    );
    expect(line).toMatchObject({ actor_id: admin.id, reason: "Left the company", request_id: "request-1" });
    expect(line?.text).not.toContain(account.email);
  });

  test("keeps the only owner of a workspace with other members, shows the workspace, and deletes the account once it has another owner", async ({
    db,
  }) => {
    const [admin, account, member] = [await createAdmin(db), await createOwned(db), await createUser(db)];
    const { id: workspaceId } = await one<{ id: string }>(db, {
      sql: "insert into public.workspaces (name, created_by) values ('Orbit', $1) returning id",
      values: [account.id],
    });
    await join(db, { workspaceId, userId: member.id, role: "member" });
    await admin.ask("request_account_deletion", { subject: account.id });
    await letItBeDue(db, account.id);
    expect(await deleteDue(db)).toBe(0);
    expect(await exists(db, account.id)).toBe(true);
    const { overview } = await one<{ overview: { deletions: object[]; attention: { deletions: { count: number } } } }>(
      db,
      { sql: "select private.read_overview('{}') as overview" },
    );
    expect(overview.deletions[0]).toMatchObject({
      userId: account.id,
      email: account.email,
      workspaces: ["Orbit"],
      blockers: 1,
    });
    expect(overview.attention.deletions.count).toBeGreaterThan(0);
    await db.query(
      `update public.workspace_members m set role_id = r.id from public.workspace_roles r
       where m.user_id = $1 and m.workspace_id = $2 and r.workspace_id = $2 and r.is_owner`,
      [member.id, workspaceId],
    );
    await letItBeDue(db, account.id);
    expect(await deleteDue(db)).toBe(1);
    expect(await exists(db, account.id)).toBe(false);
  });

  test("an account that has to stay does not keep others waiting", async ({ db }) => {
    const [admin, blocked, other, member] = [
      await createAdmin(db),
      await createOwned(db),
      await createOwned(db),
      await createUser(db),
    ];
    const { id: workspaceId } = await one<{ id: string }>(db, {
      sql: "insert into public.workspaces (name, created_by) values ('Orbit', $1) returning id",
      values: [blocked.id],
    });
    await join(db, { workspaceId, userId: member.id, role: "member" });
    for (const subject of [blocked.id, other.id]) await admin.ask("request_account_deletion", { subject });
    await letItBeDue(db, blocked.id);
    await letItBeDue(db, other.id);
    await db.query("update private.account_deletions set due_at = due_at + interval '1 hour' where user_id = $1", [
      other.id,
    ]);
    expect([await deleteDue(db), await deleteDue(db)]).toEqual([0, 1]);
    expect([await exists(db, blocked.id), await exists(db, other.id)]).toEqual([true, false]);
  });

  test.for([
    ["59 minutes", 0],
    ["60 minutes", 1],
  ] as const)("a deletion that is %s late without an attempt needs somebody: %i", async ([late, count], { db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    await admin.ask("request_account_deletion", { subject: account.id });
    await db.query(
      "update private.account_deletions set requested_at = '2000-01-01', due_at = now() - $2::interval where user_id = $1",
      [account.id, late],
    );
    const found = "select from private.blocked_deletions(1000000) where user_id = $1";
    expect(await db.query(found, [account.id])).toHaveLength(count);
  });

  test("keeps an account that has a role in the console until the role is withdrawn", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createUser(db)];
    await admin.ask("request_account_deletion", { subject: account.id });
    await letItBeDue(db, account.id);
    await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [account.id]);
    expect(await deleteDue(db)).toBe(0);
    const blocked = "select from private.blocked_deletions(1000) d where d.user_id = $1";
    expect([await exists(db, account.id), await db.query(blocked, [account.id])]).toEqual([true, [{}]]);
    await db.query("delete from private.infrastructure_admins where user_id = $1", [account.id]);
    await letItBeDue(db, account.id);
    expect(await deleteDue(db)).toBe(1);
  });

  test("ends the invitation of the deleted account's email", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    await db.query("insert into private.account_invitations (email, reason) values ($1, 'test')", [account.email]);
    await admin.ask("request_account_deletion", { subject: account.id });
    await letItBeDue(db, account.id);
    expect(await deleteDue(db)).toBe(1);
    const open = "select from private.account_invitations where email = $1 and revoked_at is null";
    expect(await db.query(open, [account.email])).toEqual([]);
  });
});

describe("concurrent changes of a scheduled deletion", () => {
  let pool: ReturnType<typeof openPool>;
  let admin: Awaited<ReturnType<typeof createAdmin>>;
  let account: Awaited<ReturnType<typeof createOwned>>;
  beforeEach(async () => {
    pool = openPool(10);
    admin = await createAdmin(pool.db, { pooled: true });
    account = await createOwned(pool.db);
  });
  afterEach(async () => {
    await pool.db.query("delete from auth.users where id = any ($1)", [[account.id, admin.id]]);
    await pool.db.query("delete from private.outgoing_mails where recipient = $1", [account.email]);
    await pool.close();
  });

  raceTest("50 admins schedule a deletion concurrently: it is scheduled once", async () => {
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => admin.ask("request_account_deletion", { subject: account.id })),
    );
    expect(answers.filter(({ refused }) => refused === undefined)).toHaveLength(1);
    expect(new Set(answers.map(({ refused }) => refused))).toEqual(new Set([undefined, "conflict"]));
  });

  raceTest("concurrent sweeps delete an account once, with one email", async () => {
    await admin.ask("request_account_deletion", { subject: account.id, mail });
    await letItBeDue(pool.db, account.id);
    // The stack's own sweep may delete it as well.
    while (await exists(pool.db, account.id)) {
      const deleted = await Promise.all(Array.from({ length: 10 }, () => sweep(pool.db)));
      expect(deleted.filter((count) => count > 0).length).toBeLessThanOrEqual(1);
    }
    const mails = "select from private.outgoing_mails where recipient = $1 and subject = $2";
    expect(await pool.db.query(mails, [account.email, mail.subject])).toHaveLength(1);
  });

  raceTest("an account that is kept while the sweep waits for it stays", async () => {
    await admin.ask("request_account_deletion", { subject: account.id });
    await letItBeDue(pool.db, account.id);
    const [keeping, sweeping] = [await openLine("service_role"), await openLine("service_role")];
    try {
      await keeping.client.query("begin");
      await keeping.client.query("select private.cancel_account_deletion($1)", [
        JSON.stringify({ actor: admin.id, subject: account.id, reason: "test", requestId: "r", ip: "192.0.2.1" }),
      ]);
      const swept = sweep(sweeping.db);
      await untilItWaits(pool.db, { work: swept, blocker: keeping.pid });
      await keeping.client.query("commit");
      expect(await swept).toBe(0);
      expect(await exists(pool.db, account.id)).toBe(true);
    } finally {
      await Promise.all([keeping.client.end(), sweeping.client.end()]);
    }
  });

  raceTest("keeping an account that the sweep is deleting finds no account", async () => {
    await admin.ask("request_account_deletion", { subject: account.id });
    await letItBeDue(pool.db, account.id);
    const [keeping, sweeping] = [await openLine("service_role"), await openLine("service_role")];
    try {
      await sweeping.client.query("begin");
      expect(await deleteDue(sweeping.db)).toBe(1);
      const kept = one<{ answer: object }>(keeping.db, {
        sql: "select private.cancel_account_deletion($1) as answer",
        values: [
          JSON.stringify({ actor: admin.id, subject: account.id, reason: "test", requestId: "r", ip: "192.0.2.1" }),
        ],
      });
      await untilItWaits(pool.db, { work: kept, blocker: sweeping.pid });
      await sweeping.client.query("commit");
      expect((await kept).answer).toEqual({ refused: "not_found" });
    } finally {
      await Promise.all([keeping.client.end(), sweeping.client.end()]);
    }
  });
});
