import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newAccount, newSession, password, signIn } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { call, expectOk, expectRefusal } from "./support/http.ts";
import { challenge, codeOf, enroll, wrongCodeOf } from "./support/totp.ts";
import { describeVariant } from "./support/variant.ts";

const schema = `hooks_${randomUUID().slice(0, 8)}`;

/** Defines a hook that records its events and returns the response stored in the user's metadata. */
const hook = (name: string) => `
  create function ${schema}.${name}(event jsonb) returns jsonb language plpgsql security definer set search_path = '' as $$
  begin
    insert into ${schema}.calls (name, event) values ('${name}', event);
    return coalesce(
      (select raw_app_meta_data -> 'answer' from auth.users where id = (event ->> 'user_id')::uuid),
      '{"decision": "continue"}'
    );
  end
  $$;
  grant execute on function ${schema}.${name}(jsonb) to supabase_auth_admin;
`;

beforeAll(async () => {
  await sql(`create schema ${schema}`);
  await sql(`create table ${schema}.calls (id bigserial primary key, name text, event jsonb)`);
  await sql(`grant usage on schema ${schema} to supabase_auth_admin`);
  for (const statement of [hook("on_password"), hook("on_factor")].join("").split(/;\n\s*(?=grant|create)/)) {
    await sql(statement);
  }
});
afterAll(() => sql(`drop schema ${schema} cascade`));

const settings = {
  GOTRUE_HOOK_PASSWORD_VERIFICATION_ATTEMPT_ENABLED: "true",
  GOTRUE_HOOK_PASSWORD_VERIFICATION_ATTEMPT_URI: `pg-functions://postgres/${schema}/on_password`,
  GOTRUE_HOOK_MFA_VERIFICATION_ATTEMPT_ENABLED: "true",
  GOTRUE_HOOK_MFA_VERIFICATION_ATTEMPT_URI: `pg-functions://postgres/${schema}/on_factor`,
};

const eventsOf = async (userId: string) =>
  (
    await sql<{ event: Record<string, unknown> }>(
      `select event from ${schema}.calls where event ->> 'user_id' = $1 order by id`,
      [userId],
    )
  ).map(({ event }) => event);

describe("sign-ins without hooks", () => {
  test("a sign-in calls no hook unless one is configured", async () => {
    const account = await newAccount();
    await signIn(account);
    expect(await eventsOf(account.id)).toEqual([]);
  });
});

describeVariant("hooks on attempts", settings, (url) => {
  const grant = (email: string, secret: string) =>
    call("POST /token?grant_type=password", { body: { email, password: secret }, url: url() });

  test("a password hook's event has the user and the outcome, but never the password", async () => {
    const { id, email } = await newAccount();
    expectOk(await grant(email, password));
    expectRefusal(await grant(email, "wrong horse 1"), 400, "invalid_credentials");
    const events = await eventsOf(id);
    expect(events).toMatchObject([
      { user_id: id, valid: true },
      { user_id: id, valid: false },
    ]);
    expect(events[0]?.metadata).toMatchObject({
      uuid: expect.any(String),
      time: expect.any(String),
      name: expect.any(String),
      ip_address: expect.any(String),
    });
    expect(JSON.stringify(events)).not.toContain("horse");
  });

  test("a password attempt for an unknown email or a banned account triggers no hook", async () => {
    const { id, email } = await newAccount({ ban_duration: "1h" });
    expectRefusal(await grant(email, password), 400, "user_banned");
    expect(await eventsOf(id)).toEqual([]);
  });

  test("if a password hook rejects, even a correct password gets 400 invalid_credentials with the hook's message", async () => {
    const answer = { decision: "reject", message: "Too often." };
    const { email } = await newAccount({ app_metadata: { answer } });
    for (const secret of [password, "wrong horse 1"]) {
      const refused = await grant(email, secret);
      expectRefusal(refused, 400, "invalid_credentials");
      expect(refused.body.message).toBe("Too often.");
    }
  });

  test("a password hook's rejection ends the user's sessions only if the hook requests it", async () => {
    const sign = async (answer: object) => {
      const session = await newSession({ app_metadata: { answer } });
      expectRefusal(await grant(session.account.email, password), 400, "invalid_credentials");
      return call("GET /user", { bearer: session.accessToken });
    };
    expectOk(await sign({ decision: "reject" }));
    expectRefusal(await sign({ decision: "reject", should_logout_user: true }), 403, "session_not_found");
  });

  const attempt = async (answer: object | undefined, right: boolean) => {
    const session = await newSession(answer ? { app_metadata: { answer } } : {});
    const { factorId, secret } = await enroll(session.accessToken);
    const challenge_id = await challenge(session.accessToken, factorId);
    const outcome = await call(`POST /factors/${factorId}/verify`, {
      bearer: session.accessToken,
      body: { challenge_id, code: right ? codeOf(secret) : wrongCodeOf(secret) },
      url: url(),
    });
    return { ...session, factorId, outcome };
  };

  test("a second-factor hook's event has the user, the factor and the outcome, but never the code", async () => {
    const { account, factorId, outcome } = await attempt(undefined, false);
    expectRefusal(outcome, 422, "mfa_verification_failed");
    expect(await eventsOf(account.id)).toMatchObject([
      { user_id: account.id, factor_id: factorId, factor_type: "totp", valid: false },
    ]);
    const right = await attempt(undefined, true);
    expectOk(right.outcome);
    expect(await eventsOf(right.account.id)).toMatchObject([{ valid: true }]);
  });

  test("if a second-factor hook rejects an attempt, the request gets 403 mfa_verification_rejected and all of the user's sessions end", async () => {
    const { outcome, accessToken } = await attempt({ decision: "reject", message: "Too often." }, true);
    expectRefusal(outcome, 403, "mfa_verification_rejected");
    expect(outcome.body.message).toBe("Too often.");
    expectRefusal(await call("GET /user", { bearer: accessToken }), 403, "session_not_found");
  });
});

describeVariant(
  "a hook that fails",
  { ...settings, GOTRUE_HOOK_PASSWORD_VERIFICATION_ATTEMPT_URI: `pg-functions://postgres/${schema}/missing` },
  (url) => {
    test("a failing hook fails the attempt with 500 and creates no session", async () => {
      const { id, email } = await newAccount();
      const answer = await call("POST /token?grant_type=password", { body: { email, password }, url: url() });
      expect(answer.status).toBe(500);
      expect(await sql("select from auth.sessions where user_id = $1", [id])).toHaveLength(0);
    });
  },
);
