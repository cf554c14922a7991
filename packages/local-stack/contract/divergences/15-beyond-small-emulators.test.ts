import { expect, test } from "vitest";
import { newEmail, newSession } from "../support/accounts.ts";
import { admin, call, expectOk } from "../support/http.ts";
import { nextMail } from "../support/mail.ts";
import { newRaisedSession } from "../support/totp.ts";

// Tests features that the product needs and that smaller emulators lack.
test("the server under test supports second factors", async () => {
  expect((await newRaisedSession()).claims.aal).toBe("aal2");
});

test("the server under test supports the admin API", async () => {
  const { id } = expectOk(await admin("POST /admin/users", { body: { email: newEmail() } }));
  expectOk(await admin(`PUT /admin/users/${id}`, { body: { ban_duration: "1h" } }));
  expect(expectOk(await admin(`GET /admin/users/${id}`))).toHaveProperty("banned_until");
});

test("the server under test supports linking identities", async () => {
  const { accessToken } = await newSession();
  const answer = await call("GET /user/identities/authorize?provider=none", { bearer: accessToken });
  expect(answer.body.code).toBe("validation_failed");
});

test("the server under test requires both mailboxes to confirm a change of email", async () => {
  const { account, accessToken } = await newSession();
  const email = newEmail();
  expectOk(await call("PUT /user", { bearer: accessToken, body: { email } }));
  const { tokenHash } = await nextMail(email);
  const body = { type: "email_change", token_hash: tokenHash };
  expect(expectOk(await call("POST /verify", { body }))).not.toHaveProperty("access_token");
  expect(expectOk(await call("GET /user", { bearer: accessToken })).email).toBe(account.email);
});
