import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf, type MfaState } from "../actors.ts";
import { type Claims, currentSecond, type Database, enrollFactor, one, test } from "../database.ts";
import { openPool } from "../pools.ts";

type Policy = {
  required: boolean;
  boundary: number;
  primaryBoundary: number | null;
  recovery: string;
  generation: number;
};
type Answer = { policy?: Policy; refused?: string };
type Change = { actor: string; subject: string; step: string; generation: number | null; reason?: string };

const callers = 50;

async function change(db: Pick<Database, "query">, options: Change): Promise<Answer> {
  const change = { reason: "lost phone", requestId: "request-1", ip: "192.0.2.1", ...options };
  const [row] = await db.query<{ answer: Answer }>("select private.change_required_mfa($1) as answer", [
    JSON.stringify(change),
  ]);
  return row?.answer ?? {};
}

async function createAdmin(db: Database): Promise<string> {
  const { sub } = await createActor(db, {});
  await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [sub]);
  return sub;
}

async function setting(db: Database, mfa: MfaState = "no policy and no factor") {
  const claims = await createActor(db, { mfa });
  return { actor: await createAdmin(db), subject: claims.sub, claims };
}

const policyOf = async (db: Database, subject: string) =>
  (
    await one<{ policy: Policy | null }>(db, {
      sql: "select raw_app_meta_data -> 'platform_required_mfa' as policy from auth.users where id = $1",
      values: [subject],
    })
  ).policy;

const stateOf = async (db: Database, claims: Claims) =>
  (
    await db.asUser(claims, () =>
      one<{ state: { alive: boolean; policy: object } }>(db, { sql: "select public.session_state() as state" }),
    )
  ).state;

const writePolicy = (db: Database, { subject, policy }: { subject: string; policy: object }) =>
  db.query(
    `with writer as (select set_config('gatehouse.required_mfa_writer', 'on', true))
     update auth.users set raw_app_meta_data = jsonb_build_object('platform_required_mfa', $2::jsonb)
     from writer where id = $1`,
    [subject, JSON.stringify(policy)],
  );

describe("requiring MFA", () => {
  test("requiring MFA and making it optional again are shown in the owner's activity, and emailed once each", async ({
    db,
  }) => {
    const { actor, subject } = await setting(db);
    const told = () =>
      db.query(
        `select e.kind, m.recipient
         from public.security_events e join private.outgoing_mails m on m.event_id = e.id
         where e.user_id = $1 and e.kind like 'mfa%' order by e.kind desc`,
        [subject],
      );
    const { email } = await one<{ email: string }>(db, {
      sql: "select email from auth.users where id = $1",
      values: [subject],
    });
    expect(await told()).toEqual([]);
    await change(db, { actor, subject, step: "require", generation: 0 });
    expect(await told()).toEqual([{ kind: "mfa_required", recipient: email }]);
    // Refused, because nothing would change.
    await change(db, { actor, subject, step: "require", generation: 1 });
    await change(db, { actor, subject, step: "make_optional", generation: 1 });
    expect(await told()).toEqual([
      { kind: "mfa_required", recipient: email },
      { kind: "mfa_made_optional", recipient: email },
    ]);
  });

  test("requiring MFA creates an account's first policy, which blocks a session without a second factor", async ({
    db,
  }) => {
    const { actor, subject, claims } = await setting(db);
    const second = await currentSecond(db);
    const { policy } = await change(db, { actor, subject, step: "require", generation: 0 });
    expect(policy).toEqual({
      version: 1,
      required: true,
      boundary: expect.any(Number),
      primaryBoundary: null,
      recovery: "none",
      generation: 1,
    });
    expect(policy?.boundary).toBeGreaterThanOrEqual(second);
    expect(await policyOf(db, subject)).toEqual(policy);
    expect(await stateOf(db, claims)).toMatchObject({ policy: { state: "required", satisfied: false } });
  });

  test("after MFA is required, a session must use its second factor again", async ({ db }) => {
    const { actor, subject, claims } = await setting(db, "a factor, at AAL2");
    expect(await stateOf(db, claims)).toMatchObject({ policy: { satisfied: true } });
    await change(db, { actor, subject, step: "require", generation: 0 });
    expect(await stateOf(db, claims)).toMatchObject({ policy: { satisfied: false } });
  });

  test("making MFA optional again removes no authenticators, and a session's earlier second factor still counts", async ({
    db,
  }) => {
    const { actor, subject, claims } = await setting(db, "required, at AAL2");
    const { policy } = await change(db, { actor, subject, step: "make_optional", generation: 1 });
    expect(policy).toMatchObject({ required: false, generation: 2 });
    expect(await db.query("select from auth.mfa_factors where user_id = $1", [subject])).toHaveLength(1);
    expect(await stateOf(db, claims)).toMatchObject({ policy: { state: "optional", satisfied: true } });
  });

  test("a change of the MFA policy never moves `boundary` to an earlier time, and never changes `primaryBoundary`", async ({
    db,
  }) => {
    const { actor, subject } = await setting(db);
    const ahead = (await currentSecond(db)) + 3_600;
    const policy = { version: 1, required: true, boundary: ahead, primaryBoundary: 7, recovery: "none", generation: 4 };
    await writePolicy(db, { subject, policy });
    const answer = await change(db, { actor, subject, step: "make_optional", generation: 4 });
    expect(answer.policy).toEqual({ ...policy, required: false, generation: 5 });
  });

  test("requiring MFA or resetting authenticators repairs an unreadable policy", async ({ db }) => {
    const { actor, subject } = await setting(db, "malformed policy");
    const required = await change(db, { actor, subject, step: "require", generation: 1 });
    expect(required.policy).toMatchObject({ version: 1, required: true, generation: 2 });
    const other = await setting(db, "malformed policy");
    await writePolicy(db, { subject: other.subject, policy: { boundary: "x", generation: -1, required: "yes" } });
    const reset = await change(db, { ...other, step: "begin_reset", generation: 0 });
    expect(reset.policy).toMatchObject({ required: true, recovery: "in_progress", generation: 1 });
  });

  test("a policy change is logged with the old and new policy, and a metadata write by the identity backend does not undo the change", async ({
    db,
  }) => {
    const { actor, subject } = await setting(db, "required, at AAL1");
    const before = await policyOf(db, subject);
    const { policy: after } = await change(db, { actor, subject, step: "make_optional", generation: 1 });
    const log = await db.query(
      `select actor_id, action, target_user_id, target, reason, before, after, request_id, host(ip) as ip
       from private.admin_audit_log where target_user_id = $1`,
      [subject],
    );
    expect(log).toEqual([
      {
        actor_id: actor,
        action: "required_mfa.make_optional",
        target_user_id: subject,
        target: `${subject}@example.test`,
        reason: "lost phone",
        before,
        after,
        request_id: "request-1",
        ip: "192.0.2.1",
      },
    ]);
    await db.query("update auth.users set raw_app_meta_data = $2 where id = $1", [
      subject,
      JSON.stringify({ provider: "google", platform_required_mfa: before }),
    ]);
    expect(await policyOf(db, subject)).toEqual(after);
  });
});

