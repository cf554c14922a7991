import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf } from "./actors.ts";
import { createUser, type Database, one, test } from "./database.ts";

async function search(db: Database, term: string, pageSize = 50): Promise<string[]> {
  const { found } = await one<{ found: { id: string }[] }>(db, {
    sql: "select private.search_accounts($1, $2) as found",
    values: [term, pageSize],
  });
  return found.map(({ id }) => id);
}

async function createPerson(db: Database, { email, name = "Nobody" }: { email: string; name?: string }) {
  const { id } = await createUser(db);
  await db.query("update auth.users set email = $2 where id = $1", [id, email]);
  await db.query("update public.profiles set display_name = $2 where id = $1", [id, name]);
  return id;
}

describe("the console's search of accounts", () => {
  test("finds by a part of email or name, in any case, in the order of their emails", async ({ db }) => {
    const part = randomUUID().slice(0, 8);
    const second = await createPerson(db, { email: `b.${part}@x.test` });
    const first = await createPerson(db, { email: `a@x.${part}.test` });
    const third = await createPerson(db, { email: `${randomUUID()}@z.test`, name: `Ada ${part.toUpperCase()}` });
    await createPerson(db, { email: `${randomUUID()}@x.test` });
    const found = await search(db, part.toUpperCase());
    expect(new Set(found)).toEqual(new Set([first, second, third]));
    expect(found.indexOf(first)).toBeLessThan(found.indexOf(second));
    expect(await search(db, part, 2)).toHaveLength(2);
    expect(await search(db, `${part}%`)).toEqual([]);
  });

  test("finds the one account whose whole email or id is given, and no other that contains it", async ({ db }) => {
    const name = randomUUID();
    const ann = await createPerson(db, { email: `${name}@x.test` });
    await createPerson(db, { email: `jo${name}@x.test`, name: ann });
    expect(await search(db, `${name.toUpperCase()}@X.test`)).toEqual([ann]);
    expect(await search(db, ann)).toEqual([ann]);
    expect(await search(db, `${name}@x.tes`)).toHaveLength(2);
  });

  test("finds nobody who is gone", async ({ db }) => {
    const email = `${randomUUID()}@x.test`;
    const gone = await createPerson(db, { email });
    await db.query("update auth.users set deleted_at = now() where id = $1", [gone]);
    for (const term of [email, gone, email.slice(0, 20)]) expect(await search(db, term)).toEqual([]);
  });

  test("knows an account by its whole email without reading the others", async ({ db }) => {
    const email = `${randomUUID()}@x.test`;
    await createPerson(db, { email });
    await db.query("set local enable_seqscan = off");
    const plan = await db.query<{ "QUERY PLAN": string }>(
      "explain select a.id from auth.users a where a.email = lower($1) and not a.is_sso_user and a.deleted_at is null",
      [email],
    );
    expect(plan.map((row) => row["QUERY PLAN"]).join("\n")).toContain("users_email_partial_key");
  });

  test("is for the service role alone", async ({ db }) => {
    const claims = await createActor(db, {});
    const ask = () => search(db, "a");
    expect(await failureOf(() => db.asUser(claims, ask))).toMatchObject({ code: "42501" });
    expect(await failureOf(() => db.asRole("gateway", ask))).toMatchObject({ code: "42501" });
    expect(await db.asRole("service_role", () => search(db, claims.sub))).toEqual([claims.sub]);
  });
});
