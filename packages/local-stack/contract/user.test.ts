import { describe, expect, test } from "vitest";
import { newAccount, newEmail, newSession, password, refresh, sessionOf, signIn } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { nextMail } from "./support/mail.ts";
import { currentPassword, reauthentication } from "./support/settings.ts";
import { describeVariant } from "./support/variant.ts";

const newPassword = "another horse 2";
const update = (bearer: string, body: Record<string, unknown>, url?: string) =>
  call("PUT /user", { bearer, body, ...(url ? { url } : {}) });

describe("GET /user", () => {
  test("GET /user returns the current account", async () => {
    const { account, accessToken } = await newSession();
    expectOk(await admin(`PUT /admin/users/${account.id}`, { body: { user_metadata: { name: "N" } } }));
    expect(expectOk(await call("GET /user", { bearer: accessToken }))).toMatchObject({
      id: account.id,
      aud: "authenticated",
      email: account.email,
      phone: "",
      user_metadata: { name: "N" },
      identities: [{ provider: "email" }],
      last_sign_in_at: expect.any(String),
      is_anonymous: false,
    });
  });

  test("GET /user never returns secrets", async () => {
    const { accessToken } = await newSession();
    const { text } = await call("GET /user", { bearer: accessToken });
    expect(text).not.toMatch(/password|_token|\$2[aby]\$/);
  });
});

describe("PUT /user with data", () => {
  test("PUT /user merges top-level keys of data and deletes keys that are set to null", async () => {
    const { accessToken } = await newSession({ user_metadata: { keep: 1, drop: 2, nested: { a: 1, b: 2 } } });
    const user = expectOk(await update(accessToken, { data: { drop: null, nested: { c: 3 }, add: "x" } }));
    expect(user.user_metadata).toEqual({ email_verified: true, keep: 1, nested: { c: 3 }, add: "x" });
  });

  test("PUT /user changes nothing if the body is empty", async () => {
    const { account, accessToken } = await newSession();
    expect(expectOk(await update(accessToken, {}))).toMatchObject({ id: account.id, email: account.email });
  });

  test("PUT /user refuses app_metadata with 403 not_admin", async () => {
    const { accessToken } = await newSession();
    expectRefusal(await update(accessToken, { app_metadata: { plan: "team" } }), 403, "not_admin");
  });

  test("PUT /user without a bearer token gets 401 no_authorization", async () => {
    expectRefusal(await call("PUT /user", { body: {} }), 401, "no_authorization");
  });
});

describe("PUT /user with a password", () => {
  test("after a password change, only the new password signs in", async () => {
    const { account, accessToken } = await newSession();
    expectOk(await update(accessToken, { password: newPassword }));
    await signIn(account, newPassword);
    const answer = await call("POST /token?grant_type=password", { body: { email: account.email, password } });
    expectRefusal(answer, 400, "invalid_credentials");
  });

  test("a password change ends every other session and keeps the current one", async () => {
    const { account, accessToken, refreshToken } = await newSession();
    const other = await signIn(account);
    expectOk(await update(accessToken, { password: newPassword }));
    expectRefusal(await call("GET /user", { bearer: other.accessToken }), 403, "session_not_found");
    expectRefusal(await refresh(other.refreshToken), 400, "refresh_token_not_found");
    expectOk(await refresh(refreshToken));
  });

  test("a password change invalidates all emailed tokens", async () => {
    const { account, accessToken } = await newSession();
    expectOk(await call("POST /recover", { body: { email: account.email } }));
    const { tokenHash } = await nextMail(account.email);
    expectOk(await update(accessToken, { password: newPassword }));
    const answer = await call("POST /verify", { body: { type: "recovery", token_hash: tokenHash } });
    expectRefusal(answer, 403, "otp_expired");
  });

  test("a password change refuses the same password with 422 same_password", async () => {
    const { accessToken } = await newSession();
    expectRefusal(await update(accessToken, { password }), 422, "same_password");
  });

  test.each(["", "12345"])("a password change refuses %j as too short with 422 weak_password", async (secret) => {
    const { accessToken } = await newSession();
    expectRefusal(await update(accessToken, { password: secret }), 422, "weak_password");
  });

  test("changing to a password of 73 bytes is refused with 400 validation_failed", async () => {
    const { accessToken } = await newSession();
    expectRefusal(await update(accessToken, { password: "x".repeat(73) }), 400, "validation_failed");
  });

  test("PUT /user treats a password of null as absent", async () => {
    const { account, accessToken } = await newSession();
    expectOk(await update(accessToken, { password: null }));
    await signIn(account);
  });
});

