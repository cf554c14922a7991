import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf } from "./actors.ts";
import { createUser, type Database, one, test } from "./database.ts";

async function found(db: Database, { term, pageSize = 50 }: { term: string; pageSize?: number }) {
  const { found } = await one<{ found: { id: string; singleSignOn: boolean }[] }>(db, {
    sql: "select private.search_accounts($1, $2) as found",
    values: [term, pageSize],
  });
  return found;
}

async function search(db: Database, term: string, pageSize = 50): Promise<string[]> {
  return (await found(db, { term, pageSize })).map(({ id }) => id);
}

async function createPerson(
  db: Database,
  { email, name = "Nobody", sso = false }: { email: string; name?: string; sso?: boolean },
) {
  const { id } = await createUser(db);
  // As the identity backend writes it: all are of its one instance.
  await db.query("update auth.users set email = $2, is_sso_user = $3, instance_id = $4 where id = $1", [
    id,
    email,
    sso,
    "00000000-0000-0000-0000-000000000000",
  ]);
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

  test("finds every account of a whole email, and says which came by single sign-on", async ({ db }) => {
    const email = `${randomUUID()}@x.test`;
    const own = await createPerson(db, { email });
    const sso = [await createPerson(db, { email, sso: true }), await createPerson(db, { email, sso: true })];
    await createPerson(db, { email: `jo${email}`, sso: true });
    const all = await found(db, { term: email.toUpperCase() });
    const expected = [own, ...sso].sort().map((id) => ({ id, singleSignOn: id !== own }));
    expect(all.map(({ id, singleSignOn }) => ({ id, singleSignOn }))).toEqual(expected);
    expect(await search(db, email, 2)).toHaveLength(2);
    expect(await search(db, sso[0] ?? "")).toEqual([sso[0]]);
    const { overview } = await one<{ overview: object }>(db, {
      sql: "select private.account_overview($1) as overview",
      values: [sso[0]],
    });
    expect(overview).toMatchObject({ email, singleSignOn: true });
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
    await db.query(
      `insert into auth.users (id, aud, role, email, instance_id)
       select i, 'authenticated', 'authenticated', i || '@x.test', '00000000-0000-0000-0000-000000000000'
       from (select gen_random_uuid() from generate_series(1, 300)) as g (i)`,
    );
    await db.query("analyze auth.users");
    await db.query("set local enable_seqscan = off");
    const { body } = await one<{ body: string }>(db, {
      sql: "select prosrc as body from pg_catalog.pg_proc where oid = 'private.find_accounts_exactly'::regproc",
    });
    const plan = await db.query<{ "QUERY PLAN": string }>(`explain ${body.replaceAll("term", `'${email}'`)}`);
    const lines = plan.map((row) => row["QUERY PLAN"]).join("\n");
    for (const index of ["users_email_partial_key", "users_instance_id_email_idx"]) expect(lines).toContain(index);
    expect(lines).not.toContain("Seq Scan");
  });

  test("is for the service role alone", async ({ db }) => {
    const claims = await createActor(db, {});
    const ask = () => search(db, "a");
    expect(await failureOf(() => db.asUser(claims, ask))).toMatchObject({ code: "42501" });
    expect(await failureOf(() => db.asRole("gateway", ask))).toMatchObject({ code: "42501" });
    expect(await db.asRole("service_role", () => search(db, claims.sub))).toEqual([claims.sub]);
  });
});
