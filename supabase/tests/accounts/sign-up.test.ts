import { createHash, randomBytes, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { failureOf } from "../actors.ts";
import { createAdmin } from "../console/fixtures.ts";
import { createUser, type Database, one, test } from "../database.ts";
import { needHelp, override } from "../recovery/fixtures.ts";

const newEmail = () => `${randomUUID()}@example.test`;

/** Closes sign-up in the test's transaction. */
const close = (db: Database) => db.query("update private.platform_settings set sign_up = 'invitation'");

/** Inserts an account as Supabase Auth does. */
const signUp = (
  db: Database,
  email: string | null,
  more: { phone?: string; anonymous?: boolean; sso?: boolean } = {},
) =>
  db.query(
    `insert into auth.users (id, aud, role, email, phone, is_anonymous, is_sso_user)
     values (gen_random_uuid(), 'authenticated', 'authenticated', $1, $2, $3, $4)`,
    [email, more.phone ?? null, more.anonymous ?? false, more.sso ?? false],
  );

const isRefused = async (db: Database, email: string | null, more = {}) => {
  await db.query("savepoint sign_up");
  try {
    await signUp(db, email, more);
    return false;
  } catch (error) {
    expect(error).toMatchObject({ code: "42501", message: "sign-up is by invitation" });
    await db.query("rollback to savepoint sign_up");
    return true;
  }
};

const invite = (db: Database, email: string, { expiresIn = "14 days", revoked = false } = {}) =>
  db.query(
    `insert into private.account_invitations (email, reason, created_at, expires_at, revoked_at)
     values ($1, 'test', now() - interval '20 days', now() + $2::interval, case when $3 then now() end)`,
    [email, expiresIn, revoked],
  );

async function inviteToWorkspace(
  db: Database,
  email: string,
  { expiresIn = "7 days", accepted = false, banned = false } = {},
) {
  const owner = await createInvitedOwner(db);
  const { id: workspaceId } = await one<{ id: string }>(db, {
    sql: "insert into public.workspaces (name, created_by) values ('Orbit', $1) returning id",
    values: [owner],
  });
  const token = randomBytes(32).toString("base64url");
  await db.query(
    `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash, invited_by, created_at, expires_at,
       accepted_at)
     select $1, $2, r.id, $3, $4, now() - interval '8 days', now() + $5::interval, case when $6 then now() end
     from public.workspace_roles r where r.workspace_id = $1 and r.name = 'member'`,
    [workspaceId, email, createHash("sha256").update(token).digest(), owner, expiresIn, accepted],
  );
  if (banned) await db.query("update auth.users set banned_until = now() + interval '1 day' where id = $1", [owner]);
  return { workspaceId, token };
}

/** Creates an account even while sign-up is closed. */
async function createInvitedOwner(db: Database): Promise<string> {
  const id = randomUUID();
  await invite(db, `${id}@example.test`);
  await db.query("insert into auth.users (id, aud, role, email) values ($1, 'authenticated', 'authenticated', $2)", [
    id,
    `${id}@example.test`,
  ]);
  return id;
}

describe("while sign-up is open", () => {
  test("everyone may create an account, with or without an email", async ({ db }) => {
    expect(await isRefused(db, newEmail())).toBe(false);
    expect(await isRefused(db, null, { anonymous: true })).toBe(false);
  });

  test("a missing row of settings counts as open", async ({ db }) => {
    await db.query("delete from private.platform_settings");
    expect(await isRefused(db, newEmail())).toBe(false);
  });
});

describe("while sign-up is by invitation", () => {
  test("refuses strangers, however they sign up", async ({ db }) => {
    await close(db);
    expect(await isRefused(db, newEmail())).toBe(true);
    expect(await isRefused(db, newEmail(), { sso: true })).toBe(true);
    expect(await isRefused(db, null, { phone: "4917012345678" })).toBe(true);
    expect(await isRefused(db, null, { anonymous: true })).toBe(true);
  });

  test.for([
    ["open", {}, false],
    ["that expires in a second", { expiresIn: "1 second" }, false],
    ["that expires now", { expiresIn: "0 seconds" }, true],
    ["that was revoked", { revoked: true }, true],
  ] as const)("an invitation to the platform %s (%j) refuses its email: %s", async ([, options, refused], { db }) => {
    await close(db);
    const email = newEmail();
    await invite(db, email, options);
    expect(await isRefused(db, email.toUpperCase())).toBe(refused);
    expect(await isRefused(db, `x${email}`)).toBe(true);
  });

  test.for([
    ["open", {}, false],
    ["that expires in a second", { expiresIn: "1 second" }, false],
    ["that expires now", { expiresIn: "0 seconds" }, true],
    ["that was accepted", { accepted: true }, true],
    ["of a banned person", { banned: true }, true],
  ] as const)("an invitation to a workspace %s (%j) refuses its email: %s", async ([, options, refused], { db }) => {
    await close(db);
    const email = newEmail();
    await inviteToWorkspace(db, email, options);
    expect(await isRefused(db, email)).toBe(refused);
  });

  test("an invitation admits no other account once its account has changed its email", async ({ db }) => {
    await close(db);
    const email = newEmail();
    await invite(db, email);
    expect(await isRefused(db, email)).toBe(false);
    await db.query("update auth.users set email_confirmed_at = now() where email = $1", [email]);
    await db.query("update auth.users set email = $2 where email = $1", [email, newEmail()]);
    expect(await isRefused(db, email)).toBe(true);
  });

  test("an invitation to a deleted workspace lets no email sign up", async ({ db }) => {
    const email = newEmail();
    const { workspaceId } = await inviteToWorkspace(db, email);
    await close(db);
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [workspaceId]);
    expect(await isRefused(db, email)).toBe(true);
  });

  test("a recovery override with a recovery email lets its email sign up until it is revoked", async ({ db }) => {
    const { actor } = await needHelp(db);
    const [email, other] = [newEmail(), newEmail()];
    const overrideId = await override(db, { actor, email });
    await override(db, { actor, email: other, recoveryEmail: false });
    await close(db);
    expect(await isRefused(db, other)).toBe(true);
    await db.query("savepoint active");
    expect(await isRefused(db, email)).toBe(false);
    await db.query("rollback to savepoint active");
    await db.query("update private.recovery_overrides set revoked_at = now() where id = $1", [overrideId]);
    expect(await isRefused(db, email)).toBe(true);
  });

  test.for([
    [false, "1 day", false],
    [true, "14 minutes 59 seconds", false],
    [true, "15 minutes", true],
  ] as const)(
    "an override (single-use: %s) used %s ago refuses its email: %s",
    async ([singleUse, ago, refused], { db }) => {
      const { actor } = await needHelp(db);
      const email = newEmail();
      const overrideId = await override(db, { actor, email, singleUse });
      await close(db);
      expect(await isRefused(db, newEmail())).toBe(true);
      await db.query("update private.recovery_overrides set used_at = now() - $2::interval where id = $1", [
        overrideId,
        ago,
      ]);
      await db.query("savepoint used");
      expect(await isRefused(db, email)).toBe(refused);
      await db.query("rollback to savepoint used");
      await db.query("update private.recovery_overrides set revoked_at = now() where id = $1", [overrideId]);
      expect(await isRefused(db, email)).toBe(true);
    },
  );

  test("existing accounts are not affected", async ({ db }) => {
    const { id } = await createUser(db);
    await close(db);
    await db.query("update auth.users set last_sign_in_at = now(), email = $2 where id = $1", [id, newEmail()]);
    expect(await db.query("select from auth.users where id = $1", [id])).toHaveLength(1);
  });
});

