import { describe, expect, test } from "vitest";
import { newAccount, newEmail, newSession, password, sessionOf } from "./support/accounts.ts";
import { ageMail, sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { mailsTo, nextMail } from "./support/mail.ts";
import { currentPassword, featuresOff } from "./support/settings.ts";
import { describeVariant } from "./support/variant.ts";

const recover = (email: string, extra: Record<string, unknown> = {}) =>
  call("POST /recover", { body: { email, ...extra } });
const resend = (body: Record<string, unknown>) => call("POST /resend", { body });
const otp = (body: Record<string, unknown>, url?: string) => call("POST /otp", { body, ...(url ? { url } : {}) });

describe("POST /recover", () => {
  test("answers {} and mails a code and a link's token", async () => {
    const { email } = await newAccount();
    expect(expectOk(await recover(email))).toEqual({});
    const mail = await nextMail(email);
    expect(mail.code).toMatch(/^\d{6}$/);
    expect(mail.html).toContain(mail.tokenHash);
  });

  test("an unknown address gets the same answer", async () => {
    const answer = await recover(newEmail());
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({});
  });

  test("the link leads where redirect_to says", async () => {
    const { email } = await newAccount();
    const target = "https://app.example.test/reset/now";
    expectOk(await call(`POST /recover?redirect_to=${encodeURIComponent(target)}`, { body: { email } }));
    expect(decodeURIComponent((await nextMail(email)).html)).toContain(target);
  });

  test("within the pause: 429, and the first mail stays good", async () => {
    const { email } = await newAccount();
    expectOk(await recover(email));
    const { tokenHash } = await nextMail(email);
    expectRefusal(await recover(email), 429, "over_email_send_rate_limit");
    expectOk(await call("POST /verify", { body: { type: "recovery", token_hash: tokenHash } }));
  });

  test("the pause is a minute: 429 after 55 s, a mail after 61", async () => {
    const { email } = await newAccount();
    expectOk(await recover(email));
    await ageMail(email, "recovery_sent_at", 55);
    expectRefusal(await recover(email), 429, "over_email_send_rate_limit");
    await ageMail(email, "recovery_sent_at", 6);
    expectOk(await recover(email));
  });

  test.each([[{}], [{ email: "" }], [{ email: "none" }]])("%j: 400 validation_failed", async (body) => {
    expectRefusal(await call("POST /recover", { body }), 400, "validation_failed");
  });

  test("a challenge that is too short, or of a strange character: 400 validation_failed", async () => {
    const { email } = await newAccount();
    const with_ = (code_challenge: string) => recover(email, { code_challenge, code_challenge_method: "s256" });
    expectRefusal(await with_("x".repeat(42)), 400, "validation_failed");
    expectRefusal(await with_("x".repeat(129)), 400, "validation_failed");
    expectRefusal(await with_(`${"x".repeat(43)}+`), 400, "validation_failed");
    expectOk(await with_("x".repeat(43)));
  });
});

describe("POST /otp", () => {
  test("a confirmed account gets a sign-in mail of its own", async () => {
    const { id, email } = await newAccount();
    expect(expectOk(await otp({ email }))).toEqual({});
    const { code } = await nextMail(email);
    const session = sessionOf(expectOk(await call("POST /verify", { body: { type: "email", email, token: code } })));
    expect(session.user.id).toBe(id);
  });

  test("a new address is signed up, with data, and its mail is the confirmation", async () => {
    const email = newEmail();
    expectOk(await otp({ email, data: { name: "N" } }));
    const { code } = await nextMail(email);
    const session = sessionOf(expectOk(await call("POST /verify", { body: { type: "signup", email, token: code } })));
    expect(session.user).toMatchObject({ email, user_metadata: { name: "N" } });
  });

  test("create_user false, unknown: 422 otp_disabled; known: a mail", async () => {
    expectRefusal(await otp({ email: newEmail(), create_user: false }), 422, "otp_disabled");
    const { email } = await newAccount();
    expectOk(await otp({ email, create_user: false }));
    await nextMail(email);
  });

  test("shares its pause with recovery", async () => {
    const { email } = await newAccount();
    expectOk(await otp({ email }));
    expectRefusal(await recover(email), 429, "over_email_send_rate_limit");
    await ageMail(email, "recovery_sent_at", 61);
    expectOk(await recover(email));
    expectRefusal(await otp({ email }), 429, "over_email_send_rate_limit");
  });

  test("and its token: the later voids the earlier", async () => {
    const { email } = await newAccount();
    expectOk(await otp({ email }));
    const { tokenHash } = await nextMail(email);
    await ageMail(email, "recovery_sent_at", 61);
    expectOk(await recover(email));
    await nextMail(email, 1);
    const answer = await call("POST /verify", { body: { type: "magiclink", token_hash: tokenHash } });
    expectRefusal(answer, 403, "otp_expired");
  });

  test.each([
    [{}],
    [{ email: "a@example.test", phone: "+15555550100" }],
    [{ email: "a@example.test", channel: "sms" }],
  ])("%j: 400 validation_failed", async (body) => {
    expectRefusal(await otp(body), 400, "validation_failed");
  });

  test("a phone: 400 phone_provider_disabled", async () => {
    expectRefusal(await otp({ phone: "+15555550100" }), 400, "phone_provider_disabled");
  });

  test("POST /magiclink does the same; without an address it is 422 validation_failed", async () => {
    const { email } = await newAccount();
    expectOk(await call("POST /magiclink", { body: { email } }));
    await nextMail(email);
    expectRefusal(await call("POST /magiclink", { body: {} }), 422, "validation_failed");
    const body = { code_challenge: "half", create_user: "of another type" };
    expectRefusal(await call("POST /magiclink", { body }), 422, "validation_failed");
  });
});

describe("POST /resend", () => {
  test("signup: the confirmation again, in place of the first", async () => {
    const email = newEmail();
    expectOk(await call("POST /signup", { body: { email, password } }));
    const first = await nextMail(email);
    await ageMail(email, "confirmation_sent_at", 61);
    expect(expectOk(await resend({ type: "signup", email }))).toEqual({});
    const second = await nextMail(email, 1);
    expectRefusal(
      await call("POST /verify", { body: { type: "signup", token_hash: first.tokenHash } }),
      403,
      "otp_expired",
    );
    expectOk(await call("POST /verify", { body: { type: "signup", token_hash: second.tokenHash } }));
  });

  test("signup, within the pause: 429", async () => {
    const email = newEmail();
    expectOk(await call("POST /signup", { body: { email, password } }));
    expectRefusal(await resend({ type: "signup", email }), 429, "over_email_send_rate_limit");
  });

  test("nothing pending, or nobody there: {} and no mail", async () => {
    const { email } = await newAccount();
    expect(expectOk(await resend({ type: "signup", email }))).toEqual({});
    expect(expectOk(await resend({ type: "email_change", email }))).toEqual({});
    expect(expectOk(await resend({ type: "signup", email: newEmail() }))).toEqual({});
    expect(await mailsTo(email)).toEqual([]);
  });

  test.each([[{ type: "recovery", email: "a@example.test" }], [{ type: "signup" }], [{ email: "a@example.test" }]])(
    "%j: 400 validation_failed",
    async (body) => {
      expectRefusal(await resend(body), 400, "validation_failed");
    },
  );
});

describe("GET /reauthenticate", () => {
  test("mails a code", async () => {
    const { account, accessToken } = await newSession();
    expect(expectOk(await call("GET /reauthenticate", { bearer: accessToken }))).toEqual({});
    expect((await nextMail(account.email)).code).toMatch(/^\d{6}$/);
  });

  test("twice within the pause: 429", async () => {
    const { accessToken } = await newSession();
    expectOk(await call("GET /reauthenticate", { bearer: accessToken }));
    expectRefusal(await call("GET /reauthenticate", { bearer: accessToken }), 429, "over_email_send_rate_limit");
  });

  test("unconfirmed: 422 email_not_confirmed", async () => {
    const { account, accessToken } = await newSession();
    await sql("update auth.users set email_confirmed_at = null where id = $1", [account.id]);
    expectRefusal(await call("GET /reauthenticate", { bearer: accessToken }), 422, "email_not_confirmed");
  });

  test("without a bearer: 401", async () => {
    expectRefusal(await call("GET /reauthenticate"), 401, "no_authorization");
  });
});

describeVariant("no mails at all", currentPassword, (url) => {
  test("429 over_email_send_rate_limit, and nothing is stored", async () => {
    const email = newEmail();
    const answer = await call("POST /signup", { body: { email, password }, url: url() });
    expectRefusal(answer, 429, "over_email_send_rate_limit");
    expect(await sql("select from auth.users where email = $1", [email])).toHaveLength(0);
  });

  test("links made by administrators need none", async () => {
    const { email } = await newAccount();
    expectOk(await admin("POST /admin/generate_link", { body: { type: "recovery", email }, url: url() }));
  });
});

describeVariant("two mails an hour", { GOTRUE_RATE_LIMIT_EMAIL_SENT: "2" }, (url) => {
  test("the third is 429, whoever it is to", async () => {
    for (const status of [200, 200, 429]) {
      const { email } = await newAccount();
      expect((await call("POST /recover", { body: { email }, url: url() })).status).toBe(status);
    }
  });
});

describeVariant("magic links off", featuresOff, (url) => {
  test("422 email_provider_disabled", async () => {
    const { email } = await newAccount();
    expectRefusal(await otp({ email }, url()), 422, "email_provider_disabled");
  });
});
