import { test } from "vitest";
import { newEmail, signIn } from "../support/accounts.ts";
import { call, expectOk, expectRefusal } from "../support/http.ts";
import { newRaisedSession } from "../support/totp.ts";

test("insufficient_aal is 401 on PUT /user, 403 on enroll and passkeys, and 422 on unenroll", async () => {
  const { account, factor } = await newRaisedSession();
  const { accessToken: bearer } = await signIn(account);
  const put = (body: Record<string, unknown>) => call("PUT /user", { bearer, body });
  expectRefusal(await put({ password: "another horse 2" }), 401, "insufficient_aal");
  expectRefusal(await put({ email: newEmail() }), 401, "insufficient_aal");
  const enrolled = await call("POST /factors", { bearer, body: { factor_type: "totp", friendly_name: "x" } });
  expectRefusal(enrolled, 403, "insufficient_aal");
  const passkey = await call("POST /passkeys/registration/options", { bearer, body: {} });
  expectRefusal(passkey, 403, "insufficient_aal");
  expectRefusal(await call(`DELETE /factors/${factor.factorId}`, { bearer }), 422, "insufficient_aal");
});

test("a session at aal1 cannot change credentials, while a session at aal2 can change everything", async () => {
  const { account, accessToken } = await newRaisedSession();
  const { accessToken: low } = await signIn(account);
  expectOk(await call("PUT /user", { bearer: low, body: { data: { a: 1 } } }));
  expectOk(await call("PUT /user", { bearer: low, body: { email: account.email } }));
  expectOk(await call("PUT /user", { bearer: accessToken, body: { password: "another horse 2" } }));
});
