import { describe, expect } from "vitest";
import { failureOf } from "../actors.ts";
import { createUser, type Database, enrollFactor, one, test } from "../database.ts";

const listed = async (db: Database, userId: string) =>
  (
    await one<{ list: object[] }>(db, {
      sql: "select private.account_authenticators($1) as list",
      values: [userId],
    })
  ).list;

describe("an account's authenticators", () => {
  test("lists an account's authenticators by last use, most recent first, without their secrets", async ({ db }) => {
    const { id } = await createUser(db);
    const unused = await enrollFactor(db, { userId: id, status: "unverified" });
    const used = await enrollFactor(db, { userId: id });
    await db.query("update auth.mfa_factors set last_challenged_at = now() where id = $1", [used]);
    expect(await listed(db, id)).toEqual([
      {
        id: used,
        name: `app ${used}`,
        verified: true,
        createdAt: expect.any(String),
        lastUsedAt: expect.any(String),
      },
      { id: unused, name: `app ${unused}`, verified: false, createdAt: expect.any(String), lastUsedAt: null },
    ]);
  });

  test("lists no authenticators of other accounts", async ({ db }) => {
    const { id } = await createUser(db);
    const other = await createUser(db);
    await enrollFactor(db, { userId: other.id });
    expect(await listed(db, id)).toEqual([]);
  });

  test.for(["anon", "authenticated"] as const)("%s can't read an account's authenticators", async (role, { db }) => {
    const error = await failureOf(() =>
      db.asRole(role, () => db.query("select private.account_authenticators(gen_random_uuid())")),
    );
    expect(error.code).toBe("42501");
  });
});
