import type pg from "pg";

/** A scheduled clean-up, with the SQL that expires rows for it. */
export type CleanUp = { what: string; expire: string; call: string };

export const cleanUps: readonly CleanUp[] = [
  {
    what: "clean-up: attempts",
    expire: `insert into private.rate_limits (subject, action, scope, full_at)
      select sha256(convert_to(n || random()::text, 'UTF8')), 'sign_in', 'account', now() - interval '1 hour'
      from generate_series(1, $1::integer) n`,
    call: "select private.delete_expired_attempts() as deleted",
  },
  {
    what: "clean-up: visits to identity providers",
    expire: `insert into private.oauth_attempts (state_hash, purpose, provider, created_at, expires_at)
      select sha256(convert_to(n || random()::text, 'UTF8')), 'sign_in', 'google', now() - interval '1 hour',
        now() - interval '55 minutes'
      from generate_series(1, $1::integer) n`,
    call: "select private.sweep_oauth_attempts() as deleted",
  },
  {
    what: "clean-up: idempotency keys",
    expire: `insert into ai.idempotency_keys (
        workspace_id, principal_id, key, fingerprint, state, run_created_at, run_id, expires_at
      )
      select w.id, w.id, n || random()::text, sha256('body'), 'finished', now(), gen_random_uuid(), now() - interval '1 hour'
      from (select id from public.workspaces limit 1) w, generate_series(1, $1::integer) n`,
    call: "select ai.delete_expired() as deleted",
  },
];

/** Expires rows, calls a clean-up until nothing is left, and returns the duration of its longest call in ms. */
export async function timeCleanUp(
  client: pg.Client,
  { cleanUp: { expire, call }, rows }: { cleanUp: CleanUp; rows: number },
): Promise<number> {
  await client.query(expire, [rows]);
  let longestMs = 0;
  for (let deleted = 1; deleted > 0; ) {
    const before = performance.now();
    const answer = await client.query<{ deleted: number }>(call);
    longestMs = Math.max(longestMs, performance.now() - before);
    deleted = answer.rows[0]?.deleted ?? 0;
  }
  return longestMs;
}
