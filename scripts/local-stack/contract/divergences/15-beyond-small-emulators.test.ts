import { expect, test } from "vitest";
import { newEmail, newSession } from "../support/accounts.ts";
import { admin, call, expectOk } from "../support/http.ts";
import { nextMail } from "../support/mail.ts";
import { newRaisedSession } from "../support/totp.ts";

// What a smaller emulator lacks, and the product needs.
test("second factors", async () => {
  expect((await newRaisedSession()).claims.aal).toBe("aal2");
});

test("an administrator's API", async () => {
  const { id } = expectOk(await admin("POST /admin/users", { body: { email: newEmail() } }));
  expectOk(await admin(`PUT /admin/users/${id}`, { body: { ban_duration: "1h" } }));
  expect(expectOk(await admin(`GET /admin/users/${id}`))).toHaveProperty("banned_until");
});

test("linking of identities is there to be asked for", async () => {
  const { accessToken } = await newSession();
  const answer = await call("GET /user/identities/authorize?provider=none", { bearer: accessToken });
  expect(answer.body.code).toBe("validation_failed");
});

test("a change of email takes both mailboxes", async () => {
  const { account, accessToken } = await newSession();
  const email = newEmail();
  expectOk(await call("PUT /user", { bearer: accessToken, body: { email } }));
  const { tokenHash } = await nextMail(email);
  const body = { type: "email_change", token_hash: tokenHash };
  expect(expectOk(await call("POST /verify", { body }))).not.toHaveProperty("access_token");
  expect(expectOk(await call("GET /user", { bearer: accessToken })).email).toBe(account.email);
});
