import { describe, expect, test } from "vitest";
import { newAccount, newEmail, password, sessionOf } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";

const grant = (body: Record<string, unknown>) => call("POST /token?grant_type=password", { body });

describe("POST /token?grant_type=password", () => {
  test("answers with tokens, the user, and whose session it is in headers", async () => {
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

  test("a strong password has no weak_password", async () => {
    const { email } = await newAccount();
    expect(expectOk(await grant({ email, password })).weak_password ?? null).toBeNull();
  });

  test("the address's case does not matter", async () => {
    const { email } = await newAccount();
    expectOk(await grant({ email: email.toUpperCase(), password }));
  });

  test("each sign-in is a session of its own", async () => {
    const { email } = await newAccount();
    const [one, two] = [expectOk(await grant({ email, password })), expectOk(await grant({ email, password }))];
    expect(sessionOf(one).id).not.toBe(sessionOf(two).id);
  });

  test("the session records the client and its address", async () => {
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

describe("POST /token?grant_type=password, refused", () => {
  test("unknown address and wrong password get one answer: 400 invalid_credentials", async () => {
    const { email } = await newAccount();
    const [unknown, wrong] = [
      await grant({ email: newEmail(), password }),
      await grant({ email, password: "wrong horse 1" }),
    ];
    expectRefusal(unknown, 400, "invalid_credentials");
    expectRefusal(wrong, 400, "invalid_credentials");
    expect(wrong.body).toEqual(unknown.body);
  });

  test("an account without a password: 400 invalid_credentials", async () => {
    const { id, email } = await newAccount();
    await sql("update auth.users set encrypted_password = null where id = $1", [id]);
    expectRefusal(await grant({ email, password }), 400, "invalid_credentials");
    expectRefusal(await grant({ email, password: "" }), 400, "invalid_credentials");
  });

  test("no address: 400 validation_failed", async () => {
    expectRefusal(await grant({ password }), 400, "validation_failed");
  });

  test("address and phone: 400 validation_failed", async () => {
    const body = { email: newEmail(), phone: "+15555550100", password };
    expectRefusal(await grant(body), 400, "validation_failed");
  });

  test("unconfirmed, right password: 400 email_not_confirmed", async () => {
    const { email } = await newAccount({ email_confirm: false });
    expectRefusal(await grant({ email, password }), 400, "email_not_confirmed");
  });

  test("unconfirmed, wrong password: 400 invalid_credentials", async () => {
    const { email } = await newAccount({ email_confirm: false });
    expectRefusal(await grant({ email, password: "wrong horse 1" }), 400, "invalid_credentials");
  });

  test("banned: 400 user_banned, whatever the password", async () => {
    const { email } = await newAccount({ ban_duration: "1h" });
    expectRefusal(await grant({ email, password }), 400, "user_banned");
    expectRefusal(await grant({ email, password: "wrong horse 1" }), 400, "user_banned");
  });

  test("a ban that is over is none", async () => {
    const { id, email } = await newAccount({ ban_duration: "1h" });
    await sql("update auth.users set banned_until = now() - interval '1 second' where id = $1", [id]);
    expectOk(await grant({ email, password }));
  });

  test("deleted: 400 invalid_credentials", async () => {
    const { id, email } = await newAccount();
    expectOk(await admin(`DELETE /admin/users/${id}`));
    expectRefusal(await grant({ email, password }), 400, "invalid_credentials");
  });

  test.each(["", "?grant_type=", "?grant_type=client_credentials", "?grant_type=constructor"])(
    "grant %s: 400 invalid_credentials",
    async (query) => {
      expectRefusal(await call(`POST /token${query}`, { body: {} }), 400, "invalid_credentials");
    },
  );
});
