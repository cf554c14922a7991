import { expect, test } from "vitest";
import { newEmail, password, sessionOf } from "../support/accounts.ts";
import { sql } from "../support/database.ts";
import { call, expectOk } from "../support/http.ts";
import { autoconfirm } from "../support/settings.ts";
import { describeVariant } from "../support/variant.ts";

test("confirming an account by email marks both the account and its identity as verified", async () => {
  const { id } = expectOk(await call("POST /signup", { body: { email: newEmail(), password } }));
  const [before] = await sql("select email_confirmed_at from auth.users where id = $1", [id]);
  expect(before?.email_confirmed_at).toBeNull();
  const [token] = await sql<{ hash: string }>(
    "select token_hash as hash from auth.one_time_tokens where user_id = $1",
    [id],
  );
  expectOk(await call("POST /verify", { body: { type: "signup", token_hash: token?.hash } }));
  const rows = await sql(
    `select u.email_confirmed_at is not null as confirmed, i.identity_data -> 'email_verified' as verified
     from auth.users u join auth.identities i on i.user_id = u.id where u.id = $1`,
    [id],
  );
  expect(rows).toEqual([{ confirmed: true, verified: true }]);
});

describeVariant("under autoconfirm", autoconfirm, (url) => {
  test("under autoconfirm, the account is confirmed, but the identity's email_verified may be wrong", async () => {
    const answer = await call("POST /signup", { body: { email: newEmail(), password }, url: url() });
    const { user } = sessionOf(expectOk(answer));
    expect(user).toMatchObject({ email_confirmed_at: expect.any(String), user_metadata: { email_verified: true } });
    expect(typeof user.identities[0].identity_data.email_verified).toBe("boolean");
  });
});
