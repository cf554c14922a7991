import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { newAccount, newEmail, password, sessionOf } from "./support/accounts.ts";
import { ageMail, sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { nextMail } from "./support/mail.ts";

const verify = (body: Record<string, unknown>) => call("POST /verify", { body });

async function signedUp() {
  const email = newEmail();
  const user = expectOk(await call("POST /signup", { body: { email, password } }));
  return { id: user.id as string, email, ...(await nextMail(email)) };
}

async function recovering() {
  const account = await newAccount();
  expectOk(await call("POST /recover", { body: { email: account.email } }));
  return { ...account, ...(await nextMail(account.email)) };
}

const wrongCode = (code: string) => (code === "000000" ? "000001" : "000000");

describe("POST /verify for a sign-up", () => {
  test("POST /verify confirms an email with the link token, and creates a session with the method otp", async () => {
    const { id, tokenHash } = await signedUp();
    const session = sessionOf(expectOk(await verify({ type: "signup", token_hash: tokenHash })));
    expect(session.user).toMatchObject({
      id,
      email_confirmed_at: expect.any(String),
      confirmed_at: expect.any(String),
      user_metadata: { email_verified: true },
    });
    expect(session.claims.amr).toMatchObject([{ method: "otp" }]);
    expect(session.user.identities[0].identity_data.email_verified).toBe(true);
  });

  test("POST /verify accepts the emailed code together with the email", async () => {
    const { id, email, code } = await signedUp();
    const session = sessionOf(expectOk(await verify({ type: "signup", email, token: code })));
    expect(session.user.id).toBe(id);
  });

  test("POST /verify ignores the email's case", async () => {
    const { email, code } = await signedUp();
    expectOk(await verify({ type: "signup", email: email.toUpperCase(), token: code }));
  });

  test("POST /verify also accepts type email for a sign-up", async () => {
    const { email, code } = await signedUp();
    expectOk(await verify({ type: "email", email, token: code }));
  });

  test("the link token of a sign-up is the SHA-224 of email and code", async () => {
    const { email, code, tokenHash } = await signedUp();
    expect(tokenHash).toBe(
      createHash("sha224")
        .update(email + code)
        .digest("hex"),
    );
  });

  test("POST /verify with type recovery refuses a sign-up token: 403 otp_expired", async () => {
    const { email, code, tokenHash } = await signedUp();
    expectRefusal(await verify({ type: "recovery", token_hash: tokenHash }), 403, "otp_expired");
    expectRefusal(await verify({ type: "recovery", email, token: code }), 403, "otp_expired");
  });

  test("confirming a sign-up invalidates all of the user's emailed tokens", async () => {
    const { id, email, tokenHash } = await signedUp();
    expectOk(await call("POST /recover", { body: { email } }));
    const recovery = await nextMail(email, 1);
    expectOk(await verify({ type: "signup", token_hash: tokenHash }));
    expectRefusal(await verify({ type: "recovery", token_hash: recovery.tokenHash }), 403, "otp_expired");
    expect(await sql("select from auth.one_time_tokens where user_id = $1", [id])).toHaveLength(0);
  });
});

describe("POST /verify for recovery and magic links", () => {
  test.each(["recovery", "magiclink", "email"])("POST /verify redeems a recovery token with type %s", async (type) => {
    const { id, tokenHash } = await recovering();
    const session = sessionOf(expectOk(await verify({ type, token_hash: tokenHash })));
    expect(session.user.id).toBe(id);
    expect(session.claims.amr).toMatchObject([{ method: "otp" }]);
  });

  test("POST /verify refuses type signup for a recovery token with 403 otp_expired", async () => {
    const { tokenHash } = await recovering();
    expectRefusal(await verify({ type: "signup", token_hash: tokenHash }), 403, "otp_expired");
  });

  test("redeeming a recovery token confirms an unconfirmed email", async () => {
    const { id, email } = await newAccount({ email_confirm: false });
    expectOk(await call("POST /recover", { body: { email } }));
    const { tokenHash } = await nextMail(email);
    const session = sessionOf(expectOk(await verify({ type: "recovery", token_hash: tokenHash })));
    expect(session.user).toMatchObject({ id, email_confirmed_at: expect.any(String) });
  });
});

describe("POST /verify with an invalid token", () => {
  test("POST /verify gives wrong, used, expired and unknown tokens the same 403 otp_expired", async () => {
    const { email, code, tokenHash } = await recovering();
    expectRefusal(await verify({ type: "recovery", email, token: wrongCode(code) }), 403, "otp_expired");
    expectRefusal(await verify({ type: "recovery", email: newEmail(), token: code }), 403, "otp_expired");
    expectRefusal(await verify({ type: "recovery", token_hash: "0".repeat(56) }), 403, "otp_expired");
    expectOk(await verify({ type: "recovery", token_hash: tokenHash }));
    expectRefusal(await verify({ type: "recovery", token_hash: tokenHash }), 403, "otp_expired");
    expectRefusal(await verify({ type: "recovery", email, token: code }), 403, "otp_expired");
  });

  test("POST /verify keeps the correct code valid after a wrong one", async () => {
    const { email, code } = await recovering();
    for (let attempt = 0; attempt < 5; attempt++) {
      expectRefusal(await verify({ type: "recovery", email, token: wrongCode(code) }), 403, "otp_expired");
    }
    expectOk(await verify({ type: "recovery", email, token: code }));
  });

  test("POST /verify accepts a token after 59 minutes and refuses it after 61", async () => {
    const early = await recovering();
    await ageMail(early.email, "recovery_sent_at", 3_540);
    expectOk(await verify({ type: "recovery", token_hash: early.tokenHash }));
    const late = await recovering();
    await ageMail(late.email, "recovery_sent_at", 3_660);
    expectRefusal(await verify({ type: "recovery", token_hash: late.tokenHash }), 403, "otp_expired");
    expectRefusal(await verify({ type: "recovery", email: late.email, token: late.code }), 403, "otp_expired");
  });

  test("POST /verify refuses a banned user with 403 user_banned", async () => {
    const { id, email, code, tokenHash } = await recovering();
    expectOk(await admin(`PUT /admin/users/${id}`, { body: { ban_duration: "1h" } }));
    expectRefusal(await verify({ type: "recovery", token_hash: tokenHash }), 403, "user_banned");
    expectRefusal(await verify({ type: "recovery", email, token: code }), 403, "user_banned");
  });

  test.each([
    [{ token_hash: "x" }],
    [{ type: "signup" }],
    [{ type: "signup", token: "123456", token_hash: "x" }],
    [{ type: "signup", token: "123456" }],
    [{ type: "signup", token_hash: "x", email: "a@example.test" }],
    [{ type: "signup", token_hash: "x", redirect_to: "http://localhost:3000" }],
    [{ type: "nonsense", token_hash: "x" }],
  ])("POST /verify refuses %j with 400 validation_failed", async (body) => {
    expectRefusal(await verify(body), 400, "validation_failed");
  });

  test("POST /verify refuses an invalid email with 422 validation_failed", async () => {
    expectRefusal(await verify({ type: "signup", token: "123456", email: "none" }), 422, "validation_failed");
  });
});

describe("concurrent redemptions", () => {
  test("20 concurrent redemptions of one emailed token create at least one session, and the rest get 403 otp_expired", async () => {
    const { id, tokenHash } = await recovering();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => verify({ type: "recovery", token_hash: tokenHash })),
    );
    const refused = answers.filter((answer) => answer.status !== 200);
    expect(answers.length - refused.length).toBeGreaterThanOrEqual(1);
    for (const answer of refused) expectRefusal(answer, 403, "otp_expired");
    expect(await sql("select from auth.one_time_tokens where user_id = $1", [id])).toHaveLength(0);
  });
});
