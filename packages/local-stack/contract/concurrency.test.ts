import { createHash, randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { newAccount, newEmail, newSession, password, refresh } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { type Answer, admin, call, expectOk } from "./support/http.ts";
import { mailsTo, nextMail } from "./support/mail.ts";
import { challenge, codeOf, enroll, verifyCode } from "./support/totp.ts";

const callers = 50;
const atOnce = (send: () => Promise<Answer>) => Promise.all(Array.from({ length: callers }, send));

function countByStatus(answers: Answer[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

const expectNoFailure = (answers: Answer[]) => {
  for (const answer of answers) expect(answer.status, answer.text).toBeLessThan(500);
};
const countSessions = async (userId: string) =>
  (await sql("select from auth.sessions where user_id = $1", [userId])).length;

describe("concurrent requests", () => {
  test("50 concurrent refreshes with one token leave only one active token, a child of the old one", async () => {
    const { id, refreshToken } = await newSession();
    const answers = await atOnce(() => refresh(refreshToken));
    expectNoFailure(answers);
    const live = await sql<{ token: string; parent: string }>(
      "select token, parent from auth.refresh_tokens where session_id = $1 and not revoked",
      [id],
    );
    expect(live).toHaveLength(1);
    expect(live[0]?.parent).toBe(refreshToken);
    const given = new Set(answers.filter(({ status }) => status === 200).map(({ body }) => body.refresh_token));
    expect([...given]).toEqual([live[0]?.token]);
  });

  test("an email token is used up after 50 concurrent redemptions, which do not affect other users' sessions", async () => {
    const bystander = await newSession();
    const { id, email } = await newAccount();
    const { hashed_token } = expectOk(await admin("POST /admin/generate_link", { body: { type: "magiclink", email } }));
    const body = { type: "magiclink", token_hash: hashed_token };
    const answers = await atOnce(() => call("POST /verify", { body }));
    expectNoFailure(answers);
    const { 200: redeemed = 0, 403: refused = 0 } = countByStatus(answers);
    expect(redeemed).toBeGreaterThanOrEqual(1);
    expect(redeemed + refused).toBe(callers);
    expect(await countSessions(id)).toBe(redeemed);
    expect((await call("POST /verify", { body })).status).toBe(403);
    expectOk(await call("GET /user", { bearer: bystander.accessToken }));
  });

  test("after 50 concurrent exchanges of one auth code, another exchange of the code gets 404", async () => {
    const { id, email } = await newAccount();
    const code_verifier = randomBytes(42).toString("base64url");
    const code_challenge = createHash("sha256").update(code_verifier).digest("base64url");
    expectOk(await call("POST /recover", { body: { email, code_challenge, code_challenge_method: "s256" } }));
    const { tokenHash } = await nextMail(email);
    const { location } = await call(`GET /verify?type=recovery&token=${tokenHash}`);
    const body = { auth_code: new URL(location).searchParams.get("code"), code_verifier };
    const answers = await atOnce(() => call("POST /token?grant_type=pkce", { body }));
    expectNoFailure(answers);
    const { 200: exchanged = 0 } = countByStatus(answers);
    expect(exchanged).toBeGreaterThanOrEqual(1);
    expect(await countSessions(id)).toBe(exchanged);
    expect((await call("POST /token?grant_type=pkce", { body })).status).toBe(404);
  });

  test("50 concurrent verifications of one challenge leave one session at aal2", async () => {
    const { account, id, accessToken } = await newSession();
    const { factorId, secret } = await enroll(accessToken);
    const challengeId = await challenge(accessToken, factorId);
    const code = codeOf(secret);
    const answers = await atOnce(() => verifyCode(accessToken, { factorId, challengeId, code }));
    expectNoFailure(answers);
    expect(answers.some(({ status }) => status === 200)).toBe(true);
    expect(await sql("select id, aal from auth.sessions where user_id = $1", [account.id])).toEqual([
      { id, aal: "aal2" },
    ]);
  });

  test("50 concurrent recovery requests for one account send at least one email", async () => {
    const { email } = await newAccount();
    const answers = await atOnce(() => call("POST /recover", { body: { email } }));
    expectNoFailure(answers);
    const { 200: sent = 0, 429: held = 0 } = countByStatus(answers);
    expect(sent).toBeGreaterThanOrEqual(1);
    expect(sent + held).toBe(callers);
    await nextMail(email, sent - 1);
    expect(await mailsTo(email)).toHaveLength(sent);
  });

  test("concurrent changes of two users' emails to the same new address succeed for only one of them", async () => {
    const email = newEmail();
    const tokens: string[] = [];
    for (const { email: old } of [await newAccount(), await newAccount()]) {
      for (const type of ["email_change_current", "email_change_new"]) {
        const body = { type, email: old, new_email: email };
        const { action_link } = expectOk(await admin("POST /admin/generate_link", { body }));
        tokens.push(new URL(action_link).searchParams.get("token") ?? "");
      }
    }
    const redeem = (token_hash = "") => call("POST /verify", { body: { type: "email_change", token_hash } });
    await Promise.all([redeem(tokens[0]), redeem(tokens[2])]);
    await Promise.all([redeem(tokens[1]), redeem(tokens[3])]);
    expect(await sql("select from auth.users where email = $1", [email])).toHaveLength(1);
  });

  test("50 concurrent sign-outs of one session each get 204, or 403 once the session has ended", async () => {
    const { account, accessToken } = await newSession();
    const answers = await atOnce(() => call("POST /logout", { bearer: accessToken }));
    const { 204: done = 0, 403: gone = 0 } = countByStatus(answers);
    expect(done).toBeGreaterThanOrEqual(1);
    expect(done + gone).toBe(callers);
    expect(await countSessions(account.id)).toBe(0);
  });

  test("concurrent sign-ups with one email create one account", async () => {
    const email = newEmail();
    await Promise.all(Array.from({ length: 10 }, () => call("POST /signup", { body: { email, password } })));
    expect(await sql("select from auth.users where email = $1", [email])).toHaveLength(1);
  });
});