describe("a reset of authenticators", () => {
  test("a reset of authenticators ends the account's sessions, and blocks the account until the last authenticator is removed", async ({
    db,
  }) => {
    const { actor, subject, claims } = await setting(db, "required, at AAL2");
    const begun = await change(db, { actor, subject, step: "begin_reset", generation: 1 });
    expect(begun.policy).toMatchObject({ required: true, recovery: "in_progress", generation: 2 });
    expect(begun.policy?.primaryBoundary).toBe(begun.policy?.boundary);
    expect(await stateOf(db, claims)).toEqual({ alive: false });

    const finish = { actor, subject, step: "finish_reset", generation: 2 };
    expect(await change(db, finish)).toEqual({ refused: "factors_left" });
    await db.query("delete from auth.mfa_factors where user_id = $1", [subject]);
    const unfinished = await enrollFactor(db, { userId: subject, status: "unverified" });
    expect(await change(db, finish)).toEqual({ refused: "factors_left" });
    await db.query("delete from auth.mfa_factors where id = $1", [unfinished]);
    const done = await change(db, finish);
    expect(done.policy).toMatchObject({
      required: true,
      recovery: "none",
      generation: 3,
      primaryBoundary: begun.policy?.primaryBoundary,
    });
    expect(await change(db, { ...finish, generation: 3 })).toEqual({ refused: "unchanged" });
  });

  test("a reset of authenticators also deletes all recovery codes, including one that is in use", async ({ db }) => {
    const { actor, subject } = await setting(db, "required, at AAL2");
    await db.query(
      `insert into private.mfa_recovery_codes (user_id, code_hash, used_at, session_id)
       values ($1, sha256('a'), null, null), ($1, sha256('b'), now(), gen_random_uuid())`,
      [subject],
    );
    await change(db, { actor, subject, step: "begin_reset", generation: 1 });
    expect(await db.query("select from private.mfa_recovery_codes where user_id = $1", [subject])).toEqual([]);
  });

  test("a second reset of authenticators replaces the first, which can then no longer be completed", async ({ db }) => {
    const { actor, subject } = await setting(db, "required, no factor");
    await change(db, { actor, subject, step: "begin_reset", generation: 1 });
    await change(db, { actor, subject, step: "begin_reset", generation: 2 });
    expect(await change(db, { actor, subject, step: "finish_reset", generation: 2 })).toEqual({ refused: "conflict" });
    expect(await policyOf(db, subject)).toMatchObject({ recovery: "in_progress", generation: 3 });
    const done = await change(db, { actor, subject, step: "finish_reset", generation: 3 });
    expect(done.policy).toMatchObject({ recovery: "none", generation: 4 });
  });

  test("MFA can't be made required or optional while a reset of authenticators is in progress", async ({ db }) => {
    const { actor, subject } = await setting(db, "recovery in progress");
    for (const step of ["require", "make_optional"])
      expect(await change(db, { actor, subject, step, generation: 1 })).toEqual({ refused: "in_progress" });
  });
});

