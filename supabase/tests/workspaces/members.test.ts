import { Client } from "pg";
import { describe, expect, vi } from "vitest";
import { readStack } from "../../../scripts/test/stack.ts";
import { createActor, createWorkspace, failureOf, matrix, type WorkspaceRole } from "../actors.ts";
import { type Claims, type Database, one, test } from "../database.ts";

const roleOf = (db: Database, { sub }: Claims, workspaceId: string) =>
  db.query<{ name: string }>(
    `select r.name from public.workspace_members m join public.workspace_roles r on r.id = m.role_id
     where m.user_id = $1 and m.workspace_id = $2`,
    [sub, workspaceId],
  );

const setRole = (
  db: Database,
  actor: Claims,
  { target, role, workspaceId }: { target: Claims; role: string; workspaceId: string },
) =>
  db.asUser(actor, () =>
    db.query(
      `update public.workspace_members set role_id =
         (select id from public.workspace_roles where workspace_id = $2 and name = $3)
       where user_id = $1 and workspace_id = $2`,
      [target.sub, workspaceId, role],
    ),
  );

const remove = (db: Database, actor: Claims, { target, workspaceId }: { target: Claims; workspaceId: string }) =>
  db.asUser(actor, () =>
    db.query("delete from public.workspace_members where user_id = $1 and workspace_id = $2", [
      target.sub,
      workspaceId,
    ]),
  );

const processOf = async (client: Client): Promise<number> =>
  (await client.query("select pg_backend_pid() as id")).rows[0].id;

