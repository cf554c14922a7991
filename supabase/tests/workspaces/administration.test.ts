import { createHash, randomBytes } from "node:crypto";
import { Client } from "pg";
import { describe, expect } from "vitest";
import { readStack } from "../../../scripts/test/stack.ts";
import { createActor, createWorkspace, failureOf, matrix, mfaStates, older } from "../actors.ts";
import { type Claims, type Database, one, test } from "../database.ts";
import { openLine, untilItWaits } from "../race-fixtures.ts";

const found = (db: Database, claims: Claims, name = "New") =>
  db.asUser(claims, () => one<{ id: string }>(db, { sql: "select public.create_workspace($1) as id", values: [name] }));

const rolesIn = async (db: Database, workspaceId: string) => {
  const rows = await db.query<{ user_id: string; name: string }>(
    `select m.user_id, r.name from public.workspace_members m join public.workspace_roles r on r.id = m.role_id
     where m.workspace_id = $1`,
    [workspaceId],
  );
  return Object.fromEntries(rows.map(({ user_id, name }) => [user_id, name]));
};

const emailOf = async (db: Database, { sub }: Claims) =>
  (await one<{ email: string }>(db, { sql: "select email from auth.users where id = $1", values: [sub] })).email;

const confirmEmail = (db: Database, { sub }: Claims) =>
  db.query("update auth.users set email_confirmed_at = now() where id = $1", [sub]);

/**
 * Invites a person.
 * @returns the token of the email's link, hashed as our server does
 */
async function invite(
  db: Database,
  { workspaceId, owner, email, role = "viewer" }: { workspaceId: string; owner: Claims; email: string; role?: string },
): Promise<string> {
  const hash = createHash("sha256").update(randomBytes(32)).digest("hex");
  await db.asUser(owner, () =>
    db.query(
      `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash)
       values ($1, $2, (select id from public.workspace_roles where workspace_id = $1 and name = $3), decode($4, 'hex'))`,
      [workspaceId, email, role, hash],
    ),
  );
  return hash;
}

const accept = (db: Database, claims: Claims, hash: string) =>
  db.asUser(claims, () => db.query("select public.accept_workspace_invitation($1)", [hash]));

describe("creating a workspace", () => {
  test.for(mfaStates)(
    "creating a workspace requires a session that satisfies MFA ($mfa)",
    async ({ mfa, satisfied }, { db }) => {
      const claims = await createActor(db, { mfa });
      if (satisfied) {
        const { id } = await found(db, claims);
        expect(await rolesIn(db, id)).toEqual({ [claims.sub]: "owner" });
      } else {
        expect((await failureOf(() => found(db, claims))).code).toBe("PT403");
      }
    },
  );

  test("creating a workspace requires a name of 1 to 80 characters", async ({ db }) => {
    const claims = await createActor(db, {});
    for (const name of ["a", "x".repeat(80)]) await found(db, claims, name);
    for (const name of ["", "   ", "x".repeat(81)])
      expect((await failureOf(() => found(db, claims, name))).code).toBe("23514");
  });

  test("a founder can create at most twenty workspaces, not counting deleted ones", async ({ db }) => {
    const claims = await createActor(db, {});
    await db.query("update public.workspaces set created_by = null where personal_user_id = $1", [claims.sub]);
    for (let count = 0; count < 20; count += 1) await found(db, claims);
    expect((await failureOf(() => found(db, claims))).code).toBe("PT409");
    await db.query(
      "update public.workspaces set deleted_at = now() where id = (select id from public.workspaces where created_by = $1 limit 1)",
      [claims.sub],
    );
    await found(db, claims);
  });
});

