import { expect, test } from "vitest";
import { newAccount, refresh, signIn } from "../support/accounts.ts";
import { call, expectOk, expectRefusal } from "../support/http.ts";
import { enroll, raise } from "../support/totp.ts";

test("verifying a TOTP code deletes the user's other sessions at aal1 and keeps sessions at aal2", async () => {
  const account = await newAccount();
  const first = await signIn(account);
  const factor = await enroll(first.accessToken);
  const raised = await raise(first.accessToken, factor);
  const [second, third] = [await signIn(account), await signIn(account)];
  const raisedToo = await raise(second.accessToken, factor);
  expectRefusal(await call("GET /user", { bearer: third.accessToken }), 403, "session_not_found");
  expectRefusal(await refresh(third.refreshToken), 400, "refresh_token_not_found");
  expectOk(await call("GET /user", { bearer: raised.accessToken }));
  expectOk(await call("GET /user", { bearer: raisedToo.accessToken }));
});

test("verifying a TOTP code does not affect other users' sessions", async () => {
  const bystander = await signIn(await newAccount());
  const { accessToken } = await signIn(await newAccount());
  expect((await raise(accessToken, await enroll(accessToken))).claims.aal).toBe("aal2");
  expectOk(await call("GET /user", { bearer: bystander.accessToken }));
});
