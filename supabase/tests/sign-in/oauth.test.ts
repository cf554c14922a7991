import { describe, expect } from "vitest";
import { failureOf } from "../actors.ts";
import { createUser, type Database, one, signIn, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { createIdentity, inspect, settle, type Visit, visit } from "./oauth-fixtures.ts";

const identitiesOf = async (db: Database, userId: string) =>
  (
    await db.query<{ provider: string }>("select provider from auth.identities where user_id = $1 order by provider", [
      userId,
    ])
  ).map(({ provider }) => provider);

const providersOf = async (db: Database, userId: string) =>
  (await db.query<{ raw_app_meta_data: object }>("select raw_app_meta_data from auth.users where id = $1", [userId]))[0]
    ?.raw_app_meta_data;

const codeIsGood = async (db: Database, { code }: Visit) =>
  (await db.query("select from auth.flow_state where auth_code = $1", [code])).length === 1;

/** Creates an account with a confirmed address and an earlier sign-in. */
async function createMember(db: Database) {
  const user = await createUser(db);
  await db.query(
    `update auth.users set email_confirmed_at = now() - interval '1 day', last_sign_in_at = now() - interval '1 hour',
       created_at = now() - interval '1 day' where id = $1`,
    [user.id],
  );
  return user;
}

/** Creates an account that has never signed in, like the account of a new user during an OAuth flow. */
async function createNewcomer(db: Database) {
  const user = await createUser(db);
  await db.query("update auth.users set created_at = now() + interval '1 second' where id = $1", [user.id]);
  return user;
}

describe("an OAuth attempt and its flow at the identity backend", () => {
  test("only the server can use OAuth attempts", async ({ db }) => {
    const claims = await signIn(db, { userId: (await createMember(db)).id });
    for (const call of [
      "begin_oauth_attempt('{}')",
      "inspect_oauth_attempt('', '', '')",
      "complete_oauth_attempt('', '', '', 'refuse')",
      "sweep_oauth_attempts()",
      `remove_identity('${claims.sub}')`,
    ]) {
      const run = () => db.query(`select private.${call}`);
      expect(await failureOf(() => db.asUser(claims, run)), call).toMatchObject({ code: "42501" });
      expect(await failureOf(() => db.asRole("anon", run)), call).toMatchObject({ code: "42501" });
    }
    const remove = () => db.query("select private.remove_identity(gen_random_uuid())");
    expect(await failureOf(() => db.asRole("service_role", remove))).toMatchObject({ code: "42501" });
  });

  test.for([
    ["a sign-in that names an account", { purpose: "sign_in", userId: "own", sessionId: "own" }],
    ["a link without an account", { purpose: "link" }],
    ["a link without its session", { purpose: "link", userId: "own" }],
    ["a proof without its session", { purpose: "reauthenticate", userId: "own" }],
    ["an unknown purpose", { purpose: "other" }],
  ] as const)("refuses an OAuth attempt: %s", async ([, given], { db }) => {
    const { id } = await createMember(db);
    const attempt = JSON.stringify({ stateHash: "00".repeat(32), provider: "google", ...given }).replaceAll("own", id);
    expect(await failureOf(() => db.query("select private.begin_oauth_attempt($1)", [attempt]))).toMatchObject({
      code: "23514",
    });
  });

  test("inspecting an OAuth attempt returns its result and changes nothing", async ({ db }) => {
    const { id, email } = await createMember(db);
    const attempt = await visit(db, { userId: id, identity: { userId: id, email } });
    for (const _ of [1, 2])
      expect(await inspect(db, attempt)).toEqual({
        flow: {
          userId: id,
          email,
          closed: false,
          linkedTo: null,
          identity: { email, issuer: "https://google.example", confirmed: true, addedByApp: false },
        },
      });
  });

  test("inspecting an OAuth attempt returns the identity that its flow used, even if the account has others of the same provider", async ({
    db,
  }) => {
    const { id } = await createMember(db);
    await createIdentity(db, { userId: id, email: "first@example.test" });
    const second = await createIdentity(db, { userId: id, email: "second@example.test" });
    await createIdentity(db, { userId: id, email: "third@example.test" });
    const attempt = await visit(db, { userId: id, identity: { touched: second } });
    expect(await inspect(db, attempt)).toMatchObject({ flow: { identity: { email: "second@example.test" } } });
  });

  test.for([
    ["another code", { code: crypto.randomUUID() }],
    ["another verifier", { challenge: "another" }],
  ] as const)("inspecting an OAuth attempt with %s finds no flow", async ([, other], { db }) => {
    const { id, email } = await createMember(db);
    const attempt = await visit(db, { userId: id, identity: { userId: id, email } });
    expect(await inspect(db, { ...attempt, ...other })).toEqual({ flow: null });
  });

  test("inspecting an OAuth attempt finds no flow if the code belongs to another provider's attempt", async ({
    db,
  }) => {
    const { id, email } = await createMember(db);
    const google = await visit(db, { userId: id, identity: { userId: id, email } });
    const github = await visit(db, {
      userId: id,
      provider: "github",
      identity: { userId: id, email, provider: "github" },
    });
    expect(await inspect(db, { ...google, code: github.code, challenge: github.challenge })).toEqual({ flow: null });
  });

  test.for([
    ["banned", "banned_until = now() + interval '1 hour'", true],
    ["banned until a moment ago", "banned_until = now()", false],
    ["deleted", "deleted_at = now()", true],
  ] as const)(
    "inspecting an OAuth attempt shows whether the account is closed: %s",
    async ([, change, closed], { db }) => {
      const { id, email } = await createMember(db);
      const attempt = await visit(db, { userId: id, identity: { userId: id, email } });
      await db.query(`update auth.users set ${change} where id = $1`, [id]);
      expect(await inspect(db, attempt)).toMatchObject({ flow: { closed } });
    },
  );

  test("an OAuth attempt expires after ten minutes", async ({ db }) => {
    const { id, email } = await createMember(db);
    const attempt = await visit(db, { userId: id, identity: { userId: id, email } });
    const age = (seconds: number) =>
      db.query(
        `update private.oauth_attempts set created_at = now() - $2::float8 * interval '1 second',
           expires_at = now() - $2::float8 * interval '1 second' + interval '10 minutes'
         where state_hash = decode($1, 'hex')`,
        [attempt.stateHash, seconds],
      );
    await age(599);
    expect(await inspect(db, attempt)).not.toBeNull();
    await age(600);
    expect(await inspect(db, attempt)).toBeNull();
    expect(await settle(db, { ...attempt, verdict: "sign_in" })).toBe(false);
    await age(599);
    expect(await settle(db, { ...attempt, verdict: "sign_in" })).toBe(true);
  });

  test("an OAuth attempt can be completed only once", async ({ db }) => {
    const { id, email } = await createMember(db);
    const attempt = await visit(db, { userId: id, identity: { userId: id, email } });
    expect(await settle(db, { ...attempt, verdict: "sign_in" })).toBe(true);
    expect(await settle(db, { ...attempt, verdict: "sign_in" })).toBe(false);
    expect(await settle(db, { ...attempt, verdict: "refuse" })).toBe(false);
    expect(await inspect(db, attempt)).toBeNull();
    expect(await codeIsGood(db, attempt)).toBe(true);
  });

  test("an OAuth attempt completes with its initial purpose: a sign-in can't link, and a link can't sign in", async ({
    db,
  }) => {
    const { id, email } = await createMember(db);
    const identity = { userId: id, email };
    const signingIn = await visit(db, { userId: id, identity });
    const linking = await visit(db, { purpose: "link", boundTo: id, userId: id, linkedTo: id, identity });
    expect(await settle(db, { ...signingIn, verdict: "link" })).toBe(false);
    expect(await settle(db, { ...linking, verdict: "sign_in" })).toBe(false);
    expect(await settle(db, { ...signingIn, verdict: "sign_in" })).toBe(true);
    expect(await settle(db, { ...linking, verdict: "link" })).toBe(true);
  });

  test("only one of 50 concurrent callers completes an OAuth attempt", async () => {
    const { db, close } = openPool(10);
    const stateHash = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex");
    try {
      const attempt = { stateHash, purpose: "sign_in", provider: "google" };
      await db.query("select private.begin_oauth_attempt($1)", [JSON.stringify(attempt)]);
      const answers = await Promise.all(
        Array.from({ length: 50 }, () => settle(db, { stateHash, code: null, challenge: null, verdict: "sign_in" })),
      );
      expect(answers.filter(Boolean)).toHaveLength(1);
    } finally {
      await db.query("delete from private.oauth_attempts where state_hash = decode($1, 'hex')", [stateHash]);
      await close();
    }
  });
});

describe("a refused sign-in with a provider", () => {
  test("refusing a sign-in deletes the account that the sign-in created, and voids its code", async ({ db }) => {
    const { id, email } = await createNewcomer(db);
    const attempt = await visit(db, { userId: id, identity: { userId: id, email, createdIn: 1 } });
    expect(await settle(db, { ...attempt, verdict: "refuse" })).toBe(true);
    expect(await db.query("select from auth.users where id = $1", [id])).toEqual([]);
    expect(await codeIsGood(db, attempt)).toBe(false);
  });

  test("a refused sign-in removes only the identity that it added to an existing account", async ({ db }) => {
    const { id, email } = await createMember(db);
    await createIdentity(db, { userId: id, email, provider: "github", createdIn: -60 });
    const attempt = await visit(db, { userId: id, identity: { userId: id, email, createdIn: 1 } });
    expect(await settle(db, { ...attempt, verdict: "refuse" })).toBe(true);
    expect(await identitiesOf(db, id)).toEqual(["github"]);
    expect(await providersOf(db, id)).toEqual({ provider: "github", providers: ["github"] });
    expect(await codeIsGood(db, attempt)).toBe(false);
  });

  test("a refused sign-in does not remove an identity or account that existed before", async ({ db }) => {
    const { id, email } = await createMember(db);
    const known = await createIdentity(db, { userId: id, email, createdIn: -60 });
    const attempt = await visit(db, { userId: id, identity: { touched: known } });
    expect(await settle(db, { ...attempt, verdict: "refuse" })).toBe(true);
    expect(await identitiesOf(db, id)).toEqual(["google"]);
    expect(await codeIsGood(db, attempt)).toBe(false);
  });

  test.for([-86_300, -86_500, -30 * 86_400, 1])(
    "refusing a sign-in with an identity that an app linked %i seconds after the sign-in began keeps the identity",
    async (createdIn, { db }) => {
      const { id } = await createMember(db);
      const direct = await createIdentity(db, { userId: id, email: "other@example.test", createdIn });
      const attempt = await visit(db, { userId: id, identity: { touched: direct } });
      expect(await inspect(db, attempt)).toMatchObject({ flow: { identity: { confirmed: false, addedByApp: true } } });
      expect(await settle(db, { ...attempt, verdict: "refuse" })).toBe(true);
      expect(await identitiesOf(db, id)).toEqual(["google"]);
      expect(await codeIsGood(db, attempt)).toBe(false);
      const told = await db.query<{ kind: string }>(
        `select e.kind from public.security_events e join private.outgoing_mails m on m.event_id = e.id
         where e.user_id = $1 order by e.kind`,
        [id],
      );
      expect(told.map(({ kind }) => kind)).toEqual(["identity_linked"]);
    },
  );

  test("refusing an OAuth sign-in does not delete the account it created if someone has since signed in to that account", async ({
    db,
  }) => {
    const { id, email } = await createNewcomer(db);
    const known = await createIdentity(db, { userId: id, email, createdIn: -60 });
    await db.query("update auth.users set last_sign_in_at = now() where id = $1", [id]);
    const attempt = await visit(db, { userId: id, identity: { touched: known } });
    expect(await settle(db, { ...attempt, verdict: "refuse" })).toBe(true);
    expect(await identitiesOf(db, id)).toEqual(["google"]);
  });

  test("refusing a sign-in that has no authorization code also uses up its OAuth attempt", async ({ db }) => {
    const { id, email } = await createMember(db);
    const attempt = await visit(db, { userId: id, identity: { userId: id, email } });
    expect(await settle(db, { ...attempt, code: null, challenge: null, verdict: "refuse" })).toBe(true);
    expect(await inspect(db, attempt)).toBeNull();
  });
});

describe("a linked identity", () => {
  const link = async (db: Database, { id, email = "other@example.test" }: { id: string; email?: string }) =>
    visit(db, {
      purpose: "link",
      boundTo: id,
      userId: id,
      linkedTo: id,
      identity: { userId: id, email, createdIn: 1 },
    });

  test("a linked identity is confirmed when the requesting browser returns, and the authorization code can't create a session", async ({
    db,
  }) => {
    const { id } = await createMember(db);
    const attempt = await link(db, { id });
    expect(await inspect(db, attempt)).toMatchObject({ flow: { linkedTo: id, identity: { confirmed: false } } });
    expect(await settle(db, { ...attempt, verdict: "link" })).toBe(true);
    expect(await codeIsGood(db, attempt)).toBe(false);
    const again = await visit(db, { userId: id, identity: { touched: await onlyIdentity(db, id) } });
    expect(await inspect(db, again)).toMatchObject({ flow: { identity: { confirmed: true } } });
  });

  test("a linked identity is confirmed by its own flow only, not by another flow of the same account", async ({
    db,
  }) => {
    const { id } = await createMember(db);
    // The first flow linked the identity of a person who was lured into it. The second flow is the account owner's, but
    // its identity has been removed.
    await link(db, { id, email: "victim@example.test" });
    const second = await link(db, { id, email: "own@example.test" });
    await db.query("delete from auth.identities where user_id = $1 and email = 'own@example.test'", [id]);
    expect(await settle(db, { ...second, verdict: "link" })).toBe(false);
    const lured = await visit(db, { userId: id, identity: { touched: await onlyIdentity(db, id) } });
    expect(await inspect(db, lured)).toMatchObject({
      flow: { identity: { email: "victim@example.test", confirmed: false } },
    });
    expect(await settle(db, { ...lured, verdict: "refuse" })).toBe(true);
    expect(await identitiesOf(db, id)).toEqual([]);
  });

  test("a linked identity is not confirmed for an account that did not request it", async ({ db }) => {
    const [asking, other] = [await createMember(db), await createMember(db)];
    const attempt = await visit(db, {
      purpose: "link",
      boundTo: asking.id,
      userId: other.id,
      linkedTo: other.id,
      identity: { userId: other.id, email: "other@example.test" },
    });
    expect(await settle(db, { ...attempt, verdict: "link" })).toBe(false);
  });

  test("a linked identity is removed after 15 minutes if the requesting browser did not return", async ({ db }) => {
    const { id } = await createMember(db);
    await link(db, { id });
    const identity = await onlyIdentity(db, id);
    const age = (seconds: number) =>
      db.query(
        "update private.unconfirmed_identities set created_at = now() - $2::float8 * interval '1 second' where identity_id = $1",
        [identity, seconds],
      );
    await age(900);
    await db.query("select private.sweep_oauth_attempts()");
    expect(await identitiesOf(db, id)).toEqual(["google"]);
    await age(901);
    await db.asRole("service_role", () => db.query("select private.sweep_oauth_attempts()"));
    expect(await identitiesOf(db, id)).toEqual([]);
    expect(await providersOf(db, id)).toEqual({ providers: [] });
  });

  test("an attempt to link an identity is deleted only after it has expired", async ({ db }) => {
    const { id } = await createMember(db);
    const [old, young] = [await link(db, { id }), await link(db, { id })];
    await db.query(
      `update private.oauth_attempts set created_at = now() - interval '11 minutes', expires_at = now() - interval '1 minute'
       where state_hash = decode($1, 'hex')`,
      [old.stateHash],
    );
    await db.query("select private.sweep_oauth_attempts()");
    const rows = await db.query<{ hash: string }>(
      "select encode(state_hash, 'hex') as hash from private.oauth_attempts where user_id = $1",
      [id],
    );
    expect(rows.map(({ hash }) => hash)).toEqual([young.stateHash]);
  });

  async function onlyIdentity(db: Database, userId: string): Promise<string> {
    const [row, ...more] = await db.query<{ id: string }>("select id from auth.identities where user_id = $1", [
      userId,
    ]);
    if (!row || more.length > 0) throw new Error("not exactly one identity");
    return row.id;
  }
});

describe("an identity that is added to an account", () => {
  const unconfirmed = async (db: Database, id: string) =>
    (await one<{ waits: boolean }>(db, { sql: "select private.is_unconfirmed_identity($1) as waits", values: [id] }))
      .waits;

  test.for([
    { its: "own verified address", email: "own", verified: true, waits: false },
    { its: "own address, unverified", email: "own", verified: false, waits: true },
    { its: "another address, verified", email: "other@example.test", verified: true, waits: true },
  ])("whether an added identity must be confirmed ($its): $waits", async ({ email, verified, waits }, { db }) => {
    const user = await createMember(db);
    const address = email === "own" ? user.email : email;
    expect(await unconfirmed(db, await createIdentity(db, { userId: user.id, email: address, verified }))).toBe(waits);
  });

  test("an added identity is confirmed if the account already has a confirmed identity with the same address", async ({
    db,
  }) => {
    const { id } = await createMember(db);
    const first = await createIdentity(db, { userId: id, email: "shared@example.test" });
    await db.query("delete from private.unconfirmed_additions where target_id = $1", [first]);
    const second = await createIdentity(db, { userId: id, email: "shared@example.test", provider: "github" });
    expect(await unconfirmed(db, second)).toBe(false);
  });

  test("an added identity stays unconfirmed if the account's other identity with the same address is unconfirmed", async ({
    db,
  }) => {
    const { id } = await createMember(db);
    await createIdentity(db, { userId: id, email: "shared@example.test" });
    const second = await createIdentity(db, { userId: id, email: "shared@example.test", provider: "github" });
    expect(await unconfirmed(db, second)).toBe(true);
  });

  test("an added identity stays unconfirmed if its email is the account's own unconfirmed email", async ({ db }) => {
    const user = await createMember(db);
    await db.query("update auth.users set email_confirmed_at = null where id = $1", [user.id]);
    expect(await unconfirmed(db, await createIdentity(db, { userId: user.id, email: user.email }))).toBe(true);
  });

  test.for(["email", "phone", "sso:123"])("an added %s identity needs no confirmation", async (provider, { db }) => {
    const { id } = await createMember(db);
    expect(await unconfirmed(db, await createIdentity(db, { userId: id, email: "x@example.test", provider }))).toBe(
      false,
    );
  });

  test("an identity added before the account's first sign-in needs no confirmation", async ({ db }) => {
    const { id } = await createNewcomer(db);
    const identity = await createIdentity(db, { userId: id, email: "other@example.test", verified: false });
    expect(await unconfirmed(db, identity)).toBe(false);
  });
});