describe("an invitation", () => {
  test("an invitation can be accepted only once, and only by the account with its email", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const guest = await createActor(db, {});
    await confirmEmail(db, guest);
    const hash = await invite(db, { workspaceId: id, owner, email: await emailOf(db, guest), role: "member" });
    await accept(db, guest, hash);
    expect((await rolesIn(db, id))[guest.sub]).toBe("member");
    expect((await failureOf(() => accept(db, guest, hash))).code).toBe("PT404");
  });

  test("an invitation can't be accepted by another account or by an invitee with an unconfirmed email", async ({
    db,
  }) => {
    const { id, owner } = await createWorkspace(db);
    const [guest, stranger] = [await createActor(db, {}), await createActor(db, {})];
    await confirmEmail(db, stranger);
    const hash = await invite(db, { workspaceId: id, owner, email: await emailOf(db, guest) });
    for (const claims of [guest, stranger])
      expect((await failureOf(() => accept(db, claims, hash))).code).toBe("PT404");
    expect(Object.keys(await rolesIn(db, id))).toEqual([owner.sub]);
  });

  test("an invitation can be accepted until a second before it expires, but not once it has expired", async ({
    db,
  }) => {
    for (const [expiresIn, open] of [
      ["1 second", true],
      ["0 seconds", false],
    ] as const) {
      const { id, owner } = await createWorkspace(db);
      const guest = await createActor(db, {});
      await confirmEmail(db, guest);
      const hash = await invite(db, { workspaceId: id, owner, email: await emailOf(db, guest) });
      await db.query(
        "update public.workspace_invitations set expires_at = now() + $2::interval where workspace_id = $1",
        [id, expiresIn],
      );
      if (open) await accept(db, guest, hash);
      else expect((await failureOf(() => accept(db, guest, hash))).code).toBe("PT404");
    }
  });

  test("an invitation does not change the role of an existing member", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const admin = await createActor(db, { workspaceId: id, role: "admin" });
    await confirmEmail(db, admin);
    await accept(db, admin, await invite(db, { workspaceId: id, owner, email: await emailOf(db, admin) }));
    expect((await rolesIn(db, id))[admin.sub]).toBe("admin");
  });

  test("only the holder of an invitation's token can see its workspace and role", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const guest = await createActor(db, {});
    const hash = await invite(db, { workspaceId: id, owner, email: "someone@example.test" });
    const show = (token: string) =>
      db.asUser(guest, () =>
        one<{ shown: unknown }>(db, { sql: "select public.workspace_invitation($1) as shown", values: [token] }),
      );
    expect((await show(hash)).shown).toMatchObject({
      workspaceName: "Shared",
      role: "viewer",
      state: "open",
      forYou: false,
      email: "someone@example.test",
    });
    for (const token of ["", "zz", "0".repeat(64)]) expect((await show(token)).shown).toBeNull();
  });

  test("fifty concurrent acceptances of an invitation create one membership and one log entry", async () => {
    const admin = new Client({ connectionString: readStack().supabase.dbUrl });
    await admin.connect();
    const [owner, guest] = [crypto.randomUUID(), crypto.randomUUID()];
    const hash = createHash("sha256").update(randomBytes(32)).digest("hex");
    try {
      await admin.query(
        `insert into auth.users (id, aud, role, email, email_confirmed_at)
         select id, 'authenticated', 'authenticated', id || '@race.test', now() from unnest($1::uuid[]) as id`,
        [[owner, guest]],
      );
      const session = crypto.randomUUID();
      await admin.query(
        "insert into auth.sessions (id, user_id, aal, created_at, updated_at) values ($1, $2, 'aal1', now(), now())",
        [session, guest],
      );
      const { rows } = await admin.query(
        "insert into public.workspaces (name, created_by) values ('Race', $1) returning id",
        [owner],
      );
      const workspaceId: string = rows[0].id;
      await admin.query(
        `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash, invited_by)
         select $1, $2, id, decode($3, 'hex'), $4 from public.workspace_roles where workspace_id = $1 and name = 'member'`,
        [workspaceId, `${guest}@race.test`, hash, owner],
      );
      const claims = JSON.stringify({ sub: guest, session_id: session, role: "authenticated", aal: "aal1", amr: [] });
      const attempts = await Promise.all(
        Array.from({ length: 50 }, async () => {
          const client = new Client({ connectionString: readStack().supabase.dbUrl });
          await client.connect();
          try {
            await client.query("begin; set local role authenticated");
            await client.query("select set_config('request.jwt.claims', $1, true)", [claims]);
            await client.query("select public.accept_workspace_invitation($1)", [hash]);
            await client.query("commit");
            return true;
          } catch {
            return false;
          } finally {
            await client.end();
          }
        }),
      );
      expect(attempts.filter(Boolean)).toHaveLength(1);
      const { rows: lines } = await admin.query(
        "select action from public.workspace_audit_log where workspace_id = $1 and action in ('member.joined', 'invitation.accepted') and subject_id <> $2 order by id",
        [workspaceId, owner],
      );
      expect(lines.map(({ action }) => action)).toEqual(["invitation.accepted", "member.joined"]);
    } finally {
      await admin.query("delete from auth.users where id = any ($1)", [[owner, guest]]);
      await admin.end();
    }
  });
});

