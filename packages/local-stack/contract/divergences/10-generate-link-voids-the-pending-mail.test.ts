import { test } from "vitest";
import { newAccount } from "../support/accounts.ts";
import { ageMail } from "../support/database.ts";
import { admin, call, expectOk, expectRefusal } from "../support/http.ts";
import { nextMail } from "../support/mail.ts";

const redeem = (token_hash: string) => call("POST /verify", { body: { type: "recovery", token_hash } });

test.each(["recovery", "magiclink"])("a generated %s invalidates the pending reset email", async (type) => {
  const { email } = await newAccount();
  expectOk(await call("POST /recover", { body: { email } }));
  const { tokenHash } = await nextMail(email);
  const link = expectOk(await admin("POST /admin/generate_link", { body: { type, email } }));
  expectRefusal(await redeem(tokenHash), 403, "otp_expired");
  expectOk(await redeem(link.hashed_token));
});

test("after a link is generated, the user's next email request is refused for a minute", async () => {
  const { email } = await newAccount();
  expectOk(await admin("POST /admin/generate_link", { body: { type: "recovery", email } }));
  expectRefusal(await call("POST /recover", { body: { email } }), 429, "over_email_send_rate_limit");
  await ageMail(email, "recovery_sent_at", 61);
  expectOk(await call("POST /recover", { body: { email } }));
});
