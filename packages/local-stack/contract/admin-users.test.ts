import { randomUUID } from "node:crypto";
import { hashSync } from "@node-rs/bcrypt";
import { describe, expect, test } from "vitest";
import { newAccount, newEmail, newSession, password, refresh, signIn } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { mailsTo, nextMail } from "./support/mail.ts";

const create = (body: Record<string, unknown>) => admin("POST /admin/users", { body });
const update = (id: string, body: Record<string, unknown>) => admin(`PUT /admin/users/${id}`, { body });
const read = async (id: string) => expectOk(await admin(`GET /admin/users/${id}`));

describe("POST /admin/users", () => {
  test("POST /admin/users returns 200 with a user who is unconfirmed by default, and sends no email", async () => {
    const email = newEmail();
    const user = expectOk(await create({ email, password }), 200);
    expect(user).toMatchObject({
      email,
      role: "authenticated",
      app_metadata: { provider: "email", providers: ["email"] },
    });
    expect(user).not.toHaveProperty("email_confirmed_at");
    expect(user.identities).toMatchObject([{ provider: "email", id: user.id, identity_data: { sub: user.id, email } }]);
    expect(await mailsTo(email)).toEqual([]);
  });

  test("POST /admin/users confirms the email if email_confirm is true", async () => {
    const user = expectOk(await create({ email: newEmail(), password, email_confirm: true }));
    expect(user).toMatchObject({ email_confirmed_at: expect.any(String), user_metadata: { email_verified: true } });
  });

  test("POST /admin/users omits confirmed_at from its response, unlike GET /admin/users/:id", async () => {
    const user = expectOk(await create({ email: newEmail(), password, email_confirm: true }));
    expect(user).not.toHaveProperty("confirmed_at");
    expect(await read(user.id)).toMatchObject({ confirmed_at: expect.any(String) });
  });

  test("POST /admin/users applies the given role, metadata, ban and id, and keeps provider in app_metadata", async () => {
    const id = randomUUID();
    const user = expectOk(
      await create({
        id,
        email: newEmail(),
        role: "staff",
        user_metadata: { name: "N" },
        app_metadata: { plan: "team" },
        ban_duration: "1h30m",
      }),
    );
    expect(user).toMatchObject({
      id,
      role: "staff",
      user_metadata: { name: "N" },
      app_metadata: { plan: "team", provider: "email" },
    });
    const left = Date.parse(user.banned_until) - Date.now();
    expect(Math.abs(left - 5_400_000)).toBeLessThan(60_000);
  });

  test("POST /admin/users accepts a weak password", async () => {
    const email = newEmail();
    expectOk(await create({ email, password: "1", email_confirm: true }));
    await signIn({ email }, "1");
  });

  // The hashes are those of Supabase Auth's own tests: internal/crypto/password_test.go in github.com/supabase/auth.
  const signerKey = "ou9tdYTGyYm8kuR6Dt0Bp0kDuAYoXrK16mbZO4yGwAn3oLspjnN0/c41v8xZnO1n14J3MjKj1b2g6AUCAlFwMw==";
  const firebaseSecret =
    "C0sHCg9ek77hsg==$zKVTMvnWVw5BBOZNUdnsalx4c4c7y/w7IS5p6Ut2+CfEFFlz37J9huyQfov4iizN8dbjvEJlM5tQaJP84+hfTw==";
  const firebaseHash = `$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=${signerKey}$${firebaseSecret}`;
  const argon2Secret = "bGJRWThNOHJJTVBSdHl2dQ$NfEnUOuUpb7F2fQkgFUG4g";

  test.each([
    ["bcrypt 2y, cost 4", "test", "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu"],
    ["bcrypt 2y, cost 10", "test", "$2y$10$srNl09aPtc2qr.0Vl.NtjekJRt/NxRxYQm3qd3OvfcKsJgVnr6.Ve"],
    ["bcrypt 2a", "hashed horse", hashSync("hashed horse", { cost: 5, version: "2a" })],
    ["bcrypt 2b, cost 11", "hashed horse", hashSync("hashed horse", { cost: 11, version: "2b" })],
    ["argon2i", "test", `$argon2i$v=19$m=16,t=2,p=1$${argon2Secret}`],
    [
      "argon2id",
      "test",
      "$argon2id$v=19$m=32,t=3,p=2$SFVpOWJ0eXhjRzVkdGN1RQ$RXnb8rh7LaDcn07xsssqqulZYXOM/EUCEFMVcAcyYVk",
    ],
    ["Firebase's scrypt", "mytestpassword", firebaseHash],
  ])("POST /admin/users stores a hash of %s unchanged, and its password signs in", async (_, secret, hash) => {
    const email = newEmail();
    const { id } = expectOk(await create({ email, password_hash: hash, email_confirm: true }));
    await signIn({ email }, secret);
    const wrong = await call("POST /token?grant_type=password", { body: { email, password: `${secret}1` } });
    expectRefusal(wrong, 400, "invalid_credentials");
    expect(await sql("select encrypted_password as hash from auth.users where id = $1", [id])).toEqual([{ hash }]);
  });

  test.each([
    "not-a-hash",
    "$2a$04$short",
    "5f4dcc3b5aa765d61d8327deb882cf99",
    `$argon2d$v=19$m=16,t=2,p=1$${argon2Secret}`,
    `$argon2id$v=16$m=16,t=2,p=1$${argon2Secret}`,
    `$argon2id$v=19$m=16,t=2,p=1,data=abc$${argon2Secret}`,
    `$argon2id$v=19$m=16,t=2,p=1,keyid=abc$${argon2Secret}`,
    `$argon2id$v=19$m=1048577,t=2,p=1$${argon2Secret}`,
    `$argon2id$v=19$m=16,t=21,p=1$${argon2Secret}`,
    `$argon2id$v=19$m=16,t=2,p=17$${argon2Secret}`,
    "$argon2id$v=19$m=16,t=2,p=1$!!!$NfEnUOuUpb7F2fQkgFUG4g",
    "$argon2id$v=19$m=16,t=2,p=1$bGJRWThNOHJJTVBSdHl2dQ$",
    firebaseHash.replace("v=1", "v=2"),
    firebaseHash.replace("n=14", "n=0"),
    firebaseHash.replace("n=14", "n=4294967297"),
    firebaseHash.replace("r=8", "r=0"),
    firebaseHash.replace("p=1,", "p=256,"),
    firebaseHash.replace("ss=Bw==", "ss=!!!"),
    firebaseHash.replace(signerKey, "!!!"),
    firebaseHash.replace("C0sHCg9ek77hsg==", "C0sHCg9ek77hsg"),
  ])("POST /admin/users refuses %s as a hash with 500, and creates no account", async (hash) => {
    const email = newEmail();
    expectRefusal(await create({ email, password_hash: hash }), 500, "unexpected_failure");
    expect(await sql("select from auth.users where email = $1", [email])).toHaveLength(0);
  });

  test("POST /admin/users refuses an id that is in use with 500, and changes nothing", async () => {
    const { id, email } = await newAccount();
    expectRefusal(await create({ id, email: newEmail(), password }), 500, "unexpected_failure");
    expect((await read(id)).email).toBe(email);
  });

  test("POST /admin/users sets a random password if none is given", async () => {
    const { id } = expectOk(await create({ email: newEmail(), email_confirm: true }));
    const [row] = await sql("select encrypted_password ~ '^\\$2' as hashed from auth.users where id = $1", [id]);
    expect(row).toEqual({ hashed: true });
  });

  test("POST /admin/users returns 422 email_exists for an email that is already in use", async () => {
    const { email } = await newAccount();
    expectRefusal(await create({ email, password }), 422, "email_exists");
    expectRefusal(await create({ email: email.toUpperCase(), password }), 422, "email_exists");
  });

  test.each([
    [{}],
    [{ email: "none" }],
    [{ email: "a@example.test", password: "x", password_hash: "y" }],
    [{ email: "ban@example.test", ban_duration: "long" }],
    [{ email: "ban@example.test", ban_duration: "1 hour" }],
    [{ email: "id@example.test", id: "1" }],
    [{ email: "id@example.test", id: "00000000-0000-0000-0000-000000000000" }],
  ])("POST /admin/users refuses %j with 400 validation_failed", async (body) => {
    expectRefusal(await create(body), 400, "validation_failed");
  });
});