describe("workspace members", () => {
  test.for(matrix)(
    "only members who satisfy MFA can read workspace members: $role ($mfa)",
    async ({ role, mfa, satisfied }, { db }) => {
      const { id, owner } = await createWorkspace(db);
      const claims = await createActor(db, { workspaceId: id, role, mfa });
      const rows = await db.asUser(claims, () =>
        db.query("select user_id from public.workspace_members where workspace_id = $1 and user_id = $2", [
          id,
          owner.sub,
        ]),
      );
      expect(rows.length).toBe(satisfied && role !== "outsider" ? 1 : 0);
    },
  );

  test.for(matrix)(
    "members can be removed only with manage_members and satisfied MFA: $role ($mfa)",
    async ({ role, permissions, mfa, satisfied }, { db }) => {
      const { id } = await createWorkspace(db);
      const target = await createActor(db, { workspaceId: id, role: "viewer" });
      const actor = await createActor(db, { workspaceId: id, role, mfa });
      await remove(db, actor, { target, workspaceId: id });
      const allowed = satisfied && permissions.includes("manage_members");
      expect(await roleOf(db, target, id)).toHaveLength(allowed ? 0 : 1);
    },
  );

  test.for(matrix)(
    "members can leave a workspace only if they satisfy MFA: $role ($mfa)",
    async ({ role, mfa, satisfied }, { db }) => {
      const { id } = await createWorkspace(db);
      const actor = await createActor(db, { workspaceId: id, role, mfa });
      await remove(db, actor, { target: actor, workspaceId: id });
      expect(await roleOf(db, actor, id)).toHaveLength(satisfied || role === "outsider" ? 0 : 1);
    },
  );

  const changes: { actor: WorkspaceRole; from: WorkspaceRole; to: WorkspaceRole; allowed: boolean }[] = [
    { actor: "owner", from: "viewer", to: "owner", allowed: true },
    { actor: "owner", from: "owner", to: "viewer", allowed: true },
    { actor: "admin", from: "viewer", to: "admin", allowed: true },
    { actor: "admin", from: "admin", to: "member", allowed: true },
    { actor: "admin", from: "viewer", to: "owner", allowed: false },
    { actor: "admin", from: "owner", to: "viewer", allowed: false },
    { actor: "member", from: "viewer", to: "member", allowed: false },
    { actor: "viewer", from: "member", to: "viewer", allowed: false },
    { actor: "outsider", from: "viewer", to: "member", allowed: false },
  ];
  test.for(changes)(
    "as $actor, changing a person's role from $from to $to is allowed: $allowed",
    async ({ actor, from, to, allowed }, { db }) => {
      const { id } = await createWorkspace(db);
      const target = await createActor(db, { workspaceId: id, role: from });
      const claims = await createActor(db, { workspaceId: id, role: actor });
      try {
        await setRole(db, claims, { target, role: to, workspaceId: id });
      } catch (error) {
        expect(error).toMatchObject({ code: "42501" });
      }
      expect(await roleOf(db, target, id)).toEqual([{ name: allowed ? to : from }]);
    },
  );

  test.for(["admin", "member", "viewer"] as const)("a %s can't promote themselves to owner", async (role, { db }) => {
    const { id } = await createWorkspace(db);
    const claims = await createActor(db, { workspaceId: id, role });
    await setRole(db, claims, { target: claims, role: "owner", workspaceId: id }).catch(() => undefined);
    expect(await roleOf(db, claims, id)).toEqual([{ name: role }]);
  });

  test("a member who manages members can't assign a role that has more permissions than their own", async ({ db }) => {
    const { id } = await createWorkspace(db);
    await db.query(
      "insert into public.workspace_roles (workspace_id, name, permissions) values ($1, 'people', '{manage_members,use_ai_studio}')",
      [id],
    );
    const claims = await createActor(db, { workspaceId: id, role: "viewer" });
    await db.query(
      `update public.workspace_members set role_id = (select id from public.workspace_roles where workspace_id = $1 and name = 'people')
       where workspace_id = $1 and user_id = $2`,
      [id, claims.sub],
    );
    const target = await createActor(db, { workspaceId: id, role: "viewer" });
    await setRole(db, claims, { target, role: "member", workspaceId: id });
    expect(await roleOf(db, target, id)).toEqual([{ name: "member" }]);
    const error = await failureOf(() => setRole(db, claims, { target, role: "admin", workspaceId: id }));
    expect(error.code).toBe("42501");
  });

  test("a person can't join by inserting their own membership", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const insert = () =>
      db.query(
        "insert into public.workspace_members (workspace_id, user_id, role_id) values ($1, $2, gen_random_uuid())",
        [id, owner.sub],
      );
    expect((await failureOf(() => db.asUser(owner, insert))).code).toBe("42501");
    expect((await failureOf(() => db.asRole("anon", insert))).code).toBe("42501");
  });

  test("a member can't have a role of another workspace", async ({ db }) => {
    const [first, second] = [await createWorkspace(db), await createWorkspace(db)];
    const error = await failureOf(() =>
      db.query(
        `update public.workspace_members set role_id = (select id from public.workspace_roles where workspace_id = $2 and is_owner)
         where workspace_id = $1`,
        [first.id, second.id],
      ),
    );
    expect(error.code).toBe("23503");
  });

  test("the last owner can neither leave nor step down", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    await createActor(db, { workspaceId: id, role: "admin" });
    expect((await failureOf(() => remove(db, owner, { target: owner, workspaceId: id }))).code).toBe("PT409");
    const stepDown = () => setRole(db, owner, { target: owner, role: "admin", workspaceId: id });
    expect((await failureOf(stepDown)).code).toBe("PT409");
    expect(await roleOf(db, owner, id)).toEqual([{ name: "owner" }]);
  });

  test("an owner can leave if another owner stays", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    await createActor(db, { workspaceId: id, role: "owner" });
    await remove(db, owner, { target: owner, workspaceId: id });
    expect(await roleOf(db, owner, id)).toEqual([]);
  });

  test("if the last two owners leave concurrently, one of them is refused", async ({ db: _ }) => {
    const connectionString = readStack().supabase.dbUrl;
    const clients = [new Client({ connectionString }), new Client({ connectionString })] as const;
    await Promise.all(clients.map((client) => client.connect()));
    const secondProcess = await processOf(clients[1]);
    const { rows } = await clients[0].query(`
      with users as (
        insert into auth.users (id, aud, role, email)
        select id, 'authenticated', 'authenticated', id || '@example.test' from (values (gen_random_uuid()), (gen_random_uuid())) as v (id)
        returning id
      )
      select array_agg(id) as users from users`);
    const [first, second] = rows[0].users;
    const founded = await clients[0].query(
      "insert into public.workspaces (name, created_by) values ('Two', $1) returning id",
      [first],
    );
    const workspaceId = founded.rows[0].id;
    await clients[0].query(
      `insert into public.workspace_members (workspace_id, user_id, role_id)
       select workspace_id, $2, id from public.workspace_roles where workspace_id = $1 and is_owner`,
      [workspaceId, second],
    );
    try {
      const leave = (client: Client, user: string) =>
        client.query("delete from public.workspace_members where workspace_id = $1 and user_id = $2", [
          workspaceId,
          user,
        ]);
      await clients[0].query("begin");
      await leave(clients[0], first);
      // The second transaction would still see the first owner if it did not wait.
      const later = failureOf(() => leave(clients[1], second));
      await vi.waitFor(async () => {
        const waits = await clients[0].query("select cardinality(pg_blocking_pids($1)) = 1 as yes", [secondProcess]);
        expect(waits.rows).toEqual([{ yes: true }]);
      });
      await clients[0].query("commit");
      expect(await later).toMatchObject({ code: "PT409" });
    } finally {
      await clients[0].query("rollback");
      await clients[0].query("delete from public.workspaces where id = $1 or created_by = any ($2)", [
        workspaceId,
        [first, second],
      ]);
      await clients[0].query("delete from auth.users where id = any ($1)", [[first, second]]);
      await Promise.all(clients.map((client) => client.end()));
    }
  });
});

describe("user_has_workspace_permission", () => {
  test.for(matrix.filter(({ mfa }) => mfa === "no policy and no factor"))(
    "user_has_workspace_permission grants the role $role its expected permissions",
    async ({ role, permissions }, { db }) => {
      const { id } = await createWorkspace(db);
      const claims = await createActor(db, { workspaceId: id, role });
      const row = await one<{ granted: string[] }>(db, {
        sql: `select coalesce(array_agg(p::text order by p::text), '{}') as granted
            from unnest(enum_range(null::public.workspace_permission)) as p
            where private.user_has_workspace_permission($1, $2, p)`,
        values: [claims.sub, id],
      });
      expect(row.granted).toEqual([...permissions].sort());
    },
  );
});
