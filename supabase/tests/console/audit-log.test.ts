import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf, type MfaState } from "../actors.ts";
import { type Claims, type Database, one, test } from "../database.ts";

async function createAdmin(db: Database, mfa: MfaState = "a factor, at AAL2"): Promise<Claims> {
  const claims = await createActor(db, { mfa });
  await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [claims.sub]);
  return claims;
}

async function addLine(db: Database): Promise<string> {
  const target = `test ${randomUUID()}`;
  await db.query("insert into private.admin_audit_log (action, target, reason) values ('test.line', $1, 'test')", [
    target,
  ]);
  return target;
}

async function read(db: Database, { reader, target }: { reader: object; target: string }) {
  const { lines } = await one<{ lines: { target: string }[] | null }>(db, {
    sql: "select private.search_audit_log($1, $2) as lines",
    values: [JSON.stringify(reader), JSON.stringify({ target })],
  });
  return lines;
}

describe("the audit log", () => {
  test("an admin with a second factor can read the audit log", async ({ db }) => {
    const [reader, target] = [await createAdmin(db), await addLine(db)];
    expect(await db.asRole("service_role", () => read(db, { reader, target }))).toMatchObject([{ target }]);
    expect(await db.asRole("service_role", () => read(db, { reader, target: `${target}!` }))).toEqual([]);
  });

  test.for([
    ["the admin role is withdrawn", "delete from private.infrastructure_admins where user_id = $1"],
    ["the session has ended", "delete from auth.sessions where user_id = $1"],
    ["the account is banned", "update auth.users set banned_until = now() + interval '1 day' where id = $1"],
    ["the account is deleted", "update auth.users set deleted_at = now() where id = $1"],
    ["the session's authenticator is removed", "delete from auth.mfa_factors where user_id = $1"],
  ] as const)("an admin can no longer read the audit log once %s", async ([, sql], { db }) => {
    const [reader, target] = [await createAdmin(db), await addLine(db)];
    expect(await read(db, { reader, target })).toHaveLength(1);
    await db.query(sql, [reader.sub]);
    expect(await read(db, { reader, target })).toBeNull();
  });

  test.for(["a factor, at AAL1", "no policy and no factor", "required, at AAL2 of before the boundary"] as const)(
    "an admin whose MFA state is not satisfied can't read the audit log: %s",
    async (mfa, { db }) => {
      const [reader, target] = [await createAdmin(db, mfa), await addLine(db)];
      expect(await read(db, { reader, target })).toBeNull();
    },
  );

  test("the audit log can't be read by a non-admin, with another person's session, or without a session", async ({
    db,
  }) => {
    const [admin, target] = [await createAdmin(db), await addLine(db)];
    const other = await createActor(db, { mfa: "a factor, at AAL2" });
    for (const reader of [other, { ...admin, session_id: other.session_id }, {}]) {
      expect(await read(db, { reader, target })).toBeNull();
    }
  });

  test("only the service role can call the function that reads the audit log", async ({ db }) => {
    const reader = await createAdmin(db);
    const ask = () => read(db, { reader, target: "x" });
    expect(await failureOf(() => db.asUser(reader, ask))).toMatchObject({ code: "42501" });
    expect(await failureOf(() => db.asRole("gateway", ask))).toMatchObject({ code: "42501" });
  });
});
