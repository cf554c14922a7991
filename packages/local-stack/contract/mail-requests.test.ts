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
  test("POST /recover returns {} and emails a code and a link token", async () => {
    const { email } = await newAccount();
    expect(expectOk(await recover(email))).toEqual({});
    const mail = await nextMail(email);
    expect(mail.code).toMatch(/^\d{6}$/);
    expect(mail.html).toContain(mail.tokenHash);
  });

  test("POST /recover gives an unknown email the same response as a known one", async () => {
    const answer = await recover(newEmail());
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({});
  });

  test("POST /recover emails a link that leads to redirect_to", async () => {
    const { email } = await newAccount();
    const target = "https://app.example.test/reset/now";
    expectOk(await call(`POST /recover?redirect_to=${encodeURIComponent(target)}`, { body: { email } }));
    expect(decodeURIComponent((await nextMail(email)).html)).toContain(target);
  });

  test("POST /recover returns 429 within the pause between two emails, and the first email stays valid", async () => {
    const { email } = await newAccount();
    expectOk(await recover(email));
    const { tokenHash } = await nextMail(email);
    expectRefusal(await recover(email), 429, "over_email_send_rate_limit");
    expectOk(await call("POST /verify", { body: { type: "recovery", token_hash: tokenHash } }));
  });

  test("POST /recover requires a pause of one minute: 429 after 55 s, and an email after 61 s", async () => {
    const { email } = await newAccount();
    expectOk(await recover(email));
    await ageMail(email, "recovery_sent_at", 55);
    expectRefusal(await recover(email), 429, "over_email_send_rate_limit");
    await ageMail(email, "recovery_sent_at", 6);
    expectOk(await recover(email));
  });

  test.each([[{}], [{ email: "" }], [{ email: "none" }]])(
    "POST /recover refuses %j with 400 validation_failed",
    async (body) => {
      expectRefusal(await call("POST /recover", { body }), 400, "validation_failed");
    },
  );

  test("POST /recover refuses a PKCE challenge that is too short, too long or has an invalid character", async () => {
    const { email } = await newAccount();
    const with_ = (code_challenge: string) => recover(email, { code_challenge, code_challenge_method: "s256" });
    expectRefusal(await with_("x".repeat(42)), 400, "validation_failed");
    expectRefusal(await with_("x".repeat(129)), 400, "validation_failed");
    expectRefusal(await with_(`${"x".repeat(43)}+`), 400, "validation_failed");
    expectOk(await with_("x".repeat(43)));
  });
});

describe("POST /otp", () => {
  test("POST /otp emails a sign-in code to a confirmed account", async () => {
    const { id, email } = await newAccount();
    expect(expectOk(await otp({ email }))).toEqual({});
    const { code } = await nextMail(email);
    const session = sessionOf(expectOk(await call("POST /verify", { body: { type: "email", email, token: code } })));
    expect(session.user.id).toBe(id);
  });

  test("POST /otp creates an account for a new email, stores the request's user data and sends a confirmation email", async () => {
    const email = newEmail();
    expectOk(await otp({ email, data: { name: "N" } }));
    const { code } = await nextMail(email);
    const session = sessionOf(expectOk(await call("POST /verify", { body: { type: "signup", email, token: code } })));
    expect(session.user).toMatchObject({ email, user_metadata: { name: "N" } });
  });

  test("POST /otp with create_user false refuses an unknown email with 422 otp_disabled and emails a known one", async () => {
    expectRefusal(await otp({ email: newEmail(), create_user: false }), 422, "otp_disabled");
    const { email } = await newAccount();
    expectOk(await otp({ email, create_user: false }));
    await nextMail(email);
  });

  test("POST /otp and POST /recover share the pause between two emails", async () => {
    const { email } = await newAccount();
    expectOk(await otp({ email }));
    expectRefusal(await recover(email), 429, "over_email_send_rate_limit");
    await ageMail(email, "recovery_sent_at", 61);
    expectOk(await recover(email));
    expectRefusal(await otp({ email }), 429, "over_email_send_rate_limit");
  });

  test("POST /otp and POST /recover share one token, so a later email invalidates the earlier one", async () => {
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
  ])("POST /otp refuses %j with 400 validation_failed", async (body) => {
    expectRefusal(await otp(body), 400, "validation_failed");
  });

  test("POST /otp refuses a phone number with 400 phone_provider_disabled", async () => {
    expectRefusal(await otp({ phone: "+15555550100" }), 400, "phone_provider_disabled");
  });

  test("POST /magiclink behaves like POST /otp, but refuses a missing email with 422 validation_failed", async () => {
    const { email } = await newAccount();
    expectOk(await call("POST /magiclink", { body: { email } }));
    await nextMail(email);
    expectRefusal(await call("POST /magiclink", { body: {} }), 422, "validation_failed");
    const body = { code_challenge: "half", create_user: "of another type" };
    expectRefusal(await call("POST /magiclink", { body }), 422, "validation_failed");
  });
});

