import { newAddress } from "../../../remix-app/testing/visitor.ts";
import { type Database, one } from "../database.ts";

export type Attempt = {
  action: string;
  address: string;
  email?: string;
  userId?: string;
  sessionId?: string;
  challenged?: boolean;
  /** Whether a recovery override of the email applies. */
  allowOverride?: boolean;
  mail?: string;
  code?: string;
};
export type AttemptAnswer =
  | {
      allowed: true;
      attemptId: string;
      needsBotChallenge: boolean;
      overrideId: string | null;
      repeated: boolean;
      mailWaitSeconds: number | null;
    }
  | { allowed: false; reason: "limited" | "blocked"; retryAfterSeconds: number };

/** Returns an attempt to sign in with an unused email address, from an unused IP address. */
export function anAttempt(changes: Partial<Attempt> = {}): Attempt {
  return { action: "password", address: newAddress(), email: `${crypto.randomUUID()}@example.test`, ...changes };
}

export async function begin(db: Database, attempt: Attempt): Promise<AttemptAnswer> {
  const row = await one<{ answer: AttemptAnswer }>(db, {
    sql: "select private.begin_attempt($1) as answer",
    values: [JSON.stringify(attempt)],
  });
  return row.answer;
}

/**
 * Begins an attempt that must be allowed.
 * @returns its id
 */
export async function admitted(db: Database, attempt: Attempt): Promise<string> {
  const begun = await begin(db, attempt);
  if (!begun.allowed) throw new Error(`refused: ${JSON.stringify(begun)}`);
  return begun.attemptId;
}

export async function settle(db: Database, attemptId: string, outcome: string): Promise<boolean> {
  const row = await one<{ settled: boolean }>(db, {
    sql: "select private.complete_attempt($1, $2) as settled",
    values: [attemptId, outcome],
  });
  return row.settled;
}

/**
 * Begins and settles an attempt.
 * @returns whether it was allowed
 */
export async function attemptOnce(db: Database, attempt: Attempt, outcome: string): Promise<boolean> {
  const begun = await begin(db, attempt);
  if (begun.allowed) await settle(db, begun.attemptId, outcome);
  return begun.allowed;
}

/** Matches only rows that this transaction wrote, so that a test does not change the counts of concurrent tests. */
export const ownRows = "pg_xact_status(xmin::text::xid8) = 'in progress'";

/** Backdates everything that this transaction has counted so far. */
export async function age(db: Database, interval: string): Promise<void> {
  const times = {
    rate_limits: ["full_at"],
    address_blocks: ["blocked_at", "blocked_until"],
    open_attempts: ["expires_at"],
    verified_addresses: ["verified_until"],
  };
  for (const [table, columns] of Object.entries(times)) {
    const changes = columns.map((column) => `${column} = ${column} - $1::interval`).join(", ");
    await db.query(`update private.${table} set ${changes} where ${ownRows}`, [interval]);
  }
}

/**
 * Passes an attempt to the identity backend's hook.
 * @returns whether the hook allows it
 */
export async function tellHook(
  db: Database,
  hook: "password_verification_attempt" | "mfa_verification_attempt",
  event: { userId: string; valid: boolean; address?: string | undefined },
): Promise<boolean> {
  const { userId, valid, address } = event;
  const metadata = { name: hook, ...(address === undefined ? {} : { ip_address: address }) };
  const row = await one<{ answer: { decision: string; message?: string } }>(db, {
    sql: `select private.${hook}($1) as answer`,
    values: [JSON.stringify({ metadata, user_id: userId, valid })],
  });
  return row.answer.decision === "continue";
}
