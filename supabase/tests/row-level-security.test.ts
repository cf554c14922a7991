import { describe, expect } from "vitest";
import { createActor, createWorkspace, mfaStates, workspaceRoles } from "./actors.ts";
import { type Claims, type Database, one, test } from "./database.ts";

/** A workspace with an ordinary member, and the actors that try to access its rows. */
interface World {
  workspaceId: string;
  subject: Claims;
  actors: Actor[];
}

interface Actor {
  name: string;
  claims: Claims;
  /** The permissions of the actor's role, if the actor is a member whose session satisfies the policy. */
  can: readonly string[];
  member: boolean;
  owner: boolean;
}

const commands = ["select", "insert", "update", "delete"] as const;
type Command = (typeof commands)[number];
type Who = (actor: Actor) => boolean;

const none: Who = () => false;
const members: Who = ({ member }) => member;
const owners: Who = ({ owner }) => owner;
const those =
  (permission: string): Who =>
  ({ can }) =>
    can.includes(permission);

interface Rule {
  /** The condition that selects the rows; $1 is the workspace and $2 the ordinary member. */
  where: string;
  insert: string;
  update: string;
  may: Record<Command, Who>;
}

/** The rule for each table of the Data API. A table without a rule fails the test. */
const rules: Record<string, Rule> = {
  profiles: {
    where: "id = $2 and $1::uuid is not null",
    insert: "(id, display_name) select gen_random_uuid(), 'X' where $1::uuid is not null and $2::uuid is not null",
    update: "display_name = 'Changed'",
    may: { select: members, insert: none, update: none, delete: none },
  },
  security_events: {
    where: "user_id = $2 and $1::uuid is not null",
    insert: "(user_id, kind) select $2, 'sign_in' where $1::uuid is not null",
    update: "kind = 'sign_in'",
    may: { select: none, insert: none, update: none, delete: none },
  },
  workspaces: {
    where: "id = $1 and $2::uuid is not null",
    insert: "(name, created_by) select 'X', $2 where $1::uuid is not null",
    update: "name = 'Changed'",
    may: { select: members, insert: none, update: those("manage_workspace_settings"), delete: none },
  },
  workspace_roles: {
    where: "workspace_id = $1 and name = 'unused' and $2::uuid is not null",
    insert: "(workspace_id, name, permissions) select $1, 'New', '{}' where $2::uuid is not null",
    update: "name = 'Changed'",
    may: {
      select: members,
      insert: those("manage_members"),
      update: those("manage_members"),
      delete: those("manage_members"),
    },
  },
  workspace_members: {
    where: "workspace_id = $1 and user_id = $2",
    insert: "(workspace_id, user_id, role_id) select $1, $2, gen_random_uuid()",
    update: "role_id = (select id from public.workspace_roles where workspace_id = $1 and name = 'unused')",
    may: { select: members, insert: none, update: those("manage_members"), delete: those("manage_members") },
  },
  workspace_invitations: {
    where: "workspace_id = $1 and $2::uuid is not null",
    insert: `(workspace_id, email, role_id, token_hash)
      select $1, 'other@example.test', id, sha256('other') from public.workspace_roles
      where workspace_id = $1 and name = 'unused' and $2::uuid is not null`,
    update: "email = 'mine@example.test'",
    may: {
      select: those("manage_members"),
      insert: those("manage_members"),
      update: none,
      delete: those("manage_members"),
    },
  },
  workspace_audit_log: {
    where: "workspace_id = $1 and $2::uuid is not null",
    insert: "(workspace_id, action) select $1, 'member.joined' where $2::uuid is not null",
    update: "action = 'member.left'",
    may: { select: owners, insert: none, update: none, delete: none },
  },
};

const permissionsOf = (db: Database) =>
  db.query<{ permission: string }>("select unnest(enum_range(null::public.workspace_permission))::text as permission");

async function createWorld(db: Database): Promise<World> {
  // Hides rows that other transactions commit meanwhile, so that the tests don't count them.
  await db.query("set transaction isolation level repeatable read");
  const { id: workspaceId } = await createWorkspace(db);
  await db.query("insert into public.workspace_roles (workspace_id, name) values ($1, 'unused')", [workspaceId]);
  const subject = await createActor(db, { workspaceId, role: "viewer" });
  await db.query("insert into public.security_events (user_id, kind) values ($1, 'sign_in')", [subject.sub]);
  await db.query(
    `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash)
     select $1, 'invited@example.test', id, sha256('invited') from public.workspace_roles
     where workspace_id = $1 and name = 'unused'`,
    [workspaceId],
  );

  const actors: Actor[] = [];
  for (const { role, permissions } of workspaceRoles) {
    const claims = await createActor(db, { workspaceId, role });
    const member = role !== "outsider";
    actors.push({ name: role, claims, can: permissions, member, owner: role === "owner" });
  }
  for (const { permission } of await permissionsOf(db)) {
    const claims = await createActor(db, {});
    await db.query(
      `with made as (
         insert into public.workspace_roles (workspace_id, name, permissions)
         values ($1, $3::text, array[$3::text]::public.workspace_permission[]) returning id
       )
       insert into public.workspace_members (workspace_id, user_id, role_id) select $1, $2, id from made`,
      [workspaceId, claims.sub, permission],
    );
    actors.push({ name: `only ${permission}`, claims, can: [permission], member: true, owner: false });
  }
  for (const { mfa, satisfied } of mfaStates) {
    if (satisfied) continue;
    const claims = await createActor(db, { workspaceId, role: "owner", mfa });
    actors.push({ name: `owner (${mfa})`, claims, can: [], member: false, owner: false });
  }
  return { workspaceId, subject, actors };
}