describe("POST /admin/users with a password longer than 72 bytes", () => {
  test("POST /admin/users refuses a password longer than 72 bytes and creates no account", async () => {
    const email = newEmail();
    expect((await create({ email, password: "x".repeat(73) })).status).toBeGreaterThanOrEqual(400);
    expect(await sql("select from auth.users where email = $1", [email])).toHaveLength(0);
    expectOk(await create({ email, password: "x".repeat(72) }));
  });
});

describe("GET /admin/users/:id", () => {
  test("GET /admin/users/:id returns the whole user", async () => {
    const { id, email } = await newAccount();
    expect(await read(id)).toMatchObject({ id, email, identities: [{ provider: "email" }] });
  });

  test("GET /admin/users/:id returns 404 user_not_found for an unknown id and 404 validation_failed for an invalid UUID", async () => {
    expectRefusal(await admin(`GET /admin/users/${randomUUID()}`), 404, "user_not_found");
    expectRefusal(await admin("GET /admin/users/me"), 404, "validation_failed");
  });
});

describe("GET /admin/users", () => {
  test("GET /admin/users returns pages, newest first, with a total count and links", async () => {
    const newest = await newAccount();
    const answer = await admin("GET /admin/users?page=1&per_page=1");
    const body = expectOk(answer);
    expect(body.aud).toBe("authenticated");
    expect(body.users).toHaveLength(1);
    expect(Date.parse(body.users[0].created_at)).toBeGreaterThanOrEqual(Date.parse((await read(newest.id)).created_at));
    const total = Number(answer.headers.get("x-total-count"));
    expect(total).toBeGreaterThan(0);
    const link = answer.headers.get("link") ?? "";
    expect(link).toMatch(/<[^>]*page=2[^>]*>; rel="next"/);
    expect(link).toMatch(/rel="last"/);
  });

  test("GET /admin/users leaves out identities and factors", async () => {
    await newAccount();
    const [row] = expectOk(await admin("GET /admin/users?per_page=1")).users;
    expect(row.identities).toBeNull();
    expect(row).not.toHaveProperty("factors");
  });

  test("GET /admin/users treats empty page and per_page as the defaults", async () => {
    expectOk(await admin("GET /admin/users?page=&per_page="));
  });

  test("GET /admin/users filters by part of the email", async () => {
    const { id, email } = await newAccount();
    const { users } = expectOk(await admin(`GET /admin/users?filter=${encodeURIComponent(email.slice(2, 30))}`));
    expect(users.map((user: { id: string }) => user.id)).toEqual([id]);
    expect(expectOk(await admin("GET /admin/users?filter=no-such-user")).users).toEqual([]);
  });

  test("GET /admin/users sorts by created_at in either direction", async () => {
    const [first, second] = [await newAccount(), await newAccount()];
    const filterFor = (direction: string) =>
      `GET /admin/users?per_page=1000&sort=${encodeURIComponent(`created_at ${direction}`)}`;
    const order = async (direction: string) =>
      expectOk(await admin(filterFor(direction)))
        .users.map((user: { id: string }) => user.id)
        .filter((id: string) => id === first.id || id === second.id);
    expect(await order("desc")).toEqual([second.id, first.id]);
    expect(await order("asc")).toEqual([first.id, second.id]);
  });

  test.each(["page=9999999999", "page=0", "per_page=9223372036854775807", "per_page=18446744073709551615"])(
    "GET /admin/users accepts %s",
    async (query) => {
      expect(expectOk(await admin(`GET /admin/users?${query}`)).users).toEqual(expect.any(Array));
    },
  );

  test.each(["page=x", "page=18446744073709551616", "per_page=-1", "sort=email", "sort=created_at+sideways"])(
    "GET /admin/users refuses %s with 400 validation_failed",
    async (query) => {
      expectRefusal(await admin(`GET /admin/users?${query}`), 400, "validation_failed");
    },
  );
});

