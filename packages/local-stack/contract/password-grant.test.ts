import { describe, expect, test } from "vitest";
import { newAccount, newEmail, password, sessionOf } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";

const grant = (body: Record<string, unknown>) => call("POST /token?grant_type=password", { body });

describe("POST /token?grant_type=password", () => {
  test("a password sign-in returns tokens and the user, and the session's and user's ids in headers", async () => {
    const account = await newAccount();
    const answer = await grant({ email: account.email, password });
    const body = expectOk(answer);
    expect(body).toMatchObject({
      access_token: expect.any(String),
      token_type: "bearer",
      expires_in: 3600,
      expires_at: expect.any(Number),
      refresh_token: expect.stringMatching(/^[a-z2-7]{12}$/),
      user: { id: account.id, last_sign_in_at: expect.any(String) },
    });
    expect(Math.abs(body.expires_at - Date.now() / 1_000 - 3_600)).toBeLessThan(30);
    expect(answer.headers.get("sb-auth-user-id")).toBe(account.id);
    expect(answer.headers.get("sb-auth-session-id")).toBe(sessionOf(body).id);
  });

  test("a sign-in with a strong password returns no weak_password", async () => {
    const { email } = await newAccount();
    expect(expectOk(await grant({ email, password })).weak_password ?? null).toBeNull();
  });

  test("a password sign-in ignores the email's case", async () => {
    const { email } = await newAccount();
    expectOk(await grant({ email: email.toUpperCase(), password }));
  });

  test("each password sign-in creates a new session", async () => {
    const { email } = await newAccount();
    const [one, two] = [expectOk(await grant({ email, password })), expectOk(await grant({ email, password }))];
    expect(sessionOf(one).id).not.toBe(sessionOf(two).id);
  });

  test("a password sign-in records the client and its IP address in the session", async () => {
    const { email } = await newAccount();
    const answer = await call("POST /token?grant_type=password", {
      body: { email, password },
      headers: { "User-Agent": "contract/1", "X-Forwarded-For": "203.0.113.9, 10.0.0.1" },
    });
    const { id } = sessionOf(expectOk(answer));
    const [row] = await sql("select user_agent, host(ip) as ip, aal from auth.sessions where id = $1", [id]);
    expect(row).toEqual({ user_agent: "contract/1", ip: "203.0.113.9", aal: "aal1" });
  });
});

describe("POST /token?grant_type=password with wrong credentials", () => {
  test("a password sign-in returns the same 400 invalid_credentials for an unknown email and a wrong password", async () => {
    const { email } = await newAccount();
    const [unknown, wrong] = [
      await grant({ email: newEmail(), password }),
      await grant({ email, password: "wrong horse 1" }),
    ];
    expectRefusal(unknown, 400, "invalid_credentials");
    expectRefusal(wrong, 400, "invalid_credentials");
    expect(wrong.body).toEqual(unknown.body);
  });

  test("a password sign-in to an account without a password returns 400 invalid_credentials", async () => {
    const { id, email } = await newAccount();
    await sql("update auth.users set encrypted_password = null where id = $1", [id]);
    expectRefusal(await grant({ email, password }), 400, "invalid_credentials");
    expectRefusal(await grant({ email, password: "" }), 400, "invalid_credentials");
  });

  test("a password sign-in refuses a missing email with 400 validation_failed", async () => {
    expectRefusal(await grant({ password }), 400, "validation_failed");
  });

  test("a password sign-in with both an email and a phone number returns 400 validation_failed", async () => {
    const body = { email: newEmail(), phone: "+15555550100", password };
    expectRefusal(await grant(body), 400, "validation_failed");
  });

  test("a password sign-in to an unconfirmed account returns 400 email_not_confirmed if the password is correct", async () => {
    const { email } = await newAccount({ email_confirm: false });
    expectRefusal(await grant({ email, password }), 400, "email_not_confirmed");
  });

  test("a password sign-in to an unconfirmed account returns 400 invalid_credentials if the password is wrong", async () => {
    const { email } = await newAccount({ email_confirm: false });
    expectRefusal(await grant({ email, password: "wrong horse 1" }), 400, "invalid_credentials");
  });

  test("a password sign-in refuses a banned user with 400 user_banned, even with a wrong password", async () => {
    const { email } = await newAccount({ ban_duration: "1h" });
    expectRefusal(await grant({ email, password }), 400, "user_banned");
    expectRefusal(await grant({ email, password: "wrong horse 1" }), 400, "user_banned");
  });

  test("a password sign-in ignores an expired ban", async () => {
    const { id, email } = await newAccount({ ban_duration: "1h" });
    await sql("update auth.users set banned_until = now() - interval '1 second' where id = $1", [id]);
    expectOk(await grant({ email, password }));
  });

  test("a password sign-in to a deleted account returns 400 invalid_credentials", async () => {
    const { id, email } = await newAccount();
    expectOk(await admin(`DELETE /admin/users/${id}`));
    expectRefusal(await grant({ email, password }), 400, "invalid_credentials");
  });

  test.each(["", "?grant_type=", "?grant_type=client_credentials", "?grant_type=constructor"])(
    "POST /token refuses the grant type %s with 400 invalid_credentials",
    async (query) => {
      expectRefusal(await call(`POST /token${query}`, { body: {} }), 400, "invalid_credentials");
    },
  );
});
