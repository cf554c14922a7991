import { describe, expect } from "vitest";
import { createActor, createWorkspace, mfaStates } from "../actors.ts";
import { type Claims, createUser, type Database, join, one, signIn, test } from "../database.ts";

type Member = {
  user_id: string;
  name: string;
  role: string;
  is_owner: boolean;
  sorts_as: string;
  email: string | null;
};

const membersAs = (db: Database, reader: Claims, { workspaceId, ...query }: { workspaceId: string } & MemberQuery) =>
  db.asUser(reader, () =>
    db.query<Member>("select * from public.list_workspace_members($1, $2, $3, $4, $5, $6)", [
      workspaceId,
      query.search ?? "",
      query.roleId ?? null,
      query.memberId ?? null,
      query.after ?? null,
      query.limit ?? 100,
    ]),
  );
interface MemberQuery {
  search?: string;
  roleId?: string;
  memberId?: string;
  after?: (string | boolean)[];
  limit?: number;
}

/** Adds members with the given names. */
async function addMembers(db: Database, workspaceId: string, names: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const name of names) {
    const { id } = await createUser(db);
    await db.query("update public.profiles set display_name = $2 where id = $1", [id, name]);
    await join(db, { workspaceId, userId: id, role: "member" });
    ids.push(id);
  }
  return ids;
}

describe("list_workspace_members", () => {
  test("lists a workspace's members page by page, owners first and then by name, ignoring case", async ({ db }) => {
    const { id: workspaceId, owner } = await createWorkspace(db);
    await addMembers(db, workspaceId, ["bob", "Alice", "alice", "Zoe", "50% \\_"]);
    const whole = await membersAs(db, owner, { workspaceId });
    expect(whole.map(({ name }) => name).slice(1)).toEqual([
      "50% \\_",
      expect.stringMatching(/alice/i),
      expect.stringMatching(/alice/i),
      "bob",
      "Zoe",
    ]);
    expect(whole[0]).toMatchObject({ user_id: owner.sub, is_owner: true });
    const seen: string[] = [];
    for (let after: (string | boolean)[] | undefined; ; ) {
      const page = await membersAs(db, owner, { workspaceId, limit: 2, ...(after ? { after } : {}) });
      seen.push(...page.map(({ user_id }) => user_id));
      const last = page.at(-1);
      if (!last || page.length < 2) break;
      after = [String(last.is_owner), last.sorts_as, last.user_id];
    }
    expect(seen).toEqual(whole.map(({ user_id }) => user_id));
  });

  test("filters members by part of their name, by role and by id", async ({ db }) => {
    const { id: workspaceId, owner } = await createWorkspace(db);
    const [ada = ""] = await addMembers(db, workspaceId, ["Ada Lovelace", "50% off", "Grace"]);
    const namesOf = async (query: MemberQuery) =>
      (await membersAs(db, owner, { workspaceId, ...query })).map(({ name }) => name);
    expect(await namesOf({ search: "LOVE" })).toEqual(["Ada Lovelace"]);
    expect(await namesOf({ search: "%" })).toEqual(["50% off"]);
    expect(await namesOf({ memberId: ada })).toEqual(["Ada Lovelace"]);
    const [role] = await db.query<{ id: string }>(
      "select id from public.workspace_roles where workspace_id = $1 and name = 'member'",
      [workspaceId],
    );
    expect(await namesOf({ roleId: role?.id ?? "" })).toHaveLength(3);
  });

  test("members who manage members see all email addresses, and other members only their own", async ({ db }) => {
    const { id: workspaceId, owner } = await createWorkspace(db);
    const { id, email } = await createUser(db);
    await join(db, { workspaceId, userId: id, role: "member" });
    const member = await signIn(db, { userId: id });
    const emailsAs = async (reader: Claims, query: MemberQuery = {}) =>
      (await membersAs(db, reader, { workspaceId, ...query })).map((row) => row.email);
    const { email: ownersEmail } = await one<{ email: string }>(db, {
      sql: "select email from auth.users where id = $1",
      values: [owner.sub],
    });
    expect(await emailsAs(owner)).toEqual([ownersEmail, email]);
    expect(await emailsAs(member)).toEqual([null, email]);
    expect(await emailsAs(owner, { search: email.toUpperCase() })).toEqual([email]);
    // A person who can't see an email can't search for it either.
    expect(await emailsAs(member, { search: ownersEmail })).toEqual([]);
    await db.query(
      "update public.workspace_roles set permissions = '{manage_members}' where id = (select role_id from public.workspace_members where user_id = $1 and workspace_id = $2)",
      [id, workspaceId],
    );
    expect(await emailsAs(member)).toEqual([ownersEmail, email]);
  });

  test.for(mfaStates)(
    "an admin can list members' emails only if the admin's session satisfies MFA ($mfa): $satisfied",
    async ({ mfa, satisfied }, { db }) => {
      const { id: workspaceId } = await createWorkspace(db);
      const admin = await createActor(db, { workspaceId, role: "admin", mfa });
      const listed = await db.asUser(admin, () =>
        db.query("select * from public.list_member_emails($1)", [workspaceId]),
      );
      expect(listed).toHaveLength(satisfied ? 2 : 0);
    },
  );

  test("shows a non-member no members, emails, roles or workspaces", async ({ db }) => {
    const { id: workspaceId } = await createWorkspace(db);
    const stranger = await createActor(db, {});
    expect(await membersAs(db, stranger, { workspaceId })).toEqual([]);
    await db.asUser(stranger, async () => {
      expect(await db.query("select * from public.list_member_emails($1)", [workspaceId])).toEqual([]);
      expect(await db.query("select * from public.list_workspace_roles($1)", [workspaceId])).toEqual([]);
      const listed = await db.query<{ id: string }>("select id from public.list_workspaces()");
      expect(listed.map(({ id }) => id)).not.toContain(workspaceId);
    });
  });
});

test("list_workspace_roles counts each role's members, including zero", async ({ db }) => {
  const { id: workspaceId, owner } = await createWorkspace(db);
  await addMembers(db, workspaceId, ["a", "b"]);
  const counts = await db.asUser(owner, () =>
    db.query("select r.name, r.members::integer from public.list_workspace_roles($1) r order by r.name", [workspaceId]),
  );
  expect(counts).toEqual([
    { name: "admin", members: 0 },
    { name: "member", members: 2 },
    { name: "owner", members: 1 },
    { name: "viewer", members: 0 },
  ]);
});

test("list_workspaces lists the personal workspace first, then by name, page by page", async ({ db }) => {
  const reader = await createActor(db, {});
  for (const name of ["B", "a", "C"]) {
    await db.query("insert into public.workspaces (name, plan_id, created_by) values ($1, 'free', $2)", [
      name,
      reader.sub,
    ]);
  }
  const page = (after: string[] | null, limit: number) =>
    db.asUser(reader, () =>
      db.query<{ id: string; name: string; personal: boolean }>("select * from public.list_workspaces($1, $2)", [
        after,
        limit,
      ]),
    );
  const whole = await page(null, 10);
  expect(whole).toHaveLength(4);
  expect(whole.map(({ personal }) => personal)).toEqual([true, false, false, false]);
  const seen: string[] = [];
  for (let after: string[] | null = null; seen.length < 4; ) {
    const [one] = await page(after, 1);
    if (!one) break;
    seen.push(one.id);
    after = [String(one.personal), one.name, one.id];
  }
  expect(seen).toEqual(whole.map(({ id }) => id));
  expect(await page([String(false), whole[3]?.name ?? "", whole[3]?.id ?? ""], 1)).toEqual([]);
});
