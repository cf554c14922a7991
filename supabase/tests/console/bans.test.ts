import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createUser, type Database, one, signIn, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { createAdmin, createOwned } from "./fixtures.ts";

const bannedUntil = async (db: Database, id: string) =>
  (
    await one<{ until: Date | null }>(db, {
      sql: "select u.banned_until as until from auth.users u where u.id = $1",
      values: [id],
    })
  ).until;

const eventsOf = (db: Database, id: string) =>
  db.query(
    `select e.kind, e.details, count(m.id)::integer as mails
     from public.security_events e
     left join private.outgoing_mails m on m.event_id = e.id
     where e.user_id = $1 and e.kind <> 'sign_in'
     group by e.id
     order by e.created_at, e.kind`,
    [id],
  );

describe("banning an account", () => {
  test("ends all its sessions, emails the reason to its owner once, and writes one line", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    for (const userId of [account.id, account.id]) await signIn(db, { userId });
    expect(await admin.ask("ban_account", { subject: account.id, until: null, reason: "Spam" })).toEqual({});
    const until = await bannedUntil(db, account.id);
    expect(until?.getUTCFullYear()).toBeGreaterThan(new Date().getUTCFullYear() + 98);
    expect(await db.query("select from auth.sessions where user_id = $1", [account.id])).toEqual([]);
    expect(await eventsOf(db, account.id)).toEqual([{ kind: "account_banned", details: { reason: "Spam" }, mails: 1 }]);
    const lines = await db.query(
      "select action, target, reason, before, after from private.admin_audit_log where target_user_id = $1",
      [account.id],
    );
    expect(lines).toEqual([
      {
        action: "account.ban",
        target: account.email,
        reason: "Spam",
        before: { banned: false, sessions: 2 },
        after: { banned: true, bannedUntil: null, sessions: 0 },
      },
    ]);
  });

  test("a ban with an end is emailed with its end", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    const until = new Date(Date.now() + 3 * 86_400_000).toISOString();
    expect(await admin.ask("ban_account", { subject: account.id, until })).toEqual({});
    expect((await bannedUntil(db, account.id))?.toISOString()).toBe(until);
    const [event] = await eventsOf(db, account.id);
    const details = event?.details as { until: string } | undefined;
    expect(new Date(details?.until ?? "").toISOString()).toBe(until);
  });

  test("bans an account that was never in use without an email", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createUser(db)];
    expect(await admin.ask("ban_account", { subject: account.id, until: null })).toEqual({});
    expect(await eventsOf(db, account.id)).toEqual([]);
  });

  test.for([
    ["now()", "until"],
    ["now() - interval '1 second'", "until"],
    ["now() + interval '1 second'", undefined],
    ["now() + interval '366 days'", undefined],
    ["now() + interval '366 days 1 second'", "until"],
  ] as const)("a ban until %s is refused: %s", async ([until, refused], { db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    const { at } = await one<{ at: string }>(db, { sql: `select (${until})::text as at` });
    expect((await admin.ask("ban_account", { subject: account.id, until: at })).refused).toBe(refused);
  });

  test("is refused for oneself, for unknown and deleted accounts, and for an account that is banned", async ({
    db,
  }) => {
    const [admin, account, deleted] = [await createAdmin(db), await createOwned(db), await createOwned(db)];
    await db.query("update auth.users set deleted_at = now() where id = $1", [deleted.id]);
    const ban = (subject: string) => admin.ask("ban_account", { subject, until: null });
    expect(await ban(admin.id)).toEqual({ refused: "oneself" });
    expect(await ban(randomUUID())).toEqual({ refused: "not_found" });
    expect(await ban(deleted.id)).toEqual({ refused: "not_found" });
    expect(await ban(account.id)).toEqual({});
    expect(await ban(account.id)).toMatchObject({ refused: "conflict", last: { actorEmail: admin.email } });
  });

  test("an expired ban does not prevent another", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    await db.query("update auth.users set banned_until = now() - interval '1 second' where id = $1", [account.id]);
    expect(await admin.ask("unban_account", { subject: account.id })).toMatchObject({ refused: "conflict" });
    expect(await admin.ask("ban_account", { subject: account.id, until: null })).toEqual({});
  });
});

describe("lifting a ban", () => {
  test("emails the reason to the owner, and leaves sessions ended", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    await admin.ask("ban_account", { subject: account.id, until: null });
    expect(await admin.ask("unban_account", { subject: account.id, reason: "A mistake" })).toEqual({});
    expect(await bannedUntil(db, account.id)).toBeNull();
    expect(await eventsOf(db, account.id)).toContainEqual({
      kind: "account_unbanned",
      details: { reason: "A mistake" },
      mails: 1,
    });
  });

  test("lifts a ban that was made at the identity backend, which still records its own event", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createOwned(db)];
    await db.query("update auth.users set banned_until = now() + interval '1 hour' where id = $1", [account.id]);
    expect(await eventsOf(db, account.id)).toEqual([{ kind: "account_banned", details: {}, mails: 1 }]);
    expect(await admin.ask("unban_account", { subject: account.id })).toEqual({});
    await db.query("update auth.users set banned_until = now() + interval '1 hour' where id = $1", [account.id]);
    expect((await eventsOf(db, account.id)).filter(({ kind }) => kind === "account_banned")).toHaveLength(2);
  });
});

test("50 admins ban an account concurrently: it is banned once, with one email and one line", async () => {
  const { db, close } = openPool(50);
  const account = await createOwned(db);
  const admin = await createAdmin(db, { pooled: true });
  try {
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => admin.ask("ban_account", { subject: account.id, until: null })),
    );
    expect(answers.filter(({ refused }) => refused === undefined)).toHaveLength(1);
    expect(new Set(answers.map(({ refused }) => refused))).toEqual(new Set([undefined, "conflict"]));
    expect(await eventsOf(db, account.id)).toMatchObject([{ kind: "account_banned", mails: 1 }]);
    const lines = "select from private.admin_audit_log where target_user_id = $1 and action = 'account.ban'";
    expect(await db.query(lines, [account.id])).toHaveLength(1);
  } finally {
    await db.query("delete from auth.users where id = any ($1)", [[account.id, admin.id]]);
    await close();
  }
});
