import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createUser, one, signIn, test } from "../database.ts";

const insertUser =
  "insert into auth.users (id, aud, role, email, raw_user_meta_data) values ($1, 'authenticated', 'authenticated', $2, $3)";

describe("a new user", () => {
  test("a new user gets a profile and a personal free workspace that they own", async ({ db }) => {
    const user = await createUser(db, { userMetadata: { full_name: "Ada Lovelace" } });
    const claims = await signIn(db, { userId: user.id });
    const rows = await db.asUser(claims, () =>
      db.query(`
        select w.name, w.plan_id, w.personal_user_id, p.display_name, r.name as role
        from public.workspaces w
        join public.workspace_members m on m.workspace_id = w.id
        join public.workspace_roles r on r.id = m.role_id
        join public.profiles p on p.id = m.user_id`),
    );
    expect(rows).toEqual([
      {
        name: "Ada Lovelace's workspace",
        plan_id: "free",
        personal_user_id: user.id,
        display_name: "Ada Lovelace",
        role: "owner",
      },
    ]);
  });

  test.for([
    [{ display_name: "Ada", full_name: "B", name: "C" }, "Ada"],
    [{ full_name: "Ada L", name: "C" }, "Ada L"],
    [{ name: "Ada" }, "Ada"],
    [{ display_name: "   ", name: "Ada" }, "Ada"],
    [{ display_name: "A\u0007d\na" }, "A d a"],
    [{ display_name: "\u202eadA\u2029\u200b" }, "adA"],
    [{ display_name: "\u061cA\u180e" }, "A"],
    [{ display_name: "\u3164\u2800", name: "Ada" }, "Ada"],
    [{ display_name: `${"\u200d".repeat(80)}x`, name: "Ada" }, "Ada"],
    [{ display_name: "x".repeat(200) }, "x".repeat(80)],
    [{ display_name: "😀".repeat(100) }, "😀".repeat(80)],
    [{ display_name: { evil: true } }, '{"evil": true}'],
    [{}, "local"],
    [null, "local"],
    ["text", "local"],
    [["list"], "local"],
  ] as const)("a new user with metadata %j gets the name %s", async ([metadata, name], { db }) => {
    const id = randomUUID();
    await db.query(insertUser, [id, "local@example.test", JSON.stringify(metadata)]);
    const row = await one(db, { sql: "select display_name from public.profiles where id = $1", values: [id] });
    expect(row).toEqual({ display_name: name });
  });

  test("a new user without an email or metadata still gets a name", async ({ db }) => {
    const id = randomUUID();
    await db.query(insertUser, [id, null, null]);
    const row = await one(db, { sql: "select display_name from public.profiles where id = $1", values: [id] });
    expect(row).toEqual({ display_name: "New user" });
  });

  test.for([
    ["https://x.test/a.png", "https://x.test/a.png"],
    ["http://x.test/a.png", null],
    ["javascript:alert(1)", null],
    [`https://x.test/${"a".repeat(2100)}`, null],
  ] as const)("a new user with the picture URL %s gets the picture %s", async ([picture, kept], { db }) => {
    const user = await createUser(db, { userMetadata: { avatar_url: picture } });
    const row = await one(db, { sql: "select avatar_url from public.profiles where id = $1", values: [user.id] });
    expect(row).toEqual({ avatar_url: kept });
  });

  test("a user may have up to 2400 bytes of metadata, at sign-up and later", async ({ db }) => {
    const metadata = (bytes: number) => ({ x: "y".repeat(bytes - '{"x": ""}'.length) });
    const user = await createUser(db, { userMetadata: metadata(2400) });
    const change = "update auth.users set raw_user_meta_data = $2 where id = $1";
    await db.query(change, [user.id, JSON.stringify(metadata(2400))]);
    await expect(db.query(change, [user.id, JSON.stringify(metadata(2401))])).rejects.toThrow("larger than 2400 bytes");
  });

  test("a new user with 2401 bytes of metadata is refused", async ({ db }) => {
    const made = createUser(db, { userMetadata: { x: "y".repeat(2401 - '{"x": ""}'.length) } });
    await expect(made).rejects.toThrow("larger than 2400 bytes");
  });

  test("a new user gets a profile although the identity backend's role can't write to our tables", async ({ db }) => {
    const row = await one(db, {
      sql: `select
              has_table_privilege('supabase_auth_admin', 'auth.users', 'insert') as inserts,
              has_table_privilege('supabase_auth_admin', 'public.profiles', 'insert') as writes,
              (select p.prosecdef from pg_proc p where p.oid = 'private.create_profile_and_workspace()'::regprocedure) as definer`,
    });
    expect(row).toEqual({ inserts: true, writes: false, definer: true });
  });

  test("a new user leaves no profile after being deleted", async ({ db }) => {
    const user = await createUser(db);
    await db.query("delete from auth.users where id = $1", [user.id]);
    expect(await db.query("select from public.profiles where id = $1", [user.id])).toEqual([]);
  });
});

test("a new account and its personal workspace take the name that its owner typed", async ({ db }) => {
  const [user, other] = [await createUser(db), await createUser(db)];
  await db.asRole("service_role", () => db.query("select private.name_new_account($1, $2)", [user.id, "Ada Lovelace"]));
  const names = await db.query(
    `select p.display_name, w.name
     from public.profiles p
     join public.workspaces w on w.personal_user_id = p.id
     where p.id = any ($1) and (p.display_name = 'Ada Lovelace' or w.name = 'Ada Lovelace''s workspace')`,
    [[user.id, other.id]],
  );
  expect(names).toEqual([{ display_name: "Ada Lovelace", name: "Ada Lovelace's workspace" }]);
});