describe("PUT /admin/users/:id", () => {
  test("PUT /admin/users/:id immediately changes the email of the user and the identity, without sending an email", async () => {
    const { id, email: old } = await newAccount();
    const email = newEmail();
    expectOk(await update(id, { email }));
    expect(await read(id)).toMatchObject({ email, identities: [{ email }] });
    expect([await mailsTo(email), await mailsTo(old)]).toEqual([[], []]);
  });

  test("PUT /admin/users/:id responds with the new email but the old identity", async () => {
    const { id, email: old } = await newAccount();
    const email = newEmail();
    const answered = expectOk(await update(id, { email, email_confirm: true }));
    expect(answered).toMatchObject({ email, identities: [{ email: old, identity_data: { email_verified: false } }] });
    expect(await read(id)).toMatchObject({ identities: [{ email, identity_data: { email_verified: true } }] });
  });

  test("PUT /admin/users/:id returns 500, not 422, for another account's email", async () => {
    const [one, two] = [await newAccount(), await newAccount()];
    expectRefusal(await update(one.id, { email: two.email }), 500, "unexpected_failure");
    expect((await read(one.id)).email).toBe(one.email);
  });

  test("ends all of a user's sessions when an administrator changes the password", async () => {
    const { account, refreshToken, accessToken } = await newSession();
    expectOk(await update(account.id, { password: "another horse 2" }));
    expectRefusal(await call("GET /user", { bearer: accessToken }), 403, "session_not_found");
    expectRefusal(await refresh(refreshToken), 400, "refresh_token_not_found");
    await signIn(account, "another horse 2");
  });

  test("PUT /admin/users/:id refuses a weak password with 422 weak_password", async () => {
    const { id } = await newAccount();
    expectRefusal(await update(id, { password: "12345" }), 422, "weak_password");
  });

  test("PUT /admin/users/:id merges metadata and deletes keys set to null", async () => {
    const { id } = await newAccount({ app_metadata: { a: 1, b: 2 }, user_metadata: { c: 3, d: 4 } });
    const user = expectOk(await update(id, { app_metadata: { b: null, x: [] }, user_metadata: { d: null, y: {} } }));
    expect(user.app_metadata).toEqual({ provider: "email", providers: ["email"], a: 1, x: [] });
    expect(user.user_metadata).toEqual({ email_verified: true, c: 3, y: {} });
  });

  test("PUT /admin/users/:id bans a user and lifts the ban", async () => {
    const { id, email } = await newAccount();
    expect(expectOk(await update(id, { ban_duration: "876000h" }))).toHaveProperty("banned_until");
    const answer = await call("POST /token?grant_type=password", { body: { email, password } });
    expectRefusal(answer, 400, "user_banned");
    expect(expectOk(await update(id, { ban_duration: "none" }))).not.toHaveProperty("banned_until");
    await signIn({ email });
  });

  test("PUT /admin/users/:id refuses an invalid ban_duration with 400 validation_failed", async () => {
    const { id } = await newAccount();
    expectRefusal(await update(id, { ban_duration: "a week" }), 400, "validation_failed");
  });

  test("PUT /admin/users/:id confirms an email with email_confirm true, and never unconfirms one with false", async () => {
    const { id } = await newAccount({ email_confirm: false });
    expect(expectOk(await update(id, { email_confirm: true }))).toHaveProperty("email_confirmed_at");
    expect(expectOk(await update(id, { email_confirm: false }))).toHaveProperty("email_confirmed_at");
  });

  test("PUT /admin/users/:id changes the role in access tokens", async () => {
    const { id, email } = await newAccount();
    expectOk(await update(id, { role: "staff" }));
    expect((await signIn({ email })).claims.role).toBe("staff");
  });

  test("PUT /admin/users/:id changes nothing if the body is empty", async () => {
    const { id, email } = await newAccount({ app_metadata: { a: 1 } });
    expect(expectOk(await update(id, {}))).toMatchObject({ email, app_metadata: { a: 1 } });
  });
});

