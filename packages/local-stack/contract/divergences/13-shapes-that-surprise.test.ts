import { expect, test } from "vitest";
import { forgeToken, inAnHour, newEmail, newSession } from "../support/accounts.ts";
import { admin, call, expectOk, expectRefusal } from "../support/http.ts";

test("aud is a string in both access tokens and user objects", async () => {
  const { claims, user } = await newSession();
  expect(claims.aud).toBe("authenticated");
  expect(user.aud).toBe("authenticated");
});

test("timestamps are RFC 3339 in UTC", async () => {
  const { user } = await newSession();
  for (const field of ["created_at", "updated_at", "last_sign_in_at", "email_confirmed_at"]) {
    expect(user[field]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/);
  }
});

test("an expired access token gets 403, and a missing one gets 401", async () => {
  const { account } = await newSession();
  const claims = { sub: account.id, aud: "authenticated", role: "authenticated" };
  expectRefusal(
    await call("GET /user", { bearer: await forgeToken({ ...claims, exp: inAnHour() - 3_601 }) }),
    403,
    "bad_jwt",
  );
  expectOk(await call("GET /user", { bearer: await forgeToken({ ...claims, exp: inAnHour() }) }));
  expectRefusal(await call("GET /user"), 401, "no_authorization");
});

test("creating a user as an administrator returns 200, not 201", async () => {
  expect((await admin("POST /admin/users", { body: { email: newEmail() } })).status).toBe(200);
});
