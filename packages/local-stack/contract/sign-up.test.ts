import { describe, expect, test } from "vitest";
import { newAccount, newEmail, password, sessionOf, signIn } from "./support/accounts.ts";
import { ageMail, sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { mailsTo, nextMail } from "./support/mail.ts";
import { autoconfirm, featuresOff, shortSessions } from "./support/settings.ts";
import { describeVariant } from "./support/variant.ts";

const signUp = (body: Record<string, unknown>, url?: string) => call("POST /signup", { body, ...(url ? { url } : {}) });

describe("POST /signup with a new email", () => {
  test("POST /signup returns the unconfirmed user as the whole response body, and emails a code and a link token", async () => {
    const email = newEmail();
    const user = expectOk(await signUp({ email, password }));
    expect(user).toMatchObject({
      id: expect.any(String),
      aud: "authenticated",
      role: "authenticated",
      email,
      phone: "",
      confirmation_sent_at: expect.any(String),
      app_metadata: { provider: "email", providers: ["email"] },
      is_anonymous: false,
    });
    expect(user).not.toHaveProperty("email_confirmed_at");
    expect(user).not.toHaveProperty("confirmed_at");
    expect(user).not.toHaveProperty("access_token");
    const mail = await nextMail(email);
    expect(mail.code).toMatch(/^\d{6}$/);
    expect(mail.tokenHash).toMatch(/^[0-9a-f]{56}$/);
  });

  test("sign-up copies the identity's claims and the given data into user_metadata", async () => {
    const email = newEmail();
    const user = expectOk(await signUp({ email, password, data: { name: "N", nested: { a: [1] } } }));
    const claims = { sub: user.id, email, email_verified: false, phone_verified: false };
    expect(user.user_metadata).toEqual({ ...claims, name: "N", nested: { a: [1] } });
    expect(user.identities).toHaveLength(1);
    expect(user.identities[0]).toMatchObject({
      identity_id: expect.any(String),
      id: user.id,
      user_id: user.id,
      provider: "email",
      email,
      identity_data: { ...claims, name: "N" },
    });
  });

  test("the data of a sign-up does not override the identity's claims", async () => {
    const email = newEmail();
    const user = expectOk(
      await signUp({ email, password, data: { sub: "x", email: "y@z.test", email_verified: true } }),
    );
    expect(user.user_metadata).toMatchObject({ sub: user.id, email, email_verified: false });
  });

  test("sign-up drops the top-level nulls in data from user_metadata, but keeps nested nulls", async () => {
    const user = expectOk(await signUp({ email: newEmail(), password, data: { name: null, nested: { a: null } } }));
    for (const { user_metadata } of [user, expectOk(await admin(`GET /admin/users/${user.id}`))]) {
      expect(user_metadata).toMatchObject({ sub: user.id, nested: { a: null } });
      expect(user_metadata).not.toHaveProperty("name");
    }
  });

  test("sign-up stores the email in lower case", async () => {
    const email = newEmail();
    const user = expectOk(await signUp({ email: email.toUpperCase(), password }));
    expect(user.email).toBe(email);
  });

  test("sign-up returns RFC 3339 timestamps", async () => {
    const user = expectOk(await signUp({ email: newEmail(), password }));
    expect(user.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
  });

  test("sign-up stores the password with bcrypt at cost 10", async () => {
    const { id } = expectOk(await signUp({ email: newEmail(), password }));
    const [row] = await sql<{ hash: string }>("select encrypted_password as hash from auth.users where id = $1", [id]);
    expect(row?.hash).toMatch(/^\$2[aby]\$10\$/);
  });

  test("creates one account for 12 concurrent sign-ups with one email", async () => {
    const email = newEmail();
    const answers = await Promise.all(Array.from({ length: 12 }, () => signUp({ email, password })));
    expect(answers.filter((answer) => answer.status === 200).length).toBeGreaterThan(0);
    const rows = await sql("select id from auth.users where email = $1", [email]);
    expect(rows).toHaveLength(1);
  });
});

describe("POST /signup with invalid input", () => {
  test.each(["", "plain", "a@b@c", "a b@example.test", "@example.test", `${"a".repeat(250)}@example.test`])(
    "sign-up refuses an invalid email with 400 and an empty email with 422: '%s'",
    async (email) => {
      const answer = await signUp({ email, password });
      if (email) expectRefusal(answer, 400, "validation_failed");
      else expectRefusal(answer, 422, "anonymous_provider_disabled");
    },
  );

  test("sign-up refuses a missing password with 400 validation_failed", async () => {
    expectRefusal(await signUp({ email: newEmail() }), 400, "validation_failed");
  });

  test("sign-up refuses a password of 5 characters and accepts one of 6", async () => {
    const answer = await signUp({ email: newEmail(), password: "12345" });
    expectRefusal(answer, 422, "weak_password");
    expect(answer.body.weak_password.reasons).toEqual(["length"]);
    expectOk(await signUp({ email: newEmail(), password: "123456" }));
  });

  test("sign-up checks the password's strength before the PKCE parameters", async () => {
    const body = { email: newEmail(), password: "12345", code_challenge: "half" };
    expectRefusal(await signUp(body), 422, "weak_password");
    expectRefusal(await signUp({ ...body, password }), 400, "validation_failed");
  });

  test("sign-up accepts a password of 72 bytes and refuses one of 73", async () => {
    expectOk(await signUp({ email: newEmail(), password: "x".repeat(72) }));
    expectRefusal(await signUp({ email: newEmail(), password: "x".repeat(73) }), 400, "validation_failed");
  });

  test("sign-up limits a password's length in bytes, not in characters", async () => {
    expectRefusal(await signUp({ email: newEmail(), password: "é".repeat(37) }), 400, "validation_failed");
    expectOk(await signUp({ email: newEmail(), password: "é".repeat(36) }));
  });

  test("sign-up refuses a phone number with 400 phone_provider_disabled", async () => {
    expectRefusal(await signUp({ phone: "+15555550100", password }), 400, "phone_provider_disabled");
  });

  test("sign-up refuses incomplete PKCE parameters with 400 validation_failed", async () => {
    const challenge = "x".repeat(43);
    expectRefusal(await signUp({ email: newEmail(), password, code_challenge: challenge }), 400, "validation_failed");
    expectRefusal(
      await signUp({ email: newEmail(), password, code_challenge_method: "s256" }),
      400,
      "validation_failed",
    );
  });
});

describe("POST /signup with a known email", () => {
  test("sign-up with a confirmed account's email returns a made-up user, so as not to reveal the account", async () => {
    const account = await newAccount();
    const user = expectOk(await signUp({ email: account.email, password: "another horse 2", data: { a: 1 } }));
    expect(user.id).not.toBe(account.id);
    expect(user).toMatchObject({
      email: account.email,
      role: "",
      identities: [],
      aud: "authenticated",
      app_metadata: { provider: "email", providers: ["email"] },
      user_metadata: { a: 1 },
      confirmation_sent_at: expect.any(String),
    });
    expect(user).not.toHaveProperty("email_confirmed_at");
    expect(user).not.toHaveProperty("last_sign_in_at");
    expect(await mailsTo(account.email)).toEqual([]);
    await signIn(account);
  });

  test("sign-up with an unconfirmed account's email returns the real user, sends a new email and keeps the password", async () => {
    const email = newEmail();
    const first = expectOk(await signUp({ email, password }));
    await ageMail(email, "confirmation_sent_at", 61);
    const second = expectOk(await signUp({ email, password: "another horse 2" }));
    expect(second.id).toBe(first.id);
    const { tokenHash } = await nextMail(email, 1);
    expectOk(await call("POST /verify", { body: { type: "signup", token_hash: tokenHash } }));
    await signIn({ email });
  });

  test("a second sign-up of an unconfirmed account returns 429 within 60 seconds of the first email", async () => {
    const email = newEmail();
    expectOk(await signUp({ email, password }));
    await ageMail(email, "confirmation_sent_at", 50);
    expectRefusal(await signUp({ email, password }), 429, "over_email_send_rate_limit");
    await ageMail(email, "confirmation_sent_at", 11);
    expectOk(await signUp({ email, password }));
  });

  test("a second confirmation email invalidates the first one's token", async () => {
    const email = newEmail();
    expectOk(await signUp({ email, password }));
    const first = await nextMail(email);
    await ageMail(email, "confirmation_sent_at", 61);
    expectOk(await signUp({ email, password }));
    await nextMail(email, 1);
    const answer = await call("POST /verify", { body: { type: "signup", token_hash: first.tokenHash } });
    expectRefusal(answer, 403, "otp_expired");
  });
});

describeVariant("POST /signup under autoconfirm", autoconfirm, (url) => {
  test("sign-up under autoconfirm returns a session with the method password", async () => {
    const email = newEmail();
    const session = sessionOf(expectOk(await signUp({ email, password }, url())));
    expect(session.claims.amr).toMatchObject([{ method: "password" }]);
    expect(session.user).toMatchObject({ email, email_confirmed_at: expect.any(String) });
    expect(session.user.user_metadata.email_verified).toBe(true);
    expect(await mailsTo(email)).toEqual([]);
  });

  test("sign-up under autoconfirm refuses a known email with 422 user_already_exists", async () => {
    const { email } = await newAccount();
    expectRefusal(await signUp({ email, password }, url()), 422, "user_already_exists");
  });
});

describeVariant("POST /signup with sign-ups off", featuresOff, (url) => {
  test("with sign-ups off, POST /signup gets 422 signup_disabled, but administrators can still add users", async () => {
    expectRefusal(await signUp({ email: newEmail(), password }, url()), 422, "signup_disabled");
    expectOk(await admin("POST /admin/users", { body: { email: newEmail(), password }, url: url() }));
  });
});

describeVariant("POST /signup without email", shortSessions, (url) => {
  test("with the email provider off, sign-up is refused with 400 email_provider_disabled", async () => {
    expectRefusal(await signUp({ email: newEmail(), password }, url()), 400, "email_provider_disabled");
  });

  test("with the email provider off, a password sign-in is refused with 422 email_provider_disabled", async () => {
    const { email } = await newAccount();
    const answer = await call("POST /token?grant_type=password", { body: { email, password }, url: url() });
    expectRefusal(answer, 422, "email_provider_disabled");
  });
});

describeVariant("password rules", autoconfirm, (url) => {
  test("the response to a weak password lists each violated rule as a reason", async () => {
    const reasonsOf = async (secret: string) =>
      (await signUp({ email: newEmail(), password: secret }, url())).body.weak_password.reasons;
    expect(await reasonsOf("aaaaaaaaaa")).toEqual(["characters"]);
    expect(await reasonsOf("aaaaaaaa1")).toEqual(["length"]);
    expect(await reasonsOf("aaaa")).toEqual(["length", "characters"]);
    expectOk(await signUp({ email: newEmail(), password: "aaaaaaaaa1" }, url()));
  });

  test("a correct but weak password signs in, with a warning in the response", async () => {
    const { email } = await newAccount({ password: "aaaa" });
    const answer = await call("POST /token?grant_type=password", { body: { email, password: "aaaa" }, url: url() });
    expect(expectOk(answer).weak_password).toMatchObject({
      message: expect.any(String),
      reasons: ["length", "characters"],
    });
  });
});