describe("POST /resend", () => {
  test("POST /resend of type signup sends a new confirmation that replaces the first", async () => {
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

  test("POST /resend of type signup gets 429 within the pause between two emails", async () => {
    const email = newEmail();
    expectOk(await call("POST /signup", { body: { email, password } }));
    expectRefusal(await resend({ type: "signup", email }), 429, "over_email_send_rate_limit");
  });

  test("POST /resend returns {} and sends no email if nothing is pending or the address is unknown", async () => {
    const { email } = await newAccount();
    expect(expectOk(await resend({ type: "signup", email }))).toEqual({});
    expect(expectOk(await resend({ type: "email_change", email }))).toEqual({});
    expect(expectOk(await resend({ type: "signup", email: newEmail() }))).toEqual({});
    expect(await mailsTo(email)).toEqual([]);
  });

  test.each([[{ type: "recovery", email: "a@example.test" }], [{ type: "signup" }], [{ email: "a@example.test" }]])(
    "POST /resend refuses %j with 400 validation_failed",
    async (body) => {
      expectRefusal(await resend(body), 400, "validation_failed");
    },
  );
});

describe("GET /reauthenticate", () => {
  test("GET /reauthenticate emails a code", async () => {
    const { account, accessToken } = await newSession();
    expect(expectOk(await call("GET /reauthenticate", { bearer: accessToken }))).toEqual({});
    expect((await nextMail(account.email)).code).toMatch(/^\d{6}$/);
  });

  test("GET /reauthenticate returns 429 for a second request within the pause between two emails", async () => {
    const { accessToken } = await newSession();
    expectOk(await call("GET /reauthenticate", { bearer: accessToken }));
    expectRefusal(await call("GET /reauthenticate", { bearer: accessToken }), 429, "over_email_send_rate_limit");
  });

  test("GET /reauthenticate refuses an unconfirmed account with 422 email_not_confirmed", async () => {
    const { account, accessToken } = await newSession();
    await sql("update auth.users set email_confirmed_at = null where id = $1", [account.id]);
    expectRefusal(await call("GET /reauthenticate", { bearer: accessToken }), 422, "email_not_confirmed");
  });

  test("GET /reauthenticate without a bearer token returns 401", async () => {
    expectRefusal(await call("GET /reauthenticate"), 401, "no_authorization");
  });
});

describeVariant("no mails at all", currentPassword, (url) => {
  test("sign-up gets 429 over_email_send_rate_limit and stores nothing if no emails may be sent", async () => {
    const email = newEmail();
    const answer = await call("POST /signup", { body: { email, password }, url: url() });
    expectRefusal(answer, 429, "over_email_send_rate_limit");
    expect(await sql("select from auth.users where email = $1", [email])).toHaveLength(0);
  });

  test("administrators can still generate links if no emails may be sent", async () => {
    const { email } = await newAccount();
    expectOk(await admin("POST /admin/generate_link", { body: { type: "recovery", email }, url: url() }));
  });
});

describeVariant("two mails an hour", { GOTRUE_RATE_LIMIT_EMAIL_SENT: "2" }, (url) => {
  test("with a limit of two emails an hour, the third gets 429 even if it has another recipient", async () => {
    for (const status of [200, 200, 429]) {
      const { email } = await newAccount();
      expect((await call("POST /recover", { body: { email }, url: url() })).status).toBe(status);
    }
  });
});

describeVariant("magic links off", featuresOff, (url) => {
  test("POST /otp gets 422 email_provider_disabled if magic links are off", async () => {
    const { email } = await newAccount();
    expectRefusal(await otp({ email }, url()), 422, "email_provider_disabled");
  });
});
