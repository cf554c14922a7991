import { randomBytes } from "node:crypto";
import { describe, expect } from "vitest";
import { age, ownRows } from "../abuse/attempt-fixtures.ts";
import { createActor, createWorkspace, failureOf, matrix } from "../actors.ts";
import { type Claims, type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { commitPeople } from "../recovery/fixtures.ts";

type Invitation = { workspaceId: string; role?: string; email?: string };

const invite = (db: Database, { workspaceId, role = "viewer", email = "new@example.test" }: Invitation) =>
  db.query(
    `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash)
     values ($1, $2, (select id from public.workspace_roles where workspace_id = $1 and name = $3), $4)`,
    [workspaceId, email, role, randomBytes(32)],
  );

const count = async (db: Database, workspaceId: string) =>
  (await db.query("select from public.workspace_invitations where workspace_id = $1", [workspaceId])).length;

const asManager = async (db: Database, claims: Claims, invitation: Invitation) =>
  db.asUser(claims, () => invite(db, invitation));

describe("workspace invitations", () => {
  test.for(matrix)(
    "invitations can be sent only with manage_members and satisfied MFA: $role ($mfa)",
    async ({ role, permissions, mfa, satisfied }, { db }) => {
      const { id } = await createWorkspace(db);
      const claims = await createActor(db, { workspaceId: id, role, mfa });
      const allowed = satisfied && permissions.includes("manage_members");
      if (allowed) await asManager(db, claims, { workspaceId: id });
      else expect((await failureOf(() => asManager(db, claims, { workspaceId: id }))).code).toMatch(/^(42501|23502)$/);
      expect(await count(db, id)).toBe(allowed ? 1 : 0);
    },
  );

  test.for(matrix)(
    "invitations can be read and withdrawn only with manage_members and satisfied MFA: $role ($mfa)",
    async ({ role, permissions, mfa, satisfied }, { db }) => {
      const { id, owner } = await createWorkspace(db);
      await asManager(db, owner, { workspaceId: id });
      const claims = await createActor(db, { workspaceId: id, role, mfa });
      const allowed = satisfied && permissions.includes("manage_members");
      const seen = await db.asUser(claims, () =>
        db.query("select email, invited_by from public.workspace_invitations where workspace_id = $1", [id]),
      );
      expect(seen).toEqual(allowed ? [{ email: "new@example.test", invited_by: owner.sub }] : []);
      await db.asUser(claims, () => db.query("delete from public.workspace_invitations where workspace_id = $1", [id]));
      expect(await count(db, id)).toBe(allowed ? 0 : 1);
    },
  );

  test("a workspace can have 500 pending invitations at most", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    // Inserts invitations without an inviter, so that no inviter's own limit applies.
    await db.query(
      `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash)
       select $1, 'u' || n || '@example.test', r.id, sha256((r.id::text || n)::bytea)
       from generate_series(1, 500) as n, public.workspace_roles r
       where r.workspace_id = $1 and r.name = 'viewer'`,
      [id],
    );
    expect((await failureOf(() => asManager(db, owner, { workspaceId: id }))).code).toBe("PT409");
    await db.query(
      "update public.workspace_invitations set accepted_at = now() where workspace_id = $1 and email = 'u1@example.test'",
      [id],
    );
    await asManager(db, owner, { workspaceId: id });
  });

  test("an inviter can't offer a role higher than their own", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const admin = await createActor(db, { workspaceId: id, role: "admin" });
    expect((await failureOf(() => asManager(db, admin, { workspaceId: id, role: "owner" }))).code).toBe("42501");
    await asManager(db, owner, { workspaceId: id, role: "owner" });
    expect(await count(db, id)).toBe(1);
  });

  test.for([
    "select token_hash from public.workspace_invitations",
    "update public.workspace_invitations set accepted_at = now()",
    "insert into public.workspace_invitations (workspace_id, email, role_id, token_hash, invited_by) select null, null, null, null, null",
    "insert into public.workspace_invitations (workspace_id, email, role_id, token_hash, expires_at) select null, null, null, null, null",
  ])("a workspace owner has no permission to run: %s", async (sql, { db }) => {
    const { owner } = await createWorkspace(db);
    expect((await failureOf(() => db.asUser(owner, () => db.query(sql)))).code).toBe("42501");
  });

  test("anon can't use workspace invitations", async ({ db }) => {
    const read = () => db.asRole("anon", () => db.query("select id from public.workspace_invitations"));
    expect((await failureOf(read)).code).toBe("42501");
  });

  test("an email address can have only one pending invitation to a workspace, and can be invited again after accepting it", async ({
    db,
  }) => {
    const { id, owner } = await createWorkspace(db);
    await asManager(db, owner, { workspaceId: id });
    expect((await failureOf(() => asManager(db, owner, { workspaceId: id }))).code).toBe("23505");
    await db.query("update public.workspace_invitations set accepted_at = now() where workspace_id = $1", [id]);
    await asManager(db, owner, { workspaceId: id });
    expect(await count(db, id)).toBe(2);
  });

  test("a pending invitation that is at least three minutes old is replaced by a new invitation to the same email address", async ({
    db,
  }) => {
    const { id, owner } = await createWorkspace(db);
    const hashes = () => db.query("select token_hash from public.workspace_invitations where workspace_id = $1", [id]);
    const madeAgo = (seconds: number) =>
      db.query(
        "update public.workspace_invitations set created_at = now() - make_interval(secs => $2) where workspace_id = $1",
        [id, seconds],
      );
    await asManager(db, owner, { workspaceId: id });
    const first = await hashes();
    await madeAgo(179);
    expect((await failureOf(() => asManager(db, owner, { workspaceId: id }))).code).toBe("23505");
    expect(await hashes()).toEqual(first);
    await madeAgo(180);
    await asManager(db, owner, { workspaceId: id });
    expect(await hashes()).toHaveLength(1);
    expect(await hashes()).not.toEqual(first);
  });

  test("an inviter can't replace an invitation for a role higher than their own", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const admin = await createActor(db, { workspaceId: id, role: "admin" });
    await asManager(db, owner, { workspaceId: id, role: "owner" });
    await db.query(
      "update public.workspace_invitations set created_at = now() - interval '1 day' where workspace_id = $1",
      [id],
    );
    expect((await failureOf(() => asManager(db, admin, { workspaceId: id }))).code).toBe("23505");
  });

  test.for(["Upper@example.test", "no-at-sign", `${"a".repeat(250)}@x.test`])(
    "an invitation to the email %s is refused",
    async (email, { db }) => {
      const { id, owner } = await createWorkspace(db);
      expect((await failureOf(() => asManager(db, owner, { workspaceId: id, email }))).code).toBe("23514");
    },
  );

  test("workspace invitations last seven days", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    await asManager(db, owner, { workspaceId: id });
    const row = await one(db, {
      sql: "select expires_at = now() + interval '7 days' as week from public.workspace_invitations where workspace_id = $1",
      values: [id],
    });
    expect(row).toEqual({ week: true });
  });
});