describe("ownership of a workspace", () => {
  const transfer = (db: Database, claims: Claims, { workspaceId, to }: { workspaceId: string; to: string }) =>
    db.asUser(claims, () => db.query("select public.transfer_workspace_ownership($1, $2)", [workspaceId, to]));

  test("transferring ownership makes the previous owner an admin", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const member = await createActor(db, { workspaceId: id, role: "viewer" });
    await transfer(db, owner, { workspaceId: id, to: member.sub });
    expect(await rolesIn(db, id)).toEqual({ [owner.sub]: "admin", [member.sub]: "owner" });
  });

  test("ownership can't be transferred to non-members, or to oneself", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const outsider = await createActor(db, {});
    expect((await failureOf(() => transfer(db, owner, { workspaceId: id, to: outsider.sub }))).code).toBe("PT404");
    expect((await failureOf(() => transfer(db, owner, { workspaceId: id, to: owner.sub }))).code).toBe("PT409");
    expect(await rolesIn(db, id)).toEqual({ [owner.sub]: "owner" });
  });

  test.for([
    { mfa: "no policy and no factor", seconds: 590, given: true },
    { mfa: "no policy and no factor", seconds: 610, given: false },
    { mfa: "a factor, at AAL2", seconds: 590, given: true },
    { mfa: "a factor, at AAL2", seconds: 610, given: false },
  ] as const)(
    "ownership is transferred only with a proof of identity from the last ten minutes ($mfa, $seconds s old)",
    async ({ mfa, seconds, given }, { db }) => {
      const { id } = await createWorkspace(db);
      const actor = await createActor(db, { workspaceId: id, role: "owner", mfa });
      const member = await createActor(db, { workspaceId: id, role: "viewer" });
      // If a factor is enrolled, a recent sign-in alone is not a proof of identity.
      const claims = older(actor, mfa === "a factor, at AAL2" ? { seconds, method: "totp" } : { seconds });
      if (given) await transfer(db, claims, { workspaceId: id, to: member.sub });
      else
        expect((await failureOf(() => transfer(db, claims, { workspaceId: id, to: member.sub }))).code).toBe("PT403");
      expect((await rolesIn(db, id))[member.sub]).toBe(given ? "owner" : "viewer");
    },
  );

  test("an owner without a recent proof of identity can't give, take or offer ownership by writing to the tables directly", async ({
    db,
  }) => {
    const { id, owner } = await createWorkspace(db);
    const other = await createActor(db, { workspaceId: id, role: "owner" });
    const member = await createActor(db, { workspaceId: id, role: "viewer" });
    const before = await rolesIn(db, id);
    const claims = older(owner, { seconds: 610 });
    const give = (target: string, role: string) => () =>
      db.asUser(claims, () =>
        db.query(
          `update public.workspace_members set role_id =
             (select id from public.workspace_roles where workspace_id = $1 and name = $3)
           where workspace_id = $1 and user_id = $2`,
          [id, target, role],
        ),
      );
    expect((await failureOf(give(member.sub, "owner"))).code).toBe("42501");
    await give(other.sub, "viewer")();
    await db.asUser(claims, () => db.query("delete from public.workspace_members where user_id = $1", [other.sub]));
    expect(await rolesIn(db, id)).toEqual(before);
    const offer = () => invite(db, { workspaceId: id, owner: claims, email: "co@example.test", role: "owner" });
    expect((await failureOf(offer)).code).toBe("42501");
    await give(member.sub, "admin")();
    expect(await rolesIn(db, id)).toEqual({ ...before, [member.sub]: "admin" });
  });

  test.for(matrix.filter(({ role }) => role !== "owner"))(
    "ownership can't be transferred by a $role ($mfa)",
    async (actor, { db }) => {
      const { id, owner } = await createWorkspace(db);
      const claims = await createActor(db, { workspaceId: id, role: actor.role, mfa: actor.mfa });
      expect((await failureOf(() => transfer(db, claims, { workspaceId: id, to: owner.sub }))).code).toBe("PT403");
    },
  );
});

