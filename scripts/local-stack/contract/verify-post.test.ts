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

describe("POST /verify, sign-up", () => {
  test("by the link's token: a session of method otp, and the address is confirmed", async () => {
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

  test("by the code with the address", async () => {
    const { id, email, code } = await signedUp();
    const session = sessionOf(expectOk(await verify({ type: "signup", email, token: code })));
    expect(session.user.id).toBe(id);
  });

  test("the address's case does not matter", async () => {
    const { email, code } = await signedUp();
    expectOk(await verify({ type: "signup", email: email.toUpperCase(), token: code }));
  });

  test("type email finds it too", async () => {
    const { email, code } = await signedUp();
    expectOk(await verify({ type: "email", email, token: code }));
  });

  test("the token is the SHA-224 of address and code", async () => {
    const { email, code, tokenHash } = await signedUp();
    expect(tokenHash).toBe(
      createHash("sha224")
        .update(email + code)
        .digest("hex"),
    );
  });

  test("type recovery does not redeem it: 403 otp_expired", async () => {
    const { email, code, tokenHash } = await signedUp();
    expectRefusal(await verify({ type: "recovery", token_hash: tokenHash }), 403, "otp_expired");
    expectRefusal(await verify({ type: "recovery", email, token: code }), 403, "otp_expired");
  });

  test("success voids all the user's mailed tokens", async () => {
    const { id, email, tokenHash } = await signedUp();
    expectOk(await call("POST /recover", { body: { email } }));
    const recovery = await nextMail(email, 1);
    expectOk(await verify({ type: "signup", token_hash: tokenHash }));
    expectRefusal(await verify({ type: "recovery", token_hash: recovery.tokenHash }), 403, "otp_expired");
    expect(await sql("select from auth.one_time_tokens where user_id = $1", [id])).toHaveLength(0);
  });
});

describe("POST /verify, recovery and magic link", () => {
  test.each(["recovery", "magiclink", "email"])("type %s redeems the token of a recovery", async (type) => {
    const { id, tokenHash } = await recovering();
    const session = sessionOf(expectOk(await verify({ type, token_hash: tokenHash })));
    expect(session.user.id).toBe(id);
    expect(session.claims.amr).toMatchObject([{ method: "otp" }]);
  });

  test("type signup does not: 403 otp_expired", async () => {
    const { tokenHash } = await recovering();
    expectRefusal(await verify({ type: "signup", token_hash: tokenHash }), 403, "otp_expired");
  });

  test("it confirms an unconfirmed address", async () => {
    const { id, email } = await newAccount({ email_confirm: false });
    expectOk(await call("POST /recover", { body: { email } }));
    const { tokenHash } = await nextMail(email);
    const session = sessionOf(expectOk(await verify({ type: "recovery", token_hash: tokenHash })));
    expect(session.user).toMatchObject({ id, email_confirmed_at: expect.any(String) });
  });
});

describe("POST /verify, refused", () => {
  test("wrong, used, expired and unknown get one answer: 403 otp_expired", async () => {
    const { email, code, tokenHash } = await recovering();
    expectRefusal(await verify({ type: "recovery", email, token: wrongCode(code) }), 403, "otp_expired");
    expectRefusal(await verify({ type: "recovery", email: newEmail(), token: code }), 403, "otp_expired");
    expectRefusal(await verify({ type: "recovery", token_hash: "0".repeat(56) }), 403, "otp_expired");
    expectOk(await verify({ type: "recovery", token_hash: tokenHash }));
    expectRefusal(await verify({ type: "recovery", token_hash: tokenHash }), 403, "otp_expired");
    expectRefusal(await verify({ type: "recovery", email, token: code }), 403, "otp_expired");
  });

  test("a wrong code does not use up the right one", async () => {
    const { email, code } = await recovering();
    for (let attempt = 0; attempt < 5; attempt++) {
      expectRefusal(await verify({ type: "recovery", email, token: wrongCode(code) }), 403, "otp_expired");
    }
    expectOk(await verify({ type: "recovery", email, token: code }));
  });

  test("good for an hour, and not a minute longer", async () => {
    const early = await recovering();
    await ageMail(early.email, "recovery_sent_at", 3_540);
    expectOk(await verify({ type: "recovery", token_hash: early.tokenHash }));
    const late = await recovering();
    await ageMail(late.email, "recovery_sent_at", 3_660);
    expectRefusal(await verify({ type: "recovery", token_hash: late.tokenHash }), 403, "otp_expired");
    expectRefusal(await verify({ type: "recovery", email: late.email, token: late.code }), 403, "otp_expired");
  });

  test("banned: 403 user_banned", async () => {
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
  ])("%j: 400 validation_failed", async (body) => {
    expectRefusal(await verify(body), 400, "validation_failed");
  });

  test("an address that is none: 422 validation_failed", async () => {
    expectRefusal(await verify({ type: "signup", token: "123456", email: "none" }), 422, "validation_failed");
  });
});

describe("redeeming at once", () => {
  test("20 times with one token: at least one session, no error but otp_expired", async () => {
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
