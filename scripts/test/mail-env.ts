import { Client } from "pg";
import { afterEach, beforeEach } from "vitest";
import { parseEnv } from "../../remix-app/config/env.server.ts";
import { readStack } from "./stack.ts";

const { base, supabase, mail } = readStack();

/**
 * Gives each test of a file exclusive use of the outbox. Only files that call this function wait for each other. A test
 * that sends its own email also sends every other email that is due. If its mail server is down, all of these emails
 * fail.
 */
export function lockOutbox(): void {
  let client: Client;
  beforeEach(async () => {
    client = new Client({ connectionString: supabase.dbUrl });
    await client.connect();
    await client.query("select pg_advisory_lock(hashtextextended('test.outbox', 0))");
  });
  afterEach(() => client.end());
}

/** Waits until the stack's own server has sent the emails that it may have claimed. */
export const afterStackServer = () => new Promise((resolve) => setTimeout(resolve, 500));

/**
 * Runs `work`, such as sending through a mail server that is down, while emails to all other recipients are locked.
 * Otherwise, a failed attempt would delay another test's email by minutes. Emails that were queued in the meantime could
 * not be locked, so they become due again.
 */
export async function whileOthersWait(recipient: string, work: () => Promise<void>): Promise<void> {
  const client = new Client({ connectionString: supabase.dbUrl });
  await client.connect();
  try {
    await client.query("begin");
    await client.query("select from private.outgoing_mails where recipient <> $1 for update skip locked", [recipient]);
    await work();
    await client.query("rollback");
    await client.query(
      `update private.outgoing_mails set attempts = 1, next_attempt_at = now()
       where recipient <> $1 and attempts = 2 and next_attempt_at > now() + interval '1 minute'`,
      [recipient],
    );
  } finally {
    await client.end();
  }
}

/** The environment of a program that sends emails through the test stack. */
export const mailEnv = parseEnv({
  NODE_ENV: "test",
  BASE_URL: base,
  SUPABASE_URL: supabase.url,
  SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
  SUPABASE_SECRET_KEY: supabase.secretKey,
  SMTP_URL: mail.smtp,
  MAIL_FROM: "Gatehouse <no-reply@gatehouse.test>",
});

/** Like `mailEnv`, but with a mail server that is down: port 9 is the discard port. */
export const mailEnvDown = { ...mailEnv, SMTP_URL: "smtp://127.0.0.1:9" };