describe("an inviter", () => {
  /** Creates an inviter with three workspaces. `invite` invites into each workspace in turn. */
  async function spread(db: Database) {
    const { id: first, owner } = await createWorkspace(db);
    const rows = await db.query<{ id: string }>(
      "insert into public.workspaces (name, created_by) values ('Second', $1), ('Third', $1) returning id",
      [owner.sub],
    );
    const ids = [first, ...rows.map(({ id }) => id)];
    let made = 0;
    return {
      owner,
      ids,
      invite: () => {
        const workspaceId = ids[made % ids.length] ?? "";
        made += 1;
        return asManager(db, owner, { workspaceId, email: `${made}@example.test` });
      },
    };
  }
  test("an inviter can send ten invitations in a row, across all workspaces, and then one a minute", async ({ db }) => {
    const { invite } = await spread(db);
    for (let sent = 0; sent < 10; sent += 1) await invite();
    expect(await failureOf(invite)).toMatchObject({ code: "PT429", detail: "60" });
    await age(db, "59 seconds");
    expect(await failureOf(invite)).toMatchObject({ code: "PT429", detail: "1" });
    await age(db, "1 second");
    await invite();
    expect(await failureOf(invite)).toMatchObject({ code: "PT429", detail: "60" });
  });

  test("an inviter's daily limit allows fifty invitations in a row, and then one every 1,728 seconds", async ({
    db,
  }) => {
    const { invite } = await spread(db);
    const fillTheOther = () => db.query(`delete from private.rate_limits where scope = 'account' and ${ownRows}`);
    for (let sent = 0; sent < 50; sent += 1) {
      await invite();
      await fillTheOther();
    }
    expect(await failureOf(invite)).toMatchObject({ code: "PT429", detail: "1728" });
    await age(db, "1727 seconds");
    expect(await failureOf(invite)).toMatchObject({ code: "PT429", detail: "1" });
    await age(db, "1 second");
    await invite();
  });

  test("an inviter's withdrawn invitations count towards the limit, but refused invitations don't", async ({ db }) => {
    const { ids, owner, invite } = await spread(db);
    for (let refused = 0; refused < 10; refused += 1)
      await failureOf(() => asManager(db, owner, { workspaceId: ids[0] ?? "", email: "No@example.test" }));
    for (let sent = 0; sent < 10; sent += 1) await invite();
    await db.asUser(owner, () => db.query("delete from public.workspace_invitations"));
    expect(await failureOf(invite)).toMatchObject({ code: "PT429" });
  });

  test("other inviters in the same workspace don't affect an inviter's limit", async ({ db }) => {
    const { ids, invite } = await spread(db);
    for (let sent = 0; sent < 10; sent += 1) await invite();
    const [id = ""] = ids;
    const other = await createActor(db, { workspaceId: id, role: "admin" });
    await asManager(db, other, { workspaceId: id, email: "other@example.test" });
  });

  test("of an inviter's 60 concurrent invitations to two workspaces, ten are sent", async () => {
    const { db, close } = openPool(20);
    const people = await commitPeople(db);
    try {
      const workspaces = await db.query<{ id: string }>(
        "insert into public.workspaces (name, created_by) values ('First', $1), ('Second', $1) returning id",
        [people.userId],
      );
      const sent = await Promise.allSettled(
        Array.from({ length: 60 }, (_, index) =>
          db.query(
            `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash, invited_by)
             select r.workspace_id, $2, r.id, $3, $4 from public.workspace_roles r
             where r.workspace_id = $1 and r.name = 'viewer'`,
            [workspaces[index % 2]?.id, `${index}@race.test`, randomBytes(32), people.userId],
          ),
        ),
      );
      expect(sent.filter(({ status }) => status === "fulfilled")).toHaveLength(10);
      const codes = sent.flatMap((result) => (result.status === "rejected" ? [result.reason.code] : []));
      expect(new Set(codes)).toEqual(new Set(["PT429"]));
      await db.query("delete from public.workspaces where id = any ($1)", [workspaces.map(({ id }) => id)]);
    } finally {
      await people.remove();
      await close();
    }
  });
});
