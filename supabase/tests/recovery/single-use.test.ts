import { describe, expect } from "vitest";
import { type Database, one, signIn, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { ask, commitPeople, eventsOf, issue, needHelp, override, overviewOf, setPassword } from "./fixtures.ts";

const password = "correct horse battery";
const day = 86_400;
const hashes = { tokenHash: "01".repeat(32), codeHash: "02".repeat(32), codeSalt: "03".repeat(16) };

async function setting(db: Database, options: { singleUse?: boolean } = {}) {
  const people = await needHelp(db);
  await setPassword(db, { userId: people.userId, password });
  return { ...people, overrideId: await override(db, { ...people, singleUse: true, ...options }) };
}

const byPassword = (db: Pick<Database, "query">, { email }: { email: string }) =>
  ask(db, "verify_override_password", { email, password });
const byLink = (
  db: Pick<Database, "query">,
  { tokenHash, browserHash = null }: { tokenHash: string; browserHash?: string | null },
) => ask(db, "consume_recovery_credential", { tokenHash, browserHash });
const stateOf = async (db: Database, email: string) => {
  const [newest] = (await overviewOf(db, email)).overrides;
  return newest && { active: newest.active, isUsed: newest.usedAt !== null };
};
const lastEvent = async (db: Database, email: string) => (await eventsOf(db, email)).at(-1);

describe("a recovery override that is valid until first used", () => {
  test.for([
    ["30 days if no lifetime is given", {}, 30 * day],
    ["its lifetime if one is given", { lifetimeSeconds: day }, day],
  ] as const)("expires after %s", async ([, lifetime, seconds], { db }) => {
    const { actor, email } = await needHelp(db);
    const id = await override(db, { actor, email, singleUse: true, ...lifetime });
    const row = await one(db, {
      sql: `select single_use, used_at, extract(epoch from expires_at - created_at)::integer as seconds
            from private.recovery_overrides where id = $1`,
      values: [id],
    });
    expect(row).toEqual({ single_use: true, used_at: null, seconds });
  });

  test("ends with a sign-in by password, and another override can then be created", async ({ db }) => {
    const people = await setting(db);
    const { email } = people;
    expect(await ask(db, "verify_override_password", { email, password: "wrong" })).toEqual({ outcome: "wrong" });
    expect(await stateOf(db, email)).toEqual({ active: true, isUsed: false });
    expect(await byPassword(db, people)).toMatchObject({ outcome: "proven" });
    expect(await stateOf(db, email)).toEqual({ active: false, isUsed: true });
    expect(await byPassword(db, people)).toEqual({ outcome: "none" });
    expect(await eventsOf(db, email)).toEqual(["create created", "reject login_wrong", "login_bypass password_proven"]);
    const id = await override(db, people);
    const { overrides } = await overviewOf(db, email);
    expect(overrides.filter(({ active }) => active)).toMatchObject([{ id, usedAt: null }]);
  });

  test("ends with a sign-in for which it lifted the limits, but not with a wrong one", async ({ db }) => {
    const { email, overrideId } = await setting(db);
    const lifting = async () =>
      (await one<{ id: string | null }>(db, { sql: "select private.active_login_override($1) as id", values: [email] }))
        .id;
    const record = (kind: string, outcome: string) =>
      db.asRole("service_role", () => ask(db, "record_recovery_event", { kind, outcome, email, overrideId }));
    await record("reject", "login_wrong");
    expect(await lifting()).toBe(overrideId);
    await record("login_bypass", "signed_in");
    expect(await lifting()).toBeNull();
    expect(await stateOf(db, email)).toEqual({ active: false, isUsed: true });
  });

  test("ends with its recovery email, and no other can be sent", async ({ db }) => {
    const people = await setting(db);
    expect(await byLink(db, await issue(db, people))).toMatchObject({ outcome: "consumed" });
    expect(await stateOf(db, people.email)).toEqual({ active: false, isUsed: true });
    expect(await byPassword(db, people)).toEqual({ outcome: "none" });
    const { actor, overrideId } = people;
    expect(await ask(db, "issue_recovery_credential", { actor, overrideId, reason: "again", ...hashes })).toEqual({
      refused: "inactive",
    });
  });

  test("voids the link and code that were sent before a sign-in by password", async ({ db }) => {
    const people = await setting(db);
    const { email } = people;
    const { tokenHash, codeHash } = await issue(db, people);
    const emailOfLink = async () =>
      (
        await one<{ email: string | null }>(db, {
          sql: "select private.find_recovery_link_email(decode($1, 'hex')) as email",
          values: [tokenHash],
        })
      ).email;
    expect(await emailOfLink()).toBe(email);
    expect(await byPassword(db, people)).toMatchObject({ outcome: "proven" });
    expect(await emailOfLink()).toBeNull();
    expect(await byLink(db, { tokenHash })).toEqual({ outcome: "rejected" });
    expect(await lastEvent(db, email)).toBe("reject override_used");
    expect(await ask(db, "consume_recovery_credential", { email, codeHash })).toEqual({ outcome: "rejected" });
  });

  test("lets the browser that used its recovery email repeat that, and no other browser", async ({ db }) => {
    const people = await setting(db);
    const { email, userId } = people;
    const { credentialId, tokenHash } = await issue(db, people);
    const [own, other] = ["a1".repeat(32), "b2".repeat(32)];
    const allow = async () => {
      const { session_id } = await signIn(db, { userId });
      const call = "select private.allow_recovery_repeat($1, decode($2, 'hex'), $3, false)";
      await db.query(call, [credentialId, own, session_id]);
    };
    expect(await byLink(db, { tokenHash, browserHash: own })).toMatchObject({ outcome: "consumed" });
    await allow();
    expect(await byLink(db, { tokenHash, browserHash: other })).toEqual({ outcome: "rejected" });
    expect(await byLink(db, { tokenHash, browserHash: own })).toMatchObject({ outcome: "consumed" });
    // The repeated use opened no session, but the first one did.
    await db.query("select private.release_recovery_credential($1)", [credentialId]);
    expect(await stateOf(db, email)).toEqual({ active: false, isUsed: true });
  });

  test("is unused again if its recovery email opened no session", async ({ db }) => {
    const people = await setting(db);
    const { credentialId, tokenHash } = await issue(db, people);
    expect(await byLink(db, { tokenHash })).toMatchObject({ outcome: "consumed" });
    const release = "select private.release_recovery_credential($1)";
    await db.asRole("service_role", () => db.query(release, [credentialId]));
    expect(await stateOf(db, people.email)).toEqual({ active: true, isUsed: false });
    expect(await byLink(db, { tokenHash })).toMatchObject({ outcome: "consumed" });
  });

  test("is used by one of 50 concurrent callers with the right password", async () => {
    const { db, close } = openPool(20);
    const people = await commitPeople(db);
    try {
      await setPassword(db, { userId: people.userId, password });
      await override(db, { ...people, singleUse: true });
      const answers = await Promise.all(Array.from({ length: 50 }, () => byPassword(db, people)));
      expect(answers.filter(({ outcome }) => outcome === "proven")).toHaveLength(1);
      expect(answers.filter(({ outcome }) => outcome === "none")).toHaveLength(49);
    } finally {
      await people.remove();
      await close();
    }
  });

  test("is used once by 50 concurrent callers, half of them with its link, while emails are sent", async () => {
    const { db, close } = openPool(20);
    const people = await commitPeople(db);
    try {
      await setPassword(db, { userId: people.userId, password });
      const overrideId = await override(db, { ...people, singleUse: true });
      const link = await issue(db, { ...people, overrideId });
      const send = () =>
        ask(db, "issue_recovery_credential", { actor: people.actor, overrideId, reason: "again", ...hashes });
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          index % 10 === 9 ? send() : index % 2 ? byLink(db, link) : byPassword(db, people),
        ),
      );
      const uses = answers.filter(({ outcome }) => outcome === "proven" || outcome === "consumed");
      expect(uses).toHaveLength(1);
    } finally {
      await people.remove();
      await close();
    }
  });
});

describe("a recovery override for some days", () => {
  test("stays active after its use, shows the first one, and can be revoked", async ({ db }) => {
    const people = await setting(db, { singleUse: false });
    const { actor, email, overrideId } = people;
    expect(await byPassword(db, people)).toMatchObject({ outcome: "proven" });
    await db.query(
      "update private.recovery_overrides set used_at = used_at - interval '1 hour' where id = $1 and used_at = now()",
      [overrideId],
    );
    const [first] = (await overviewOf(db, email)).overrides;
    expect(first).toMatchObject({ active: true, singleUse: false, usedAt: expect.any(String) });
    expect(await byPassword(db, people)).toMatchObject({ outcome: "proven" });
    expect((await overviewOf(db, email)).overrides).toEqual([first]);
    expect(await ask(db, "revoke_recovery_override", { actor, overrideId, reason: "used" })).toEqual({});
    expect(await stateOf(db, email)).toEqual({ active: false, isUsed: true });
  });
});