describe("the sign-up page's link", () => {
  const read = async (db: Database, { id = null, token = null }: { id?: string | null; token?: string | null }) => {
    const hash = token === null ? null : createHash("sha256").update(token).digest("hex");
    const { offer } = await db.asRole("service_role", () =>
      one<{ offer: { open: boolean; email: string | null } }>(db, {
        sql: "select private.read_sign_up($1, $2) as offer",
        values: [id, hash],
      }),
    );
    return offer;
  };

  test("names the email of an open invitation, to the platform or a workspace", async ({ db }) => {
    const [email, other] = [newEmail(), newEmail()];
    await invite(db, email);
    const { id } = await one<{ id: string }>(db, {
      sql: "select id from private.account_invitations where email = $1",
      values: [email],
    });
    const { token } = await inviteToWorkspace(db, other);
    expect(await read(db, {})).toEqual({ open: true, email: null });
    await close(db);
    expect(await read(db, { id })).toEqual({ open: false, email });
    expect(await read(db, { token })).toEqual({ open: false, email: other });
    expect(await read(db, { id: randomUUID(), token: "unknown" })).toEqual({ open: false, email: null });
    await db.query("update private.account_invitations set revoked_at = now() where id = $1", [id]);
    expect(await read(db, { id })).toEqual({ open: false, email: null });
  });
});

describe("an import of users", () => {
  const admit = (db: Database, email: string) =>
    db.asRole("service_role", () => db.query("select private.admit_imported_account($1)", [email]));

  test("lets an email sign up for an hour while sign-up is closed, and adds nothing while it is open", async ({
    db,
  }) => {
    const email = newEmail();
    const rows =
      "select imported, expires_at <= now() + interval '1 hour' as short from private.account_invitations where email = $1";
    await admit(db, email);
    expect(await db.query(rows, [email])).toEqual([]);
    await close(db);
    await admit(db, email.toUpperCase());
    await admit(db, email);
    expect(await db.query(rows, [email])).toEqual([{ imported: true, short: true }]);
    expect(await isRefused(db, email)).toBe(false);
  });

  test("does not end an admin's invitation, and the console does not list it", async ({ db }) => {
    const admin = await createAdmin(db);
    await close(db);
    const [invited, imported] = [newEmail(), newEmail()];
    await admin.ask("invite_account", { id: randomUUID(), email: invited });
    await admit(db, invited);
    await admit(db, imported);
    const { list } = await one<{ list: { email: string }[] }>(db, {
      sql: "select private.list_account_invitations(null, 50) as list",
    });
    const emails = list.map(({ email }) => email);
    expect(emails).toContain(invited);
    expect(emails).not.toContain(imported);
    expect(await admin.ask("invite_account", { id: randomUUID(), email: imported })).toEqual({});
  });
});

test("no role but the owner may change settings, invitations and deletions", async ({ db }) => {
  for (const sql of [
    "update private.platform_settings set sign_up = 'open'",
    "insert into private.account_invitations (email, reason) values ('a@example.test', 'x')",
    "delete from private.account_deletions",
  ])
    expect((await failureOf(() => db.asRole("service_role", () => db.query(sql)))).code).toBe("42501");
});
