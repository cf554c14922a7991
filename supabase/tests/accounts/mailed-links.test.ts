import { expect } from "vitest";
import { admitted, anAttempt } from "../abuse/attempt-fixtures.ts";
import { createUser, one, test } from "../database.ts";

test.for([
  ["confirmation_token", "signup"],
  ["email_change_token_new", "email_change"],
  [null, "signup"],
  [null, "email_change"],
] as const)("find_mailed_link finds a link and completes the attempt (%s, %s)", async ([token, type], { db }) => {
  const user = await createUser(db);
  const hash = crypto.randomUUID();
  if (token !== null) {
    await db.query(
      "update auth.users set email_change = 'new@example.com', email_change_sent_at = now() where id = $1",
      [user.id],
    );
    await db.query(
      `insert into auth.one_time_tokens (id, user_id, token_type, token_hash, relates_to)
       values (gen_random_uuid(), $1, $2::auth.one_time_token_type, $3, 'test')`,
      [user.id, token, hash],
    );
  }
  const attemptId = await admitted(db, anAttempt({ action: "code" }));
  const found = await one(db, {
    sql: "select private.find_mailed_link($1, $2, $3) as link",
    values: [hash, type, attemptId],
  });
  const change =
    type === "email_change" ? expect.objectContaining({ newEmail: "new@example.com", mailbox: "new" }) : null;
  expect(found).toEqual({ link: token === null ? null : { email: user.email, change } });
  const again = "select private.complete_attempt($1, 'void') as completed";
  expect(await one(db, { sql: again, values: [attemptId] })).toEqual({ completed: false });
});
