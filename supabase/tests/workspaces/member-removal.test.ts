import { expect } from "vitest";
import { createActor, createWorkspace, failureOf, type WorkspaceRole } from "../actors.ts";
import { type Claims, type Database, one, test } from "../database.ts";

/** Creates a workspace with an owner, an admin and a member, and two keys of `creator`. */
async function createScene(db: Database, creator: WorkspaceRole) {
  const { id, owner } = await createWorkspace(db);
  const admin = await createActor(db, { workspaceId: id, role: "admin" });
  const member = await createActor(db, { workspaceId: id, role: "member" });
  const people: Partial<Record<WorkspaceRole, Claims>> = { owner, admin, member };
  const keys = await db.query<{ id: string }>(
    `insert into ai.keys (id, lineage_id, workspace_id, created_by, name, lookup, secret_hash)
     select k, k, $1, $2, 'Server', substr(md5(k::text), 1, 12), sha256(k::text::bytea)
     from (select gen_random_uuid() as k from generate_series(1, 2)) as made returning id`,
    [id, people[creator]?.sub],
  );
  const state = () =>
    one<{ members: number; revoked: string[]; logged: number }>(db, {
      sql: `select
          (select count(*)::int from public.workspace_members m where m.workspace_id = $1) as members,
          (select coalesce(jsonb_agg(k.id), '[]') from ai.keys k where k.workspace_id = $1 and k.revoked_at is not null)
            as revoked,
          (select count(*)::int from public.workspace_audit_log l where l.workspace_id = $1 and l.action = 'key.revoked')
            as logged`,
      values: [id],
    });
  const remove = (by: WorkspaceRole, { leaver = creator, claims = people[by] } = {}) =>
    db.asUser(claims as Claims, () =>
      db.query("select public.remove_workspace_member($1, $2, array[$3]::uuid[])", [
        id,
        people[leaver]?.sub,
        keys[0]?.id,
      ]),
    );
  return { id, state, remove, chosen: keys[0]?.id };
}

test.for([
  ["the last owner who leaves", "owner", "owner", "PT409"],
  ["an admin who removes the owner", "admin", "owner", "PT404"],
  ["a member who removes the admin", "member", "admin", "PT404"],
] as const)("refuses %s, and revokes no key", async ([, by, creator, code], { db }) => {
  const { state, remove } = await createScene(db, creator);
  expect(await failureOf(() => remove(by))).toMatchObject({ code });
  expect(await state()).toEqual({ members: 3, revoked: [], logged: 0 });
});

test("refuses people without a membership or the required MFA, and revokes no key", async ({ db }) => {
  const { id, state, remove } = await createScene(db, "member");
  const outsider = await createActor(db, {});
  expect(await failureOf(() => remove("outsider", { claims: outsider }))).toMatchObject({ code: "PT404" });
  const claims = await createActor(db, { workspaceId: id, role: "admin", mfa: "a factor, at AAL1" });
  expect(await failureOf(() => remove("admin", { claims }))).toMatchObject({ code: "PT403" });
  expect(await state()).toEqual({ members: 4, revoked: [], logged: 0 });
});

test.for([
  ["the owner removes a member", "owner", "member"],
  ["an admin removes a member", "admin", "member"],
  ["an admin leaves", "admin", "admin"],
] as const)("revokes the chosen key when %s", async ([, by, creator], { db }) => {
  const { state, remove, chosen } = await createScene(db, creator);
  await remove(by);
  expect(await state()).toEqual({ members: 2, revoked: [chosen], logged: 1 });
});

test("revokes no key of another person, nor for people who do not manage keys", async ({ db }) => {
  const ofAdmin = await createScene(db, "admin");
  await ofAdmin.remove("owner", { leaver: "member" });
  expect(await ofAdmin.state()).toEqual({ members: 2, revoked: [], logged: 0 });
  const own = await createScene(db, "member");
  await own.remove("member");
  expect(await own.state()).toEqual({ members: 2, revoked: [], logged: 0 });
});

test("keeps the member if a key cannot be revoked", async ({ db }) => {
  const { state, remove } = await createScene(db, "member");
  await db.query(`create function private.fail() returns trigger language plpgsql as 'begin raise lock_not_available; end';
    create trigger fail before update on ai.keys for each row execute function private.fail()`);
  expect(await failureOf(() => remove("owner"))).toMatchObject({ code: "55P03" });
  expect(await state()).toEqual({ members: 3, revoked: [], logged: 0 });
});
