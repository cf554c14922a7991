import { randomUUID } from "node:crypto";
import { hashSync } from "@node-rs/bcrypt";
import { expect, test } from "vitest";
import { newEmail, password, signIn } from "../support/accounts.ts";
import { sql } from "../support/database.ts";
import { admin, call, expectOk, expectRefusal } from "../support/http.ts";

const zero = "00000000-0000-0000-0000-000000000000";

/** Inserts a user as a seed script does. `changes` replaces fields, to make the mistakes that such scripts make. */
async function seed(changes: Record<string, string | null> = {}) {
  const user: Record<string, string | null> = {
    id: randomUUID(),
    instance_id: zero,
    aud: "authenticated",
    role: "authenticated",
    email: newEmail(),
    encrypted_password: hashSync(password, { cost: 5 }),
    email_confirmed_at: new Date().toISOString(),
    raw_app_meta_data: '{"provider":"email","providers":["email"]}',
    raw_user_meta_data: "{}",
    created_at: new Date().toISOString(),
    updated_at: new Date().toISOString(),
    confirmation_token: "",
    recovery_token: "",
    email_change: "",
    email_change_token_new: "",
    ...changes,
  };
  const columns = Object.keys(user);
  const places = columns.map((_column, index) => `$${index + 1}`);
  await sql(`insert into auth.users (${columns.join(", ")}) values (${places.join(", ")})`, Object.values(user));
  return { id: user.id ?? "", email: user.email ?? "" };
}

const grant = (email: string) => call("POST /token?grant_type=password", { body: { email, password } });

test("a seeded user with an instance_id of zeros and empty token columns can sign in", async () => {
  const { id, email } = await seed();
  expect((await signIn({ email })).user.id).toBe(id);
});

test.each([null, randomUUID()])("a seeded user with instance_id %s is invisible", async (instance_id) => {
  const { id, email } = await seed({ instance_id });
  expectRefusal(await grant(email), 400, "invalid_credentials");
  expectRefusal(await admin(`GET /admin/users/${id}`), 404, "user_not_found");
});

test.each(["confirmation_token", "recovery_token", "email_change", "email_change_token_new"])(
  "a seeded user with %s null causes a 500",
  async (column) => {
    const { email } = await seed({ [column]: null });
    expectRefusal(await grant(email), 500, "unexpected_failure");
    await sql(`update auth.users set ${column} = '' where email = $1`, [email]);
    expectOk(await grant(email));
  },
);