const statements: Record<Command, (table: string, rule: Rule) => string> = {
  select: (table, { where }) => `select 1 from public.${table} where ${where}`,
  insert: (table, { insert }) => `insert into public.${table} ${insert}`,
  update: (table, { update, where }) => `update public.${table} set ${update} where ${where}`,
  delete: (table, { where }) => `delete from public.${table} where ${where}`,
};

/** Returns a table's content as one value. */
const contentOf = async (db: Database, table: string) =>
  (
    await one<{ content: string }>(db, {
      sql: `select md5(coalesce(string_agg(t::text, ' ' order by t::text), '')) as content from public.${table} t`,
    })
  ).content;

/** Returns whether an actor sees or changes a row. Any change is rolled back. */
async function succeeds(db: Database, attempt: { actor: Actor; command: Command; table: string; world: World }) {
  const { actor, command, table, world } = attempt;
  const rule = rules[table];
  if (!rule) throw new Error(`no rule for ${table}`);
  const before = await contentOf(db, table);
  await db.query("savepoint attempt");
  const rows = await db
    .asUser(actor.claims, () => db.query(statements[command](table, rule), [world.workspaceId, world.subject.sub]))
    .catch((error: { code?: string }) => {
      if (error.code === "42501") return [];
      throw error;
    });
  const changed = (await contentOf(db, table)) !== before;
  await db.query("rollback to savepoint attempt; release savepoint attempt");
  return command === "select" ? rows.length > 0 : changed;
}

const tablesOf = async (db: Database, schemas: readonly string[]) =>
  (
    await db.query<{ name: string }>(
      `select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where n.nspname = any ($1) and c.relkind in ('r', 'p', 'v', 'm') and not c.relispartition order by 1`,
      [schemas],
    )
  ).map(({ name }) => name);

describe("tables of the Data API", () => {
  test.for(Object.entries(rules).flatMap(([table, rule]) => commands.map((command) => ({ table, command, rule }))))(
    "$table allows $command only to the actors that the table's rule names",
    async ({ table, command, rule }, { db }) => {
      const world = await createWorld(db);
      const allowed: string[] = [];
      for (const actor of world.actors) {
        if (await succeeds(db, { actor, command, table, world })) allowed.push(actor.name);
      }
      expect(allowed).toEqual(world.actors.filter(rule.may[command]).map(({ name }) => name));
    },
  );

  test("the row-level security tests cover each table of the Data API, and detect a new table", async ({ db }) => {
    const known = Object.keys(rules).map((name) => `public.${name}`);
    expect(await tablesOf(db, ["public"])).toEqual(known.sort());
    await db.query("create table public.tomorrow (id int); select private.protect_table('public.tomorrow')");
    expect(await tablesOf(db, ["public"])).not.toEqual(known);
  });

  test("the tests of a table detect a policy that is too wide and a grant that is too narrow", async ({ db }) => {
    const world = await createWorld(db);
    await db.query(
      "create policy too_wide on public.workspace_audit_log for select to authenticated using (auth.uid() is not null)",
    );
    const viewer = world.actors.find(({ name }) => name === "viewer") as Actor;
    const attempt = { actor: viewer, command: "select", table: "workspace_audit_log", world } as const;
    expect(await succeeds(db, attempt)).toBe(true);
    await db.query("revoke select on public.workspace_audit_log from authenticated");
    expect(await succeeds(db, attempt)).toBe(false);
  });
});

describe("every table", () => {
  /** Returns the commands that succeed for a role on tables where every command must fail. */
  async function openings(db: Database, tables: readonly string[], run: (sql: string) => Promise<unknown>) {
    const found: string[] = [];
    for (const table of tables) {
      const { column } = await one<{ column: string }>(db, {
        sql: `select quote_ident(attname) as column from pg_attribute
              where attrelid = $1::regclass and attnum > 0 and not attisdropped and attidentity = '' and attgenerated = ''
              order by attnum limit 1`,
        values: [table],
      });
      for (const [command, sql] of [
        ["select", `select from ${table}`],
        ["insert", `insert into ${table} default values`],
        ["update", `update ${table} set ${column} = ${column}`],
        ["delete", `delete from ${table}`],
      ] as const) {
        const code = await run(sql).then(
          () => "none",
          (error: { code?: string }) => error.code,
        );
        if (code !== "42501") found.push(`${command} on ${table}: ${code}`);
      }
    }
    return found;
  }

  test("every table in the schemas private and ai denies every command to a workspace owner at AAL2", async ({
    db,
  }) => {
    const { id: workspaceId } = await createWorkspace(db);
    const claims = await createActor(db, { workspaceId, role: "owner", mfa: "required, at AAL2" });
    const tables = await tablesOf(db, ["private", "ai"]);
    expect(tables.length).toBeGreaterThan(20);
    expect(await openings(db, tables, (sql) => db.asUser(claims, () => db.query(sql)))).toEqual([]);
    await db.query("grant usage on schema ai to authenticated; grant select on ai.keys to authenticated");
    expect(await openings(db, ["ai.keys"], (sql) => db.asUser(claims, () => db.query(sql)))).toEqual([
      "select on ai.keys: none",
    ]);
  });

  test("every table denies every command to anon", async ({ db }) => {
    const tables = await tablesOf(db, ["public", "private", "ai"]);
    expect(await openings(db, tables, (sql) => db.asRole("anon", () => db.query(sql)))).toEqual([]);
  });
});
