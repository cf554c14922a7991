import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf } from "../actors.ts";
import { createUser, type Database, one, signIn, test } from "../database.ts";
import { createAdmin } from "./fixtures.ts";

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
  { email, name = "No Name", sso = false }: { email: string; name?: string; sso?: boolean },
) {
  const { id } = await createUser(db);
  // The identity backend assigns all accounts to its only instance.
  await db.query("update auth.users set email = $2, is_sso_user = $3, instance_id = $4 where id = $1", [
    id,
    email,
    sso,
    "00000000-0000-0000-0000-000000000000",
  ]);
  await db.query("update public.profiles set display_name = $2 where id = $1", [id, name]);
  return id;
}

test.for([
  "person@x.test",
  "Ada",
  "a0eebc99",
  "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
  "a0eebc999c0b4ef8bb6d6bb9bd380a11-",
  "",
])("uuid_or_null returns null for %j also when Postgres plans with the value", async (value, { db }) => {
  await db.query("set local plan_cache_mode = force_custom_plan");
  await db.query(`create function pg_temp.find(value text) returns bigint language plpgsql as
      $$ begin return (select count(*) from auth.users a where a.id = private.uuid_or_null(value)); end $$`);
  expect(await one(db, { sql: "select pg_temp.find($1)::int as found", values: [value] })).toEqual({ found: 0 });
});

test("uuid_or_null accepts each form of a UUID that Postgres accepts", async ({ db }) => {
  const id = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
  const forms = [id, id.toUpperCase(), `{${id}}`, id.replaceAll("-", ""), "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11"];
  const rows = await db.query("select private.uuid_or_null(form) as id from unnest($1::text[]) as form", [forms]);
  expect(rows).toEqual(forms.map(() => ({ id })));
});

test.for(["workspaces", "accounts"])(
  "the console finds %s by a member's email and by part of a name",
  async (kind, { db }) => {
    const part = randomUUID().slice(0, 8);
    const email = `${part}@x.test`;
    const person = await createPerson(db, { email, name: `Ada ${part}` });
    await db.query("update public.workspaces set name = $2 where personal_user_id = $1", [person, `Ada ${part}`]);
    for (const term of [email, part]) {
      const sql = `select private.search_${kind}($1) as found`;
      const { found } = await one<{ found: object[] }>(db, { sql, values: [term] });
      expect(found).toEqual([expect.objectContaining(kind === "accounts" ? { id: person } : { owners: [email] })]);
    }
  },
);

