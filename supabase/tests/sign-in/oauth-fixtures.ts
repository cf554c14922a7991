import { createHash, randomBytes, randomUUID } from "node:crypto";
import { type Database, one } from "../database.ts";

export interface NewIdentity {
  userId: string;
  provider?: string;
  email: string;
  verified?: boolean;
  /** When the identity was created, in seconds from now. */
  createdIn?: number;
}

/** Inserts an identity as the identity backend does. */
export async function createIdentity(db: Database, given: NewIdentity): Promise<string> {
  const { userId, provider = "google", email, verified = true, createdIn = 0 } = given;
  const subject = randomUUID();
  const data = { sub: subject, email, email_verified: verified, iss: `https://${provider}.example` };
  const row = await one<{ id: string }>(db, {
    sql: `insert into auth.identities
            (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
          values ($1, $2, $3, $4, now(), now() + $5::float8 * interval '1 second', now()) returning id`,
    values: [subject, userId, JSON.stringify(data), provider, createdIn],
  });
  return row.id;
}

/**
 * The result of a browser's visit to a provider. `stateHash` identifies our attempt. `code` and `challenge` identify
 * the identity backend's flow.
 */
export interface Visit {
  stateHash: string;
  code: string;
  challenge: string;
}

export interface VisitOptions {
  purpose?: "sign_in" | "reauthenticate" | "link";
  provider?: string;
  /** The account that began the attempt. Absent for a sign-in. */
  boundTo?: string;
  /** The account of the backend's flow. The flow found the account, created it, or linked the identity to it. */
  userId: string;
  /** The account that the backend linked to. */
  linkedTo?: string;
  /** What the backend did to the identity in the flow's transaction. */
  identity?: NewIdentity | { touched: string };
}

/**
 * Begins an attempt and completes the backend's flow. A savepoint gives the flow's rows a transaction id of their own,
 * as a separate transaction would.
 */
export async function visit(db: Database, options: VisitOptions): Promise<Visit> {
  const { purpose = "sign_in", provider = "google", boundTo, userId, linkedTo, identity } = options;
  const [stateHash, code, challenge] = [randomBytes(32).toString("hex"), randomUUID(), challengeOf(randomUUID())];
  const attempt = { stateHash, purpose, provider, userId: boundTo, sessionId: boundTo && randomUUID() };
  await db.query("select private.begin_oauth_attempt($1)", [JSON.stringify(attempt)]);
  await db.query("savepoint flow");
  if (identity && "touched" in identity) {
    await db.query("update auth.identities set updated_at = now() where id = $1", [identity.touched]);
  } else if (identity) {
    await createIdentity(db, identity);
  }
  await db.query(
    `insert into auth.flow_state (id, user_id, auth_code, code_challenge_method, code_challenge, provider_type,
       provider_access_token, provider_refresh_token, created_at, updated_at, authentication_method, linking_target_id)
     values (gen_random_uuid(), $1, $2, 's256', $3, $4, '', '', now(), now(), 'oauth', $5)`,
    [userId, code, challenge, provider, linkedTo ?? null],
  );
  await db.query("release savepoint flow");
  return { stateHash, code, challenge };
}

const challengeOf = (verifier: string) => createHash("sha256").update(verifier).digest("base64url");

/** Returns the result of a visit, as our server reads it. */
export async function inspect(db: Database, { stateHash, code, challenge }: Visit) {
  const { answer } = await one<{ answer: { flow: Record<string, unknown> | null } | null }>(db, {
    sql: "select private.inspect_oauth_attempt($1, $2, $3) as answer",
    values: [stateHash, code, challenge],
  });
  return answer;
}

/**
 * Completes a visit's OAuth attempt with a verdict.
 * @returns whether this call completed it
 */
export async function settle(
  db: Database,
  {
    stateHash,
    code,
    challenge,
    verdict,
  }: Omit<Visit, "code" | "challenge"> & {
    code: string | null;
    challenge: string | null;
    verdict: string;
  },
): Promise<boolean> {
  const { answer } = await one<{ answer: boolean }>(db, {
    sql: "select private.complete_oauth_attempt($1, $2, $3, $4) as answer",
    values: [stateHash, code, challenge, verdict],
  });
  return answer;
}
