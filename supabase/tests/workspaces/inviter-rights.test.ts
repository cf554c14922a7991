import { createHash, randomBytes } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, createWorkspace, failureOf } from "../actors.ts";
import { type Claims, type Database, one, test } from "../database.ts";

/** A workspace with an owner and an admin. */
async function createScene(db: Database) {
  const workspace = await createWorkspace(db);
  return { ...workspace, admin: await createActor(db, { workspaceId: workspace.id, role: "admin" }) };
}
type Scene = Awaited<ReturnType<typeof createScene>>;

interface Invited {
  guest: Claims;
  hash: string;
}

/** Invites a new person. */
async function invite(db: Database, { scene, by, role }: { scene: Scene; by: Claims; role: string }): Promise<Invited> {
  const guest = await createActor(db, {});
  const { email } = await one<{ email: string }>(db, {
    sql: "update auth.users set email_confirmed_at = now() where id = $1 returning email",
    values: [guest.sub],
  });
  const hash = createHash("sha256").update(randomBytes(32)).digest("hex");
  await db.asUser(by, () =>
    db.query(
      `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash)
       values ($1, $2, (select id from public.workspace_roles where workspace_id = $1 and name = $3), decode($4, 'hex'))`,
      [scene.id, email, role, hash],
    ),
  );
  return { guest, hash };
}

const stateOf = async (db: Database, { guest, hash }: Invited): Promise<string> =>
  (
    await db.asUser(guest, () =>
      one<{ state: string | null }>(db, {
        sql: "select public.workspace_invitation($1) ->> 'state' as state",
        values: [hash],
      }),
    )
  ).state ?? "unknown";

/** Accepts an invitation. @returns the guest's role, or the code of the refusal */
async function accept(db: Database, { guest, hash }: Invited): Promise<string | undefined> {
  const work = () => db.asUser(guest, () => db.query("select public.accept_workspace_invitation($1)", [hash]));
  try {
    await work();
  } catch (error) {
    return (error as { code?: string }).code;
  }
  const [member] = await db.query<{ name: string }>(
    `select r.name from public.workspace_members m join public.workspace_roles r on r.id = m.role_id
     where m.user_id = $1 and m.workspace_id <> (select id from public.workspaces where personal_user_id = $1)`,
    [guest.sub],
  );
  return member?.name;
}

const roleSql = "select id from public.workspace_roles where workspace_id = $1 and name =";
const changes: Record<string, string> = {
  "is removed": "delete from public.workspace_members where workspace_id = $1 and user_id = $2",
  "is demoted": `update public.workspace_members set role_id = (${roleSql} 'viewer') where workspace_id = $1 and user_id = $2`,
  "no longer manages members": `update public.workspace_roles set permissions = '{use_ai_studio}'
    where workspace_id = $1 and name = 'admin' and $2::uuid is not null`,
};

describe("the invitations of a member", () => {
  test.for(Object.entries(changes))("are withdrawn when the member %s", async ([, sql], { db }) => {
    const scene = await createScene(db);
    const [theirs, kept] = [
      await Promise.all(["admin", "viewer"].map((role) => invite(db, { scene, by: scene.admin, role }))),
      await invite(db, { scene, by: scene.owner, role: "admin" }),
    ];
    await db.asUser(scene.owner, () => db.query(sql, [scene.id, scene.admin.sub]));
    for (const invited of theirs) {
      expect(await stateOf(db, invited)).toBe("unknown");
      expect(await accept(db, invited)).toBe("PT404");
    }
    expect(await accept(db, kept)).toBe("admin");
    const { withdrawn } = await one<{ withdrawn: number }>(db, {
      sql: `select count(*)::int as withdrawn from public.workspace_audit_log
            where workspace_id = $1 and action = 'invitation.withdrawn' and actor_id = $2`,
      values: [scene.id, scene.owner.sub],
    });
    expect(withdrawn).toBe(2);
  });

  test("stay open for the roles that the member may still give", async ({ db }) => {
    const scene = await createScene(db);
    const [above, within] = [
      await invite(db, { scene, by: scene.admin, role: "admin" }),
      await invite(db, { scene, by: scene.admin, role: "viewer" }),
    ];
    await db.query(
      `insert into public.workspace_roles (workspace_id, name, permissions) values ($1, 'host', '{manage_members}')`,
      [scene.id],
    );
    await db.query(
      `update public.workspace_members set role_id = (${roleSql} 'host') where workspace_id = $1 and user_id = $2`,
      [scene.id, scene.admin.sub],
    );
    expect(await accept(db, above)).toBe("PT404");
    expect(await accept(db, within)).toBe("viewer");
  });

  test("are withdrawn when their role gets a permission that the member lacks", async ({ db }) => {
    const scene = await createScene(db);
    await db.query(
      `update public.workspace_roles set permissions = '{manage_members,use_ai_studio}'
       where workspace_id = $1 and name = 'admin'`,
      [scene.id],
    );
    const invited = await invite(db, { scene, by: scene.admin, role: "member" });
    await db.query(
      `update public.workspace_roles set permissions = '{use_ai_studio,manage_ai_keys}'
       where workspace_id = $1 and name = 'member'`,
      [scene.id],
    );
    expect(await accept(db, invited)).toBe("PT404");
  });

  test("are withdrawn when the member leaves or deletes their account", async ({ db }) => {
    for (const sql of [
      "delete from public.workspace_members where workspace_id = $1 and user_id = $2",
      "delete from auth.users where id = $2 and $1::uuid is not null",
    ]) {
      const scene = await createScene(db);
      const invited = await invite(db, { scene, by: scene.admin, role: "viewer" });
      await db.query(sql, [scene.id, scene.admin.sub]);
      expect(await accept(db, invited)).toBe("PT404");
    }
  });
});

