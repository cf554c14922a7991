import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createUser, type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { createAdmin, createOwned } from "./fixtures.ts";

const newEmail = () => `${randomUUID()}@example.test`;
const mail = { subject: "You’re invited", body: "Create an account." };

type Invitation = { id: string; email: string; state: string; invitedBy: string | null; userId: string | null };

const read = async (db: Database, id: string) =>
  (
    await db.asRole("service_role", () =>
      one<{ invitation: Invitation | null }>(db, {
        sql: "select private.read_account_invitation($1) as invitation",
        values: [id],
      }),
    )
  ).invitation;

describe("inviting a person", () => {
  test("adds an invitation for 14 days, queues the email and writes one line", async ({ db }) => {
    const [admin, id, email] = [await createAdmin(db), randomUUID(), newEmail()];
    expect(await admin.ask("invite_account", { id, email: email.toUpperCase(), mail })).toEqual({});
    expect(await read(db, id)).toMatchObject({ email, state: "open", invitedBy: admin.email, userId: null });
    const mails = "select subject, body from private.outgoing_mails where recipient = $1";
    expect(await db.query(mails, [email])).toEqual([mail]);
    const lines = await db.query(
      `select action, reason, (after ->> 'expiresAt')::timestamptz = now() + interval '14 days' as lasts
       from private.admin_audit_log where target = $1`,
      [email],
    );
    expect(lines).toEqual([{ action: "account_invitation.add", reason: "test", lasts: true }]);
  });

  test("without a mail server, queues no email", async ({ db }) => {
    const [admin, email] = [await createAdmin(db), newEmail()];
    expect(await admin.ask("invite_account", { id: randomUUID(), email, mail: null })).toEqual({});
    expect(await db.query("select from private.outgoing_mails where recipient = $1", [email])).toEqual([]);
  });

  test("is refused for an email with an account or an open invitation, and allowed after it expired", async ({
    db,
  }) => {
    const [admin, account, email] = [await createAdmin(db), await createOwned(db), newEmail()];
    const invite = (to: string) => admin.ask("invite_account", { id: randomUUID(), email: to });
    expect(await invite(account.email)).toEqual({ refused: "has_account" });
    expect(await invite(email)).toEqual({});
    expect(await invite(email)).toEqual({ refused: "invited" });
    await db.query(
      "update private.account_invitations set created_at = now() - interval '15 days', expires_at = now() where email = $1",
      [email],
    );
    expect(await invite(email)).toEqual({});
    const states = await db.query<{ state: string }>(
      "select private.describe_invitation(i) ->> 'state' as state from private.account_invitations i where email = $1 order by 1",
      [email],
    );
    expect(states.map(({ state }) => state)).toEqual(["expired", "open"]);
  });

  test("is accepted once an account has confirmed the email", async ({ db }) => {
    const [admin, id, account] = [await createAdmin(db), randomUUID(), await createUser(db)];
    expect(await admin.ask("invite_account", { id, email: account.email })).toEqual({});
    expect(await read(db, id)).toMatchObject({ state: "open", userId: null });
    await db.query("update auth.users set email_confirmed_at = now() where id = $1", [account.id]);
    expect(await read(db, id)).toMatchObject({ state: "accepted", userId: account.id });
  });

  test("50 admins invite an email concurrently: it is invited once, with one email", async () => {
    const { db, close } = openPool(50);
    const [admin, email] = [await createAdmin(db, { pooled: true }), newEmail()];
    try {
      const answers = await Promise.all(
        Array.from({ length: 50 }, () => admin.ask("invite_account", { id: randomUUID(), email, mail })),
      );
      expect(answers.filter(({ refused }) => refused === undefined)).toHaveLength(1);
      expect(new Set(answers.map(({ refused }) => refused))).toEqual(new Set([undefined, "invited"]));
    } finally {
      const sent = await db.query("delete from private.outgoing_mails where recipient = $1 returning id", [email]);
      await db.query("delete from private.account_invitations where email = $1", [email]);
      await db.query("delete from auth.users where id = $1", [admin.id]);
      await close();
      expect(sent.length).toBeLessThanOrEqual(1);
    }
  });
});

describe("revoking an invitation", () => {
  test("is possible once, while it is open", async ({ db }) => {
    const [admin, id, email] = [await createAdmin(db), randomUUID(), newEmail()];
    await admin.ask("invite_account", { id, email });
    const revoke = (invitation: string) => admin.ask("revoke_account_invitation", { invitation });
    expect(await revoke(randomUUID())).toEqual({ refused: "not_found" });
    expect(await revoke(id)).toEqual({});
    expect(await read(db, id)).toMatchObject({ state: "revoked" });
    expect(await revoke(id)).toMatchObject({ refused: "conflict", last: { actorEmail: admin.email } });
    const again = randomUUID();
    expect(await admin.ask("invite_account", { id: again, email })).toEqual({});
    await db.query(
      "update private.account_invitations set created_at = now() - interval '15 days', expires_at = now() where id = $1",
      [again],
    );
    expect(await revoke(again)).toEqual({ refused: "expired" });
  });
});

test("lists invitations newest first, page by page", async ({ db }) => {
  const admin = await createAdmin(db);
  const ids = [randomUUID(), randomUUID(), randomUUID()];
  for (const [place, id] of ids.entries()) {
    await admin.ask("invite_account", { id, email: newEmail() });
    await db.query(
      "update private.account_invitations set created_at = now() + $2 * interval '1 year', expires_at = now() + interval '9 years' where id = $1",
      [id, place + 1],
    );
  }
  const page = async (before: object | null) =>
    (
      await one<{ list: (Invitation & { createdAt: string })[] }>(db, {
        sql: "select private.list_account_invitations($1, 2) as list",
        values: [before === null ? null : JSON.stringify(before)],
      })
    ).list;
  const first = await page(null);
  expect(first.map(({ id }) => id)).toEqual([ids[2], ids[1]]);
  const [, last] = first;
  expect((await page({ createdAt: last?.createdAt, id: last?.id }))[0]?.id).toBe(ids[0]);
});

describe("opening and closing sign-up", () => {
  const signUpOf = async (db: Database) =>
    (await one<{ settings: { signUp: string } }>(db, { sql: "select private.read_platform_settings() as settings" }))
      .settings.signUp;

  test("changes the setting that the admin saw, and writes one line", async ({ db }) => {
    const admin = await createAdmin(db);
    const close = { signUp: "invitation", seen: "open" };
    expect(await admin.ask("set_sign_up", close)).toEqual({});
    expect(await signUpOf(db)).toBe("invitation");
    expect(await admin.ask("set_sign_up", close)).toMatchObject({
      refused: "conflict",
      last: { actorEmail: admin.email },
    });
    expect(await admin.ask("set_sign_up", { signUp: "open", seen: "invitation" })).toEqual({});
    const lines = await db.query(
      "select before, after from private.admin_audit_log where action = 'settings.sign_up' and actor_id = $1 order by before ->> 'signUp'",
      [admin.id],
    );
    expect(lines).toEqual([
      { before: { signUp: "invitation" }, after: { signUp: "open" } },
      { before: { signUp: "open" }, after: { signUp: "invitation" } },
    ]);
  });

  test("refuses unknown settings and changes nothing if nothing would change", async ({ db }) => {
    const admin = await createAdmin(db);
    expect(await admin.ask("set_sign_up", { signUp: "open", seen: "open" })).toMatchObject({ refused: "conflict" });
    await expect(admin.ask("set_sign_up", { signUp: "closed", seen: "open" })).rejects.toMatchObject({ code: "23514" });
  });
});