describe("DELETE /admin/users/:id", () => {
  test("DELETE /admin/users/:id deletes the account, its identities and sessions, and frees the email", async () => {
    const { account, accessToken } = await newSession();
    expect(expectOk(await admin(`DELETE /admin/users/${account.id}`))).toEqual({});
    expectRefusal(await admin(`GET /admin/users/${account.id}`), 404, "user_not_found");
    expectRefusal(await call("GET /user", { bearer: accessToken }), 403, "user_not_found");
    expect(await sql("select from auth.identities where user_id = $1", [account.id])).toHaveLength(0);
    await newAccount({ email: account.email });
  });

  test("deleting a user twice returns 404 user_not_found the second time", async () => {
    const { id } = await newAccount();
    expectOk(await admin(`DELETE /admin/users/${id}`, { body: { should_soft_delete: false } }));
    expectRefusal(await admin(`DELETE /admin/users/${id}`), 404, "user_not_found");
  });

  test("soft-deleting a user keeps the row without personal data, ends sessions and frees the email", async () => {
    const { account, accessToken } = await newSession({ user_metadata: { name: "N" }, app_metadata: { a: 1 } });
    const path = `DELETE /admin/users/${account.id}`;
    expect(expectOk(await admin(path, { body: { should_soft_delete: true } }))).toEqual({});
    const user = await read(account.id);
    expect(user).toMatchObject({ deleted_at: expect.any(String), user_metadata: {}, app_metadata: {} });
    expect(user.email).not.toContain("@");
    expect(user).toMatchObject({ new_email: expect.any(String), new_phone: expect.stringMatching(/^[\w-]{15}$/) });
    expect(user.identities[0]).not.toHaveProperty("identity_data");
    expectRefusal(await call("GET /user", { bearer: accessToken }), 403, "session_not_found");
    await newAccount({ email: account.email });
    expectOk(await admin(path, { body: { should_soft_delete: true } }));
    expect((await read(account.id)).deleted_at).toBe(user.deleted_at);
  });

  test("soft-deleting a user invalidates emailed tokens", async () => {
    const { id, email } = await newAccount();
    expectOk(await call("POST /recover", { body: { email } }));
    const { tokenHash } = await nextMail(email);
    expectOk(await admin(`DELETE /admin/users/${id}`, { body: { should_soft_delete: true } }));
    const answer = await call("POST /verify", { body: { type: "recovery", token_hash: tokenHash } });
    expectRefusal(answer, 403, "otp_expired");
  });
});