describe("accepting an invitation", () => {
  test("is refused if its sender may not give the role, even if the invitation was not withdrawn", async ({ db }) => {
    // As for an invitation that a concurrent transaction sends while its sender is removed. Locks the table before any
    // row, because a later lock can deadlock with a concurrent test.
    await db.query("alter table public.workspace_members disable trigger adjust_invitations");
    const scene = await createScene(db);
    const invited = await invite(db, { scene, by: scene.admin, role: "admin" });
    await db.query(changes["is removed"] ?? "", [scene.id, scene.admin.sub]);
    expect(await stateOf(db, invited)).toBe("withdrawn");
    expect(await accept(db, invited)).toBe("PT404");
  });

  test("an owner's invitation to become an owner is refused after the owner was demoted", async ({ db }) => {
    const scene = await createScene(db);
    const invited = await invite(db, { scene, by: scene.owner, role: "owner" });
    expect(await stateOf(db, invited)).toBe("open");
    await db.asUser(scene.owner, () =>
      db.query("select public.transfer_workspace_ownership($1, $2)", [scene.id, scene.admin.sub]),
    );
    expect(await accept(db, invited)).toBe("PT404");
  });

  test("only managers can read which keys a member made", async ({ db }) => {
    const scene = await createScene(db);
    const member = await createActor(db, { workspaceId: scene.id, role: "member" });
    const list = async (by: Claims, of: Claims) =>
      (
        await db.asRole("service_role", () =>
          one<{ answer: Record<string, unknown> }>(db, {
            sql: "select ai.list_keys_of_creator($1, $2, $3) as answer",
            values: [by.sub, scene.id, of.sub],
          }),
        )
      ).answer;
    await db.query(
      `insert into ai.keys (id, lineage_id, workspace_id, created_by, name, lookup, secret_hash, revoked_at)
       select k.id, k.id, $1, $2, k.name, substr(md5(k.name), 1, 12), sha256(k.name::bytea), k.revoked_at
       from (values (gen_random_uuid(), 'Server', null::timestamptz), (gen_random_uuid(), 'Old', now())) as k (id, name, revoked_at)`,
      [scene.id, scene.admin.sub],
    );
    expect(await list(scene.owner, scene.admin)).toMatchObject({
      outcome: "listed",
      count: 1,
      keys: [{ name: "Server" }],
    });
    expect(await list(member, scene.admin)).toEqual({ outcome: "not_allowed" });
    expect(await list(member, member)).toEqual({ outcome: "listed", count: 0, keys: [] });
    await db.query(
      "update public.workspace_roles set permissions = '{manage_members}' where workspace_id = $1 and name = 'member'",
      [scene.id],
    );
    expect(await list(member, scene.admin)).toEqual({ outcome: "listed", count: 1, keys: [] });
  });
});

test("a failed removal withdraws nothing", async ({ db }) => {
  const scene = await createScene(db);
  const invited = await invite(db, { scene, by: scene.owner, role: "viewer" });
  const { code } = await failureOf(() =>
    db.asUser(scene.owner, () => db.query(changes["is removed"] ?? "", [scene.id, scene.owner.sub])),
  );
  expect(code).toBe("PT409");
  expect(await accept(db, invited)).toBe("viewer");
});