describe("PUT /user with an email", () => {
  test("an email change refuses another account's email with 422 email_exists", async () => {
    const { email } = await newAccount();
    const { accessToken } = await newSession();
    expectRefusal(await update(accessToken, { email }), 422, "email_exists");
    expectRefusal(await update(accessToken, { email: email.toUpperCase() }), 422, "email_exists");
  });

  test("an email change refuses an invalid email with 400 validation_failed", async () => {
    const { accessToken } = await newSession();
    expectRefusal(await update(accessToken, { email: "none" }), 400, "validation_failed");
  });

  test("an email change to the current email leaves nothing pending", async () => {
    const { account, accessToken } = await newSession();
    expect(expectOk(await update(accessToken, { email: account.email }))).not.toHaveProperty("new_email");
  });

  test("an email change makes the new email pending and keeps the old one until confirmation", async () => {
    const { account, accessToken } = await newSession();
    const email = newEmail();
    const user = expectOk(await update(accessToken, { email }));
    expect(user).toMatchObject({ email: account.email, new_email: email, email_change_sent_at: expect.any(String) });
    await nextMail(email);
    await nextMail(account.email);
  });

  test("a second email change returns 429 if it follows too soon after the first", async () => {
    const { accessToken } = await newSession();
    expectOk(await update(accessToken, { email: newEmail() }));
    expectRefusal(await update(accessToken, { email: newEmail() }), 429, "over_email_send_rate_limit");
  });
});

describe("secure email change", () => {
  const begin = async () => {
    const session = await newSession();
    const email = newEmail();
    expectOk(await update(session.accessToken, { email }));
    return { ...session, email, toNew: await nextMail(email), toOld: await nextMail(session.account.email) };
  };
  const verify = (body: Record<string, unknown>) => call("POST /verify", { body: { type: "email_change", ...body } });

  test.each([
    ["old", "new"],
    ["new", "old"],
  ])("confirms an email change from the %s mailbox first, then from the %s mailbox", async (first) => {
    const { account, email, toNew, toOld, accessToken } = await begin();
    const [one, two] = first === "old" ? [toOld, toNew] : [toNew, toOld];
    const half = expectOk(await verify({ token_hash: one.tokenHash }));
    expect(half).toEqual({ msg: expect.any(String), code: "200" });
    expect(expectOk(await call("GET /user", { bearer: accessToken })).email).toBe(account.email);
    const session = sessionOf(expectOk(await verify({ token_hash: two.tokenHash })));
    expect(session.user).toMatchObject({ id: account.id, email, identities: [{ email }] });
    expect(session.user).not.toHaveProperty("new_email");
    expect(session.claims.amr).toMatchObject([{ method: "otp" }]);
    await signIn({ email });
  });

  test("an email change can be confirmed with the emailed codes", async () => {
    const { account, email, toNew, toOld } = await begin();
    expectOk(await verify({ email: account.email, token: toOld.code }));
    const session = sessionOf(expectOk(await verify({ email, token: toNew.code })));
    expect(session.user.email).toBe(email);
  });

  test("confirming an email change twice from one mailbox does not replace confirmation from the other mailbox", async () => {
    const { toNew } = await begin();
    expectOk(await verify({ token_hash: toNew.tokenHash }));
    expectRefusal(await verify({ token_hash: toNew.tokenHash }), 403, "otp_expired");
  });

  test("the first link of an email change redirects with a message in the fragment, and the second link creates a session", async () => {
    const { toNew, toOld } = await begin();
    const first = await call(`GET /verify?type=email_change&token=${toOld.tokenHash}`);
    expect(first.status).toBe(303);
    const fragment = new URLSearchParams(new URL(first.location).hash.slice(1));
    expect(fragment.get("message")).toEqual(expect.any(String));
    expect(fragment.has("access_token")).toBe(false);
    const second = await call(`GET /verify?type=email_change&token=${toNew.tokenHash}`);
    expect(new URLSearchParams(new URL(second.location).hash.slice(1)).has("access_token")).toBe(true);
  });

  test("an email change keeps existing sessions", async () => {
    const { toNew, toOld, accessToken, refreshToken } = await begin();
    expectOk(await verify({ token_hash: toOld.tokenHash }));
    expectOk(await verify({ token_hash: toNew.tokenHash }));
    expectOk(await call("GET /user", { bearer: accessToken }));
    expectOk(await refresh(refreshToken));
  });

  test("an email change fails if another account has taken the email in the meantime", async () => {
    const { email, toNew, toOld } = await begin();
    const other = await newAccount({ email });
    expectOk(await verify({ token_hash: toOld.tokenHash }));
    expect((await verify({ token_hash: toNew.tokenHash })).status).toBeGreaterThanOrEqual(400);
    const rows = await sql("select id from auth.users where email = $1", [email]);
    expect(rows).toEqual([{ id: other.id }]);
  });

  test("resends both emails of an email change", async () => {
    const { account, email } = await begin();
    await sql("update auth.users set email_change_sent_at = email_change_sent_at - interval '61 s' where id = $1", [
      account.id,
    ]);
    expectOk(await call("POST /resend", { body: { type: "email_change", email: account.email } }));
    await nextMail(email, 1);
    await nextMail(account.email, 1);
  });
});