describe("the console's account search", () => {
  test("finds accounts by part of the email or name, case-insensitively, ordered by email", async ({ db }) => {
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

  test("a search for a full email or id finds only that account, and not accounts that contain the text elsewhere", async ({
    db,
  }) => {
    const name = randomUUID();
    const ann = await createPerson(db, { email: `${name}@x.test` });
    await createPerson(db, { email: `jo${name}@x.test`, name: ann });
    expect(await search(db, `${name.toUpperCase()}@X.test`)).toEqual([ann]);
    expect(await search(db, ann)).toEqual([ann]);
    expect(await search(db, `${name}@x.tes`)).toHaveLength(2);
  });

  test("a search for a full email finds all accounts with it, and marks accounts from single sign-on", async ({
    db,
  }) => {
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

  test("the account search does not find deleted accounts", async ({ db }) => {
    const email = `${randomUUID()}@x.test`;
    const gone = await createPerson(db, { email });
    await db.query("update auth.users set deleted_at = now() where id = $1", [gone]);
    for (const term of [email, gone, email.slice(0, 20)]) expect(await search(db, term)).toEqual([]);
  });

  test("a search for a full email does not read other accounts", async ({ db }) => {
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

  test("only the service role can call the account search", async ({ db }) => {
    const claims = await createActor(db, {});
    const ask = () => search(db, "a");
    expect(await failureOf(() => db.asUser(claims, ask))).toMatchObject({ code: "42501" });
    expect(await failureOf(() => db.asRole("gateway", ask))).toMatchObject({ code: "42501" });
    expect(await db.asRole("service_role", () => search(db, claims.sub))).toEqual([claims.sub]);
  });
});

describe("the console's list of accounts", () => {
  type Listed = { id: string; createdAt: string };
  const page = async (db: Database, before: Listed | null, pageSize = 2) =>
    (
      await one<{ page: (Listed & Record<string, unknown>)[] }>(db, {
        sql: "select private.list_accounts($1, $2) as page",
        values: [before && JSON.stringify(before), pageSize],
      })
    ).page;

  test("lists the newest accounts first, page by page, including deleted ones", async ({ db }) => {
    const made: string[] = [];
    for (let age = 0; age < 5; age += 1) {
      const { id } = await createUser(db);
      // Gives two profiles the same time, so that these are sorted by id.
      await db.query(
        "update public.profiles set created_at = now() + interval '1 day' - $2 * interval '1 hour' where id = $1",
        [id, Math.min(age, 3)],
      );
      made.push(id);
    }
    await db.query("update auth.users set deleted_at = now() where id = $1", [made[1]]);
    const expected = [...made.slice(0, 3), ...made.slice(3).sort().reverse()];
    const first = await page(db, null);
    const second = await page(db, first[1] ?? null);
    const third = await page(db, second[1] ?? null);
    expect([...first, ...second, ...third].map(({ id }) => id).slice(0, 5)).toEqual(expected);
    expect(first.map(({ deleted }) => deleted)).toEqual([false, true]);
  });

  test("the list of accounts shows each account's badges", async ({ db }) => {
    const id = await createPerson(db, { email: `${randomUUID()}@x.test`, sso: true });
    await db.query(
      "update auth.users set email_confirmed_at = null, banned_until = now() + interval '1 hour' where id = $1",
      [id],
    );
    await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [id]);
    await db.query("update public.profiles set created_at = now() + interval '1 day' where id = $1", [id]);
    expect(await page(db, null, 1)).toMatchObject([
      { id, singleSignOn: true, admin: true, banned: true, confirmed: false, deleted: false, policy: "optional" },
    ]);
  });

  test("the list of accounts is read through its index", async ({ db }) => {
    await db.query(
      `insert into auth.users (id, aud, role, email)
       select i, 'authenticated', 'authenticated', i || '@x.test'
       from (select gen_random_uuid() from generate_series(1, 300)) as g (i)`,
    );
    await db.query("analyze public.profiles");
    const plan = await db.query<{ "QUERY PLAN": string }>(
      `explain select p.id, p.created_at from public.profiles p where (p.created_at, p.id) < ('infinity', 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       order by p.created_at desc, p.id desc limit 50`,
    );
    const lines = plan.map((row) => row["QUERY PLAN"]).join("\n");
    expect(lines).toContain("profiles_created_at_id_idx");
    expect(lines).not.toContain("Sort");
  });
});

describe("signing an account out from the console", () => {
  const signOut = async (db: Database, { actor, subject }: { actor: string; subject: string }) =>
    (
      await one<{ answer: { refused?: string } }>(db, {
        sql: "select private.sign_account_out($1) as answer",
        values: [JSON.stringify({ actor, subject, reason: "Stolen phone", requestId: "request-1", ip: "192.0.2.1" })],
      })
    ).answer;

  test("signing an account out ends all its sessions, notifies the owner once, and logs each sign-out", async ({
    db,
  }) => {
    const [admin, account, other] = [await createAdmin(db), await createUser(db), await createUser(db)];
    for (const { id } of [account, account, other]) await signIn(db, { userId: id });
    const both = { actor: admin.id, subject: account.id };
    expect([await signOut(db, both), await signOut(db, both)]).toEqual([{}, {}]);
    const left = await db.query("select user_id from auth.sessions where user_id = any ($1)", [[account.id, other.id]]);
    expect(left).toEqual([{ user_id: other.id }]);
    const told = await db.query(
      `select e.kind, count(m.id)::integer as emails from public.security_events e
       left join private.outgoing_mails m on m.event_id = e.id where e.user_id = $1 and e.kind like 'signed_out%' group by e.kind`,
      [account.id],
    );
    expect(told).toEqual([{ kind: "signed_out_by_admin", emails: 1 }]);
    const lines = await db.query(
      "select action, reason, before from private.admin_audit_log where target_user_id = $1 order by before ->> 'sessions'",
      [account.id],
    );
    expect(lines).toEqual([
      { action: "account.sign_out", reason: "Stolen phone", before: { sessions: 0 } },
      { action: "account.sign_out", reason: "Stolen phone", before: { sessions: 2 } },
    ]);
  });

  test("only admins can sign out accounts, and only existing accounts other than their own", async ({ db }) => {
    const [admin, account] = [await createAdmin(db), await createUser(db)];
    await signIn(db, { userId: account.id });
    expect(await signOut(db, { actor: account.id, subject: admin.id })).toEqual({ refused: "forbidden" });
    expect(await signOut(db, { actor: admin.id, subject: admin.id })).toEqual({ refused: "oneself" });
    expect(await signOut(db, { actor: admin.id, subject: randomUUID() })).toEqual({ refused: "not_found" });
    await db.query("update auth.users set deleted_at = now() where id = $1", [account.id]);
    expect(await signOut(db, { actor: admin.id, subject: account.id })).toEqual({ refused: "not_found" });
  });
});