describe("refused policy changes", () => {
  const cases = [
    ["to a non-admin", "forbidden", async (db: Database) => ({ actor: (await createActor(db, {})).sub })],
    ["for an admin's own account", "oneself", async () => ({})],
    ["for an unknown account", "not_found", async () => ({ subject: randomUUID() })],
    ["with an older generation", "conflict", async () => ({ generation: 0 })],
    ["with a future generation", "conflict", async () => ({ generation: 2 })],
    ["without a generation", "conflict", async () => ({ generation: null })],
    ["if it would change nothing", "unchanged", async () => ({ step: "require" })],
  ] as const;
  test.for(cases)("a policy change is refused %s", async ([, refused, given], { db }) => {
    const { actor, subject } = await setting(db, "required, at AAL1");
    const base = { actor, subject: refused === "oneself" ? actor : subject, step: "make_optional", generation: 1 };
    expect(await change(db, { ...base, ...(await given(db)) })).toEqual({ refused });
    expect(await policyOf(db, subject)).toMatchObject({ generation: 1, required: true });
    expect(await db.query("select from private.admin_audit_log where target_user_id = $1", [subject])).toEqual([]);
  });

  test("requiring MFA is refused if the database would not enforce the policy", async ({ db }) => {
    const { actor, subject } = await setting(db);
    await db.query("drop policy account_required_mfa on public.profiles");
    expect(await change(db, { actor, subject, step: "require", generation: 0 })).toEqual({ refused: "not_enforced" });
  });

  test("only our server can change the policy", async ({ db }) => {
    const { actor, subject, claims } = await setting(db);
    const call = () => change(db, { actor, subject, step: "require", generation: 0 });
    expect((await failureOf(() => db.asUser(claims, call))).code).toBe("42501");
    for (const role of ["anon", "gateway"] as const)
      expect((await failureOf(() => db.asRole(role, call))).code).toBe("42501");
    expect(await db.asRole("service_role", call)).toHaveProperty("policy");
  });

  test("a policy change without a reason is refused and changes nothing", async ({ db }) => {
    const { actor, subject } = await setting(db);
    const call = () => change(db, { actor, subject, step: "require", generation: 0, reason: "" });
    await db.query("savepoint before");
    expect((await failureOf(call)).code).toBe("23514");
    await db.query("rollback to savepoint before");
    expect(await policyOf(db, subject)).toBeNull();
  });
});

describe(`${callers} concurrent policy changes`, () => {
  test("of several concurrent changes to the same generation of an MFA policy, only one succeeds, even if other metadata is written meanwhile", async () => {
    const { db, close } = openPool(callers);
    const [actor, subject] = [randomUUID(), randomUUID()];
    const createUser = (id: string) =>
      db.query(
        "insert into auth.users (id, aud, role, email) values ($1::uuid, 'authenticated', 'authenticated', $1 || '@race.test')",
        [id],
      );
    try {
      await createUser(actor);
      await createUser(subject);
      await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'race')", [actor]);
      const backendWrites = () =>
        db.query('update auth.users set raw_app_meta_data = \'{"provider": "google"}\' where id = $1', [subject]);
      for (const [generation, step] of ["require", "make_optional", "require"].entries()) {
        const answers = await Promise.all(
          Array.from({ length: callers }, async (_, index) => {
            if (index % 5 === 0) await backendWrites();
            return change(db, { actor, subject, step, generation });
          }),
        );
        expect(answers.filter(({ policy }) => policy?.generation === generation + 1)).toHaveLength(1);
        expect(answers.filter(({ refused }) => refused === "conflict")).toHaveLength(callers - 1);
        await backendWrites();
      }
      expect(await policyOf(db, subject)).toMatchObject({ required: true, generation: 3 });
      const log = await db.query<{ generation: number }>(
        `select (after ->> 'generation')::int as generation from private.admin_audit_log
         where target_user_id = $1 order by created_at`,
        [subject],
      );
      expect(log.map(({ generation }) => generation)).toEqual([1, 2, 3]);
    } finally {
      await db.query("delete from auth.users where id = any ($1)", [[actor, subject]]);
      await close();
    }
  });
});
