import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect } from "vitest";
import { failureOf } from "../actors.ts";
import { createUser, type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { age, anAttempt, begin, settle } from "./attempt-fixtures.ts";

const callers = 60;
const kinds = [
  { mail: "sign_up_mail", action: "sign_up", column: "confirmation_sent_at" },
  { mail: "confirmation_mail", action: "mail", column: "confirmation_sent_at" },
  { mail: "recovery_mail", action: "mail", column: "recovery_sent_at" },
  { mail: "email_change_mail", action: "credential", column: "email_change_sent_at" },
] as const;

/**
 * Begins an attempt to send an email.
 * @returns the seconds until the email may be sent, or null if it may be sent now
 */
async function waitOf(db: Database, changes: Parameters<typeof anAttempt>[0]): Promise<number | null> {
  const begun = await begin(db, anAttempt(changes));
  if (!begun.allowed) throw new Error(`refused: ${JSON.stringify(begun)}`);
  return begun.mailWaitSeconds;
}

async function sentAgo(db: Database, { column, seconds }: { column: string; seconds: number }) {
  const user = await createUser(db);
  await db.query(`update auth.users set ${column} = now() - make_interval(secs => $2) where id = $1`, [
    user.id,
    seconds,
  ]);
  return user;
}

describe("an email with a link", () => {
  test.for(kinds)(
    "an email of kind $mail is not sent again within three minutes of the last one",
    async ({ mail, action, column }, { db }) => {
      const young = await sentAgo(db, { column, seconds: 179 });
      const old = await sentAgo(db, { column, seconds: 180 });
      for (const [user, wait] of [
        [young, 1],
        [old, null],
      ] as const) {
        expect(await waitOf(db, { action, mail, email: user.email.toUpperCase() })).toBe(wait);
        await age(db, "30 seconds");
        const { email: _, ...byId } = anAttempt({ action, mail, userId: user.id });
        expect(await begin(db, byId)).toMatchObject({ allowed: true, mailWaitSeconds: wait });
      }
    },
  );

  test("an email with a link is sent even if an email of another kind was just sent", async ({ db }) => {
    const { email } = await sentAgo(db, { column: "recovery_sent_at", seconds: 0 });
    expect(await waitOf(db, { action: "mail", mail: "confirmation_mail", email })).toBeNull();
    expect(await waitOf(db, { action: "sign_up", mail: "sign_up_mail", email })).toBeNull();
    expect(await waitOf(db, { action: "mail", mail: "recovery_mail", email })).toBe(180);
  });

  test("sends at most one email with a link every 30 seconds, whether or not the account exists", async ({ db }) => {
    const { email: known } = await createUser(db);
    for (const email of [known, `${randomUUID()}@example.test`]) {
      const next = () => waitOf(db, { action: "mail", mail: "recovery_mail", email });
      expect(await next()).toBeNull();
      expect(await next()).toBe(30);
      await age(db, "29 seconds");
      expect(await next()).toBe(1);
      await age(db, "1 second");
      expect(await next()).toBeNull();
    }
  });

  test("an attempt whose email was not sent does not block the next email", async ({ db }) => {
    const attempt = anAttempt({ action: "mail", mail: "recovery_mail" });
    const begun = await begin(db, attempt);
    if (begun.allowed) await settle(db, begun.attemptId, "void");
    expect(await begin(db, attempt)).toMatchObject({ allowed: true, mailWaitSeconds: null });
    expect(await begin(db, attempt)).toMatchObject({ allowed: true, mailWaitSeconds: 30 });
  });

  test("an attempt to send an email with a link counts towards the rate limit even if no email is sent", async ({
    db,
  }) => {
    const attempt = anAttempt({ action: "mail", mail: "recovery_mail" });
    for (let made = 0; made < 5; made += 1) expect(await begin(db, attempt)).toMatchObject({ allowed: true });
    expect(await begin(db, attempt)).toMatchObject({ allowed: false, reason: "limited" });
  });

  test("an attempt to send an email may omit its kind, but can't have an unknown kind", async ({ db }) => {
    expect(await waitOf(db, { action: "mail" })).toBeNull();
    expect((await failureOf(() => begin(db, anAttempt({ action: "mail", mail: "failure" })))).code).toBe("22023");
  });

  test(`${callers} concurrent callers send only one email with a link`, async () => {
    const { db, close } = openPool(20);
    try {
      const { email } = anAttempt();
      const begun = await Promise.all(
        Array.from({ length: callers }, () =>
          begin(db, anAttempt({ action: "mail", mail: "recovery_mail", ...(email ? { email } : {}) })),
        ),
      );
      expect(begun.filter((answer) => answer.allowed && answer.mailWaitSeconds === null)).toHaveLength(1);
    } finally {
      await close();
    }
  });

  test("the database and the identity backend have the same minimum interval between emails with a link", async ({
    db,
  }) => {
    const { seconds } = await one<{ seconds: number }>(db, {
      sql: "select extract(epoch from private.mail_pause())::integer as seconds",
    });
    const [, minutes] = /^max_frequency = "(\d+)m"$/m.exec(readFileSync("supabase/config.toml", "utf8")) ?? [];
    expect(seconds).toBe(Number(minutes) * 60);
  });
});
