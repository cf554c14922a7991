import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createUser, type Database, one, test } from "../database.ts";

type Mailbox = "current" | "new";
const hashOf = (side: Mailbox, userId: string) => `pkce_${side}${userId.replaceAll("-", "")}`;

/** Starts an email change by writing the same rows as the identity backend. */
async function begin(db: Database) {
  const { id: userId, email } = await createUser(db);
  const newEmail = `new-${email}`;
  await db.query(
    `update auth.users set email_change = $2, email_change_sent_at = now(), email_change_confirm_status = 0,
       email_change_token_current = $3, email_change_token_new = $4 where id = $1`,
    [userId, newEmail, hashOf("current", userId), hashOf("new", userId)],
  );
  for (const [side, address] of [
    ["current", email],
    ["new", newEmail],
  ] as const)
    await db.query(
      `insert into auth.one_time_tokens (id, user_id, token_type, token_hash, relates_to)
       values ($1, $2, $3::auth.one_time_token_type, $4, $5)`,
      [randomUUID(), userId, `email_change_token_${side}`, hashOf(side, userId), address],
    );
  return { userId, email, newEmail };
}

/** Confirms one mailbox as the backend does. */
async function agree(db: Database, { userId, side }: { userId: string; side: Mailbox }) {
  await db.query(
    `update auth.users set email_change_confirm_status = 1, email_change_token_${side} = '' where id = $1`,
    [userId],
  );
  await db.query("delete from auth.one_time_tokens where user_id = $1 and token_type::text = $2", [
    userId,
    `email_change_token_${side}`,
  ]);
}

const ask = (db: Database, call: string, argument: string) =>
  db.asRole("service_role", async () => {
    const row = await one(db, { sql: `select private.${call}($1) as answer`, values: [argument] });
    return row.answer;
  });

describe("an email change in progress", () => {
  test("shows an email change in progress with both addresses", async ({ db }) => {
    const { userId, email, newEmail } = await begin(db);
    expect(await ask(db, "pending_email_change", userId)).toMatchObject({ email, newEmail, agreed: null });
  });

  test.for(["current", "new"] as const)(
    "an email change reports that the %s mailbox has confirmed",
    async (side, { db }) => {
      const { userId } = await begin(db);
      await agree(db, { userId, side });
      expect(await ask(db, "pending_email_change", userId)).toMatchObject({ agreed: side });
      expect(await ask(db, "email_change_of_link", hashOf(side, userId))).toBe(null);
    },
  );

  test.for(["current", "new"] as const)(
    "an email change can be looked up by the link sent to the %s mailbox",
    async (mailbox, { db }) => {
      const { userId, email, newEmail } = await begin(db);
      expect(await ask(db, "email_change_of_link", hashOf(mailbox, userId))).toMatchObject({
        userId,
        mailbox,
        email,
        newEmail,
        agreed: null,
      });
    },
  );

  test("no email change is returned if none is in progress or its links are void", async ({ db }) => {
    const { id } = await createUser(db);
    expect(await ask(db, "pending_email_change", id)).toBe(null);
    const { userId } = await begin(db);
    await db.query("delete from auth.one_time_tokens where user_id = $1", [userId]);
    expect(await ask(db, "pending_email_change", userId)).toBe(null);
  });

  test("an email change can't be looked up by a link of another kind", async ({ db }) => {
    const { userId } = await begin(db);
    await db.query(
      `insert into auth.one_time_tokens (id, user_id, token_type, token_hash, relates_to)
       values ($1, $2, 'recovery_token', 'recovery-hash', 'x')`,
      [randomUUID(), userId],
    );
    expect(await ask(db, "email_change_of_link", "recovery-hash")).toBe(null);
  });
});

describe("cancel_email_change", () => {
  test("cancelling an email change works once, voids both links, deletes the new address, and leaves other links valid", async ({
    db,
  }) => {
    const { userId, email } = await begin(db);
    const other = await begin(db);
    await db.query(
      `insert into auth.one_time_tokens (id, user_id, token_type, token_hash, relates_to)
       values ($1, $2, 'recovery_token', $3, $4)`,
      [randomUUID(), userId, `recovery${userId}`, email],
    );
    expect(await ask(db, "cancel_email_change", userId)).toBe(true);
    expect(await ask(db, "cancel_email_change", userId)).toBe(false);
    expect(await ask(db, "pending_email_change", userId)).toBe(null);
    const tokens = await db.query("select token_type::text from auth.one_time_tokens where user_id = $1", [userId]);
    expect(tokens).toEqual([{ token_type: "recovery_token" }]);
    expect(await ask(db, "pending_email_change", other.userId)).toMatchObject({ newEmail: other.newEmail });
    const row = await one(db, {
      sql: "select email, email_change, email_change_confirm_status as status from auth.users where id = $1",
      values: [userId],
    });
    expect(row).toEqual({ email, email_change: "", status: 0 });
  });
});