describe("deleting a workspace", () => {
  const remove = (db: Database, claims: Claims, workspaceId: string) =>
    db.asUser(claims, () => db.query("select public.delete_workspace($1)", [workspaceId]));

  test.for(matrix)(
    "deleting a workspace requires manage_workspace_settings and satisfied MFA: $role ($mfa)",
    async (actor, { db }) => {
      const { id, owner } = await createWorkspace(db);
      const claims = await createActor(db, { workspaceId: id, role: actor.role, mfa: actor.mfa });
      const allowed = actor.satisfied && actor.permissions.includes("manage_workspace_settings");
      if (allowed) await remove(db, claims, id);
      else {
        const hidden = actor.satisfied && actor.role === "outsider";
        expect((await failureOf(() => remove(db, claims, id))).code).toBe(hidden ? "PT404" : "PT403");
      }
      const seen = await db.asUser(owner, () => db.query("select from public.workspaces where id = $1", [id]));
      expect(seen).toHaveLength(allowed ? 0 : 1);
    },
  );

  test("deleting a workspace requires a proof of identity from the last ten minutes", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    expect((await failureOf(() => remove(db, older(owner, { seconds: 610 }), id))).code).toBe("PT403");
    await remove(db, older(owner, { seconds: 590 }), id);
  });

  test("refuses to delete or transfer a workspace if its id is null", async ({ db }) => {
    const { owner } = await createWorkspace(db);
    const removed = () => db.asUser(owner, () => db.query("select public.delete_workspace(null)"));
    expect((await failureOf(removed)).code).toBe("PT404");
    const given = () => db.asUser(owner, () => db.query("select public.transfer_workspace_ownership(null, null)"));
    expect((await failureOf(given)).code).toBe("PT403");
  });

  test("deleting a workspace revokes its keys and its pending invitations", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    await invite(db, { workspaceId: id, owner, email: "late@example.test" });
    await db.query(
      `insert into ai.keys (workspace_id, lineage_id, name, lookup, secret_hash)
       values ($1, gen_random_uuid(), 'k', substr(replace(gen_random_uuid()::text, '-', ''), 1, 12), sha256($2))`,
      [id, randomBytes(8)],
    );
    await remove(db, owner, id);
    expect(await db.query("select from ai.keys where workspace_id = $1 and revoked_at is null", [id])).toEqual([]);
    expect(await db.query("select from public.workspace_invitations where workspace_id = $1", [id])).toEqual([]);
  });

  test("deleting a workspace waits for a concurrent deletion of an inviter's account, without a deadlock", async () => {
    const [ending, deleting] = [await openLine("postgres"), await openLine("postgres")];
    const owner = crypto.randomUUID();
    try {
      await ending.db.query(
        "insert into auth.users (id, aud, role, email) values ($1, 'authenticated', 'authenticated', $2)",
        [owner, `${owner}@race.test`],
      );
      const session = crypto.randomUUID();
      await ending.db.query(
        "insert into auth.sessions (id, user_id, aal, created_at, updated_at) values ($1, $2, 'aal1', now(), now())",
        [session, owner],
      );
      const { id } = await one<{ id: string }>(ending.db, {
        sql: "insert into public.workspaces (name, created_by) values ('Race', $1) returning id",
        values: [owner],
      });
      await ending.db.query(
        `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash)
         select $1, 'late@race.test', id, $2 from public.workspace_roles where workspace_id = $1 and name = 'member'`,
        [id, randomBytes(32)],
      );
      const amr = [{ method: "password", timestamp: Math.floor(Date.now() / 1_000) }];
      const claims = JSON.stringify({ sub: owner, session_id: session, role: "authenticated", aal: "aal1", amr });
      await deleting.db.query("select set_config('request.jwt.claims', $1, false)", [claims]);
      await ending.client.query("begin");
      await ending.db.query("select from public.workspace_invitations where workspace_id = $1 for update", [id]);
      const deleted = deleting.db.query("select public.delete_workspace($1)", [id]);
      await untilItWaits(ending.db, { work: deleted, blocker: ending.pid });
      await ending.db.query("select from public.workspaces where id = $1 for update", [id]);
      await ending.client.query("commit");
      await deleted;
      expect(await ending.db.query("select from public.workspaces where id = $1 and deleted_at is null", [id])).toEqual(
        [],
      );
    } finally {
      await ending.client.query("rollback");
      await ending.db.query("delete from auth.users where id = $1", [owner]);
      await Promise.all([ending.client.end(), deleting.client.end()]);
    }
  });
});

describe("a workspace's log", () => {
  test.for(matrix)(
    "a workspace's log can be read only by an owner who satisfies MFA: $role ($mfa)",
    async ({ role, mfa, satisfied }, { db }) => {
      const { id } = await createWorkspace(db);
      const claims = await createActor(db, { workspaceId: id, role, mfa });
      const rows = await db.asUser(claims, () =>
        db.query("select from public.workspace_audit_log where workspace_id = $1", [id]),
      );
      expect(rows.length > 0).toBe(satisfied && role === "owner");
    },
  );

  test("a workspace's log names who renamed the workspace, and its previous name", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    await db.asUser(owner, () => db.query("update public.workspaces set name = 'Renamed' where id = $1", [id]));
    const row = await one(db, {
      sql: "select actor_id, subject, details from public.workspace_audit_log where workspace_id = $1 and action = 'workspace.changed'",
      values: [id],
    });
    expect(row).toEqual({
      actor_id: owner.sub,
      subject: "Renamed",
      details: { before: { name: "Shared", plan: "free" }, after: { name: "Renamed", plan: "free" } },
    });
  });

  test("a workspace's log can't be changed by anyone", async ({ db }) => {
    const { owner } = await createWorkspace(db);
    for (const sql of [
      "delete from public.workspace_audit_log",
      "update public.workspace_audit_log set action = 'x'",
    ]) {
      expect((await failureOf(() => db.asUser(owner, () => db.query(sql)))).code).toBe("42501");
      expect((await failureOf(() => db.asRole("service_role", () => db.query(sql)))).code).toBe("42501");
    }
  });
});
