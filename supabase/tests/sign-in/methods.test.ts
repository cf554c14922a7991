import { describe, expect } from "vitest";
import { failureOf } from "../actors.ts";
import { createUser, type Database, one, signIn, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { createIdentity } from "./oauth-fixtures.ts";

const usable = ["google", "github"];

interface Account {
  password?: boolean;
  confirmed?: boolean;
  passkeys?: number;
  providers?: string[];
}

/** Creates an account with these ways to sign in. */
async function createAccount(db: Database, { password, confirmed = true, passkeys = 0, providers = [] }: Account) {
  const user = await createUser(db);
  await db.query("update auth.users set encrypted_password = $2, email_confirmed_at = $3 where id = $1", [
    user.id,
    password ? "$2a$10$hash" : "",
    confirmed ? new Date() : null,
  ]);
  for (let index = 0; index < passkeys; index += 1)
    await db.query(
      "insert into auth.webauthn_credentials (user_id, credential_id, public_key) values ($1, decode(md5(random()::text), 'hex'), '')",
      [user.id],
    );
  const identities: string[] = [];
  for (const [createdIn, provider] of providers.entries())
    identities.push(await createIdentity(db, { userId: user.id, email: user.email, provider, createdIn }));
  return { ...user, identities };
}

async function unlink(db: Database, { userId, identityId }: { userId: string; identityId: string }) {
  const { answer } = await one<{ answer: { outcome: string } }>(db, {
    sql: "select private.unlink_identity($1, $2, $3) as answer",
    values: [userId, identityId, usable],
  });
  return answer;
}

const methodsOf = async (db: Database, userId: string) =>
  (
    await one<{ answer: { identities: { provider: string }[] } | null }>(db, {
      sql: "select private.list_sign_in_methods($1) as answer",
      values: [userId],
    })
  ).answer;

describe("the ways to sign in to an account", () => {
  test("only the server can read the ways to sign in to an account", async ({ db }) => {
    const user = await createAccount(db, { providers: ["google"] });
    const claims = await signIn(db, { userId: user.id });
    for (const call of [`list_sign_in_methods('${user.id}')`, `unlink_identity('${user.id}', '${user.id}', '{}')`]) {
      const run = () => db.query(`select private.${call}`);
      expect(await failureOf(() => db.asUser(claims, run))).toMatchObject({ code: "42501" });
      expect(await failureOf(() => db.asRole("anon", run))).toMatchObject({ code: "42501" });
    }
    expect(await db.asRole("service_role", () => methodsOf(db, user.id))).not.toBeNull();
  });

  test("the ways to sign in to an account are its password, its passkeys and its identities", async ({ db }) => {
    const user = await createAccount(db, { password: true, passkeys: 2, providers: ["email", "google"] });
    expect(await methodsOf(db, user.id)).toMatchObject({
      password: true,
      passkeys: 2,
      identities: [
        { provider: "email", email: user.email },
        { id: user.identities[1], provider: "google", email: user.email, createdAt: expect.any(String) },
      ],
    });
    expect(await methodsOf(db, crypto.randomUUID())).toBeNull();
  });

  test.for([
    ["no password", { password: false }],
    ["a password for an unconfirmed address", { password: true, confirmed: false }],
  ] as const)("does not list the password as a way to sign in for an account with %s", async ([, account], { db }) => {
    const user = await createAccount(db, account);
    expect(await methodsOf(db, user.id)).toMatchObject({ password: false });
  });

  test("does not list identities that are still being linked as ways to sign in", async ({ db }) => {
    const user = await createAccount(db, { password: true, providers: ["google"] });
    await db.query("update auth.users set last_sign_in_at = now() where id = $1", [user.id]);
    const waiting = await createIdentity(db, { userId: user.id, email: "other@example.test", provider: "github" });
    await db.query("insert into private.unconfirmed_identities (identity_id) values ($1)", [waiting]);
    expect((await methodsOf(db, user.id))?.identities.map(({ provider }) => provider)).toEqual(["google"]);
    expect(await unlink(db, { userId: user.id, identityId: waiting })).toEqual({ outcome: "not_found" });
  });
});

describe("unlinking an identity", () => {
  test.for<{ remaining: string; account: Account; outcome: string }>([
    { remaining: "nothing", account: { providers: ["google"] }, outcome: "last_method" },
    {
      remaining: "an email identity without a password",
      account: { providers: ["google", "email"] },
      outcome: "last_method",
    },
    { remaining: "a provider that is off", account: { providers: ["google", "gitlab"] }, outcome: "last_method" },
    {
      remaining: "a password for an unconfirmed address",
      account: { providers: ["google"], password: true, confirmed: false },
      outcome: "last_method",
    },
    { remaining: "a password", account: { providers: ["google"], password: true }, outcome: "unlinked" },
    { remaining: "a passkey", account: { providers: ["google"], passkeys: 1 }, outcome: "unlinked" },
    { remaining: "another provider", account: { providers: ["google", "github"] }, outcome: "unlinked" },
    {
      remaining: "another identity of the provider",
      account: { providers: ["google", "google"] },
      outcome: "unlinked",
    },
    {
      remaining: "a usable one, of a provider that is off",
      account: { providers: ["gitlab", "google"] },
      outcome: "unlinked",
    },
  ])("unlinking an identity with $remaining remaining: $outcome", async ({ account, outcome }, { db }) => {
    const user = await createAccount(db, account);
    const [identityId = ""] = user.identities;
    expect(await unlink(db, { userId: user.id, identityId })).toMatchObject({ outcome });
    const left = await db.query("select from auth.identities where id = $1", [identityId]);
    expect(left).toHaveLength(outcome === "unlinked" ? 0 : 1);
  });

  test("unlinking an identity returns its provider and email", async ({ db }) => {
    const user = await createAccount(db, { password: true, providers: ["google"] });
    expect(await unlink(db, { userId: user.id, identityId: user.identities[0] ?? "" })).toEqual({
      outcome: "unlinked",
      provider: "google",
      email: user.email,
    });
  });

  test("after an identity is unlinked, the account has an email identity and no trace of the provider", async ({
    db,
  }) => {
    const user = await createAccount(db, { providers: ["google", "github"] });
    await unlink(db, { userId: user.id, identityId: user.identities[0] ?? "" });
    const rows = await db.query(
      `select u.email, u.raw_app_meta_data, i.provider, i.identity_data
       from auth.users u join auth.identities i on i.user_id = u.id where u.id = $1 order by i.provider`,
      [user.id],
    );
    const account = {
      email: user.email,
      raw_app_meta_data: { provider: expect.any(String), providers: expect.any(Array) },
    };
    expect(rows).toMatchObject([
      { ...account, provider: "email", identity_data: { sub: user.id, email: user.email, email_verified: true } },
      { ...account, provider: "github" },
    ]);
    expect(JSON.stringify(rows[0])).not.toContain("google");
  });

  test("unlinking can't remove another account's identity or the account's email identity", async ({ db }) => {
    const user = await createAccount(db, { password: true, providers: ["email", "google"] });
    const other = await createAccount(db, { password: true, providers: ["google"] });
    const [email = "", google = ""] = user.identities;
    expect(await unlink(db, { userId: other.id, identityId: google })).toEqual({ outcome: "not_found" });
    expect(await unlink(db, { userId: crypto.randomUUID(), identityId: google })).toEqual({ outcome: "not_found" });
    expect(await unlink(db, { userId: user.id, identityId: email })).toEqual({ outcome: "not_unlinkable" });
  });

  test("an identity can't be unlinked if the only other identity is unconfirmed", async ({ db }) => {
    const user = await createAccount(db, { providers: ["google", "github"] });
    const [google = "", github = ""] = user.identities;
    await db.query(
      `insert into private.unconfirmed_additions (target_id, user_id, kind) values ($1, $2, 'identity')
       on conflict do nothing`,
      [github, user.id],
    );
    expect(await unlink(db, { userId: user.id, identityId: google })).toEqual({ outcome: "last_method" });
    expect(await unlink(db, { userId: user.id, identityId: github })).toMatchObject({ outcome: "unlinked" });
  });

  test("50 concurrent callers that unlink identities leave one way to sign in", async () => {
    const { db, close } = openPool(10);
    const userId = crypto.randomUUID();
    try {
      await db.query(
        `insert into auth.users (id, aud, role, email, email_confirmed_at)
         values ($1, 'authenticated', 'authenticated', $1::uuid || '@race.test', now())`,
        [userId],
      );
      const identities = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          createIdentity(db, { userId, email: `${userId}@race.test`, provider: index % 2 ? "google" : "github" }),
        ),
      );
      const answers = await Promise.all(identities.map((identityId) => unlink(db, { userId, identityId })));
      const outcomes = answers.map(({ outcome }) => outcome).sort();
      expect(outcomes).toEqual(["last_method", ...Array.from({ length: 49 }, () => "unlinked")]);
      expect((await methodsOf(db, userId))?.identities).toMatchObject([
        { provider: expect.stringMatching(/google|github|email/) },
        { provider: expect.stringMatching(/google|github|email/) },
      ]);
    } finally {
      await db.query("delete from auth.users where id = $1", [userId]);
      await close();
    }
  });
});