describeVariant("change of email by one mailbox", reauthentication, (url) => {
  test("the new mailbox alone confirms an email change if secure email change is off", async () => {
    const { account, accessToken } = await newSession();
    const email = newEmail();
    expectOk(await update(accessToken, { email }, url()));
    const { tokenHash } = await nextMail(email);
    const answer = await call("POST /verify", { body: { type: "email_change", token_hash: tokenHash }, url: url() });
    expect(sessionOf(expectOk(answer)).user).toMatchObject({ id: account.id, email });
  });
});

describeVariant("reauthentication before a new password", reauthentication, (url) => {
  const oldSession = async (hours: number) => {
    const session = await newSession();
    await sql("update auth.sessions set created_at = created_at - make_interval(hours => $2) where id = $1", [
      session.id,
      hours,
    ]);
    return session;
  };
  const change = (bearer: string, extra: Record<string, unknown> = {}) =>
    update(bearer, { password: newPassword, ...extra }, url());

  test("a session that began 23 hours ago needs no emailed code to change the password", async () => {
    expectOk(await change((await oldSession(23)).accessToken));
  });

  test("a session that began 25 hours ago gets 400 reauthentication_needed for a password change", async () => {
    expectRefusal(await change((await oldSession(25)).accessToken), 400, "reauthentication_needed");
  });

  test("an emailed reauthentication code allows only one password change", async () => {
    const { account, accessToken } = await oldSession(25);
    expectOk(await call("GET /reauthenticate", { bearer: accessToken, url: url() }));
    const { code: nonce } = await nextMail(account.email);
    const wrong = nonce === "000000" ? "000001" : "000000";
    expectRefusal(await change(accessToken, { nonce: wrong }), 422, "reauthentication_not_valid");
    expectOk(await change(accessToken, { nonce }));
    expectRefusal(
      await update(accessToken, { password: "third horse 3", nonce }, url()),
      422,
      "reauthentication_not_valid",
    );
  });
});

describeVariant("the current password before a new one", currentPassword, (url) => {
  const change = (bearer: string, extra: Record<string, unknown> = {}) =>
    update(bearer, { password: newPassword, ...extra }, url());

  test("a password change requires the current password: 400 if missing, and 400 current_password_invalid if wrong", async () => {
    const { accessToken } = await newSession();
    expectRefusal(await change(accessToken), 400, "current_password_required");
    expectRefusal(await change(accessToken, { current_password: "wrong" }), 400, "current_password_invalid");
    expectOk(await change(accessToken, { current_password: password }));
  });

  test("a session created from an email can change the password without the current one", async () => {
    const { email } = await newAccount();
    const { hashed_token } = expectOk(await admin("POST /admin/generate_link", { body: { type: "recovery", email } }));
    const body = { type: "recovery", token_hash: hashed_token };
    const { accessToken } = sessionOf(expectOk(await call("POST /verify", { body })));
    expectOk(await change(accessToken));
  });
});
