import { describe, expect } from "vitest";
import { createActor, createWorkspace, failureOf, matrix, mfaStates } from "../actors.ts";
import { test } from "../database.ts";

const permissionDenied = "42501";

describe("profiles", () => {
  test.for(mfaStates)(
    "a person can read their own profile (MFA: $mfa): $satisfied",
    async ({ mfa, satisfied }, { db }) => {
      const claims = await createActor(db, { mfa });
      const rows = await db.asUser(claims, () => db.query("select id from public.profiles"));
      expect(rows).toEqual(satisfied ? [{ id: claims.sub }] : []);
    },
  );

  test.for(matrix)(
    "only members who satisfy MFA can read the profile of their workspace's owner: $role ($mfa)",
    async ({ role, mfa, satisfied }, { db }) => {
      const { id, owner } = await createWorkspace(db);
      const claims = await createActor(db, { workspaceId: id, role, mfa });
      const rows = await db.asUser(claims, () => db.query("select id from public.profiles where id = $1", [owner.sub]));
      expect(rows.length).toBe(satisfied && role !== "outsider" ? 1 : 0);
    },
  );

  test.for(mfaStates)(
    "only a person who satisfies MFA can change their own name ($mfa: $satisfied)",
    async ({ mfa, satisfied }, { db }) => {
      const claims = await createActor(db, { mfa });
      await db.asUser(claims, () => db.query("update public.profiles set display_name = 'New'"));
      const [row] = await db.query("select display_name = 'New' as changed from public.profiles where id = $1", [
        claims.sub,
      ]);
      expect(row).toEqual({ changed: satisfied });
    },
  );

  test("a person can't change another member's name", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const claims = await createActor(db, { workspaceId: id, role: "admin" });
    const rows = await db.asUser(claims, () =>
      db.query("update public.profiles set display_name = 'X' where id = $1 returning id", [owner.sub]),
    );
    expect(rows).toEqual([]);
  });

  test.for(["id = gen_random_uuid()", "created_at = now()"])(
    "a user can't set %s on their profile",
    async (assignment, { db }) => {
      const claims = await createActor(db, {});
      const error = await failureOf(() =>
        db.asUser(claims, () => db.query(`update public.profiles set ${assignment}`)),
      );
      expect(error.code).toBe(permissionDenied);
    },
  );

  test.for([
    "insert into public.profiles (id, display_name) values (gen_random_uuid(), 'X')",
    "delete from public.profiles",
    "truncate public.profiles",
  ])("profiles can't be changed by a user's %s", async (sql, { db }) => {
    const claims = await createActor(db, {});
    const error = await failureOf(() => db.asUser(claims, () => db.query(sql)));
    expect(error.code).toBe(permissionDenied);
  });

  test("anon can't read profiles", async ({ db }) => {
    const error = await failureOf(() => db.asRole("anon", () => db.query("select from public.profiles")));
    expect(error.code).toBe(permissionDenied);
  });

  test.for([
    ["x", true],
    ["x".repeat(80), true],
    ["", false],
    ["x".repeat(81), false],
    [" ", false],
    ["a\nb", false],
    ["a\u202eb", false],
    ["a\u200bb", false],
    ["a\u061cb", false],
    ["\u200d", false],
    ["\u3164\u2800", false],
    ["نگین\u200cالسادات", true],
    ["👩‍💻", true],
  ] as const)("a profile is given the name %j (accepted: %s)", async ([name, allowed], { db }) => {
    const claims = await createActor(db, {});
    const change = () => db.asUser(claims, () => db.query("update public.profiles set display_name = $1", [name]));
    if (allowed) await change();
    else expect((await failureOf(change)).code).toBe("23514");
  });

  test.for(["http://x.test/a.png", "javascript:alert(1)", `https://x.test/${"a".repeat(2048)}`])(
    "a profile refuses the picture %s",
    async (url, { db }) => {
      const claims = await createActor(db, {});
      const change = () => db.asUser(claims, () => db.query("update public.profiles set avatar_url = $1", [url]));
      expect((await failureOf(change)).code).toBe("23514");
    },
  );
});
