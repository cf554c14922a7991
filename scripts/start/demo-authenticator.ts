import { randomUUID } from "node:crypto";
import { Secret } from "otpauth";
import type pg from "pg";
import type { Secrets } from "./secrets.ts";

const secretBytes = 20;

/**
 * Adds an authenticator to a demo account that has none, so that people can open the console without enrolling one.
 * @param kept the key from an earlier start, reused so that authenticator apps still work with a new database cluster
 * @returns the key to keep, or undefined if the account has other authenticators instead
 */
export async function ensureAuthenticator(
  database: pg.Client,
  { userId, kept }: { userId: string; kept: Secrets["adminTotp"] },
): Promise<Secrets["adminTotp"]> {
  const totp = kept ?? { factorId: randomUUID(), secret: new Secret({ size: secretBytes }).base32 };
  await database.query(
    `insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, secret, created_at, updated_at)
     select $1, $2, 'Demo authenticator', 'totp', 'verified', $3, now(), now()
     where not exists (select from auth.mfa_factors f where f.user_id = $2)`,
    [totp.factorId, userId, totp.secret],
  );
  const { rowCount } = await database.query("select from auth.mfa_factors where id = $1 and user_id = $2", [
    totp.factorId,
    userId,
  ]);
  return rowCount === 1 ? totp : undefined;
}
