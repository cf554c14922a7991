import { createHmac, randomBytes, randomUUID } from "node:crypto";
import { Client, type QueryResultRow } from "pg";
import { test as base } from "vitest";
import { readStack } from "../../scripts/test/stack.ts";

/** The claims of a user's access token that the database reads. */
export type Claims = {
  sub: string;
  session_id: string;
  role: "authenticated";
  aal: string;
  amr: { method: string; timestamp: number }[];
  /** The proof of a mobile approval, which our server adds. The Data API takes it only from a header. */
  approval_proof?: string;
};

/** One transaction on the stack's database, rolled back by its test. */
export type Database = {
  /** Runs one statement as the current role, which is `postgres` outside `asUser` and `asRole`. */
  query<Row extends QueryResultRow = QueryResultRow>(sql: string, values?: unknown[]): Promise<Row[]>;
  /**
   * Runs `work` with the role, claims and headers that the Data API would set for this token. The headers default to
   * the approval's proof. An error undoes what `work` did.
   */
  asUser<Result>(
    claims: Claims,
    work: () => Promise<Result>,
    options?: { headers?: Record<string, string> },
  ): Promise<Result>;
  /** Runs `work` as another role without claims. */
  asRole<Result>(
    role: "anon" | "authenticated" | "service_role" | "gateway",
    work: () => Promise<Result>,
  ): Promise<Result>;
};

/**
 * A test with `db`: a transaction begun as role `postgres` and rolled back afterwards. Uses one connection per file.
 */
export const test = base.extend<{ $file: { client: Client }; $test: { db: Database } }>({
  client: [
    // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the fixtures it needs off the pattern
    async ({}, use) => {
      const client = new Client({ connectionString: readStack().supabase.dbUrl });
      await client.connect();
      await use(client);
      await client.end();
    },
    { scope: "file" },
  ],
  db: async ({ client }, use) => {
    await client.query("begin; set local search_path = ''");
    await use(databaseOn(client));
    await client.query("rollback");
  },
});

function databaseOn(client: Client): Database {
  async function asRole<Result>(role: string, work: () => Promise<Result>): Promise<Result> {
    await client.query("savepoint actor");
    try {
      await client.query(`set local role ${role}`).catch((cause) => {
        throw new Error(`cannot become ${role}`, { cause });
      });
      const result = await work();
      await client.query("reset role; release savepoint actor");
      return result;
    } catch (error) {
      // Undoes the role and the claims along with the work.
      await client.query("rollback to savepoint actor; release savepoint actor");
      throw error;
    }
  }

  return {
    async query(sql, values) {
      const { rows } = await client.query(sql, values);
      return rows;
    },
    asRole,
    asUser: (
      claims,
      work,
      { headers = claims.approval_proof ? { "x-mfa-approval": claims.approval_proof } : {} } = {},
    ) =>
      asRole("authenticated", async () => {
        await client.query(
          "select set_config('request.jwt.claims', $1, true), set_config('request.headers', $2, true)",
          [JSON.stringify(claims), JSON.stringify(headers)],
        );
        const result = await work();
        await client.query(
          "select set_config('request.jwt.claims', '', true), set_config('request.headers', '', true)",
        );
        return result;
      }),
  };
}

/** Runs a statement that must return exactly one row, and returns that row. */
export async function one<Row extends QueryResultRow>(
  db: Database,
  { sql, values }: { sql: string; values?: unknown[] },
): Promise<Row> {
  const [row, ...others] = await db.query<Row>(sql, values);
  if (row === undefined || others.length > 0) throw new Error(`not exactly one row: ${sql}`);
  return row;
}

/** Inserts an account as the identity backend does; triggers create its profile and workspace. */
export async function createUser(
  db: Database,
  { appMetadata = {}, userMetadata = {} }: { appMetadata?: object; userMetadata?: object } = {},
): Promise<{ id: string; email: string; personalWorkspaceId: string }> {
  const id = randomUUID();
  const email = `${id}@example.test`;
  await db.query(
    `insert into auth.users (id, aud, role, email, raw_app_meta_data, raw_user_meta_data)
     values ($1, 'authenticated', 'authenticated', $2, $3, $4)`,
    [id, email, JSON.stringify(appMetadata), JSON.stringify(userMetadata)],
  );
  const workspace = await one<{ id: string }>(db, {
    sql: "select id from public.workspaces where personal_user_id = $1",
    values: [id],
  });
  return { id, email, personalWorkspaceId: workspace.id };
}

/** Starts a session and returns its token's claims: AAL1 by password, or AAL2 if a factor is given. */
export async function signIn(
  db: Database,
  { userId, factorId }: { userId: string; factorId?: string | undefined },
): Promise<Claims> {
  const sessionId = randomUUID();
  const aal = factorId ? "aal2" : "aal1";
  await db.query("insert into auth.sessions (id, user_id, aal, factor_id, created_at) values ($1, $2, $3, $4, now())", [
    sessionId,
    userId,
    aal,
    factorId ?? null,
  ]);
  const second = await currentSecond(db);
  const amr = [{ method: "password", timestamp: second - 2 }];
  if (factorId) amr.unshift({ method: "totp", timestamp: second - 1 });
  return { sub: userId, session_id: sessionId, role: "authenticated", aal, amr };
}

/** Enrols an authenticator app. */
export async function enrollFactor(
  db: Database,
  { userId, status = "verified" }: { userId: string; status?: "verified" | "unverified" },
): Promise<string> {
  const id = randomUUID();
  await db.query(
    `insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, created_at, updated_at, secret)
     values ($1, $2, 'app ' || $1::uuid, 'totp', $3, now(), now(), 'secret')`,
    [id, userId, status],
  );
  return id;
}

/** Adds a person to a workspace with the given role. */
export async function join(
  db: Database,
  { workspaceId, userId, role }: { workspaceId: string; userId: string; role: string },
): Promise<void> {
  await db.query(
    `insert into public.workspace_members (workspace_id, user_id, role_id)
     select workspace_id, $2, id from public.workspace_roles where workspace_id = $1 and name = $3`,
    [workspaceId, userId, role],
  );
}

/** Adds the proof of a mobile approval to a session's claims, as our server does for a browser with its cookie. */
export function proveApproval(claims: Claims, proofKey: Uint8Array): void {
  const second = Math.floor(Date.now() / 1_000);
  const proof = createHmac("sha256", proofKey).update(`${claims.session_id} ${second}`).digest("hex");
  claims.approval_proof = `${second}.${proof}`;
}

/** Inserts a mobile approval bound to a session, and adds its proof to the claims. Times are in seconds since 1970. */
export async function bindApproval(
  db: Database,
  {
    claims,
    factorId,
    secondFactorAt,
    proofKey = randomBytes(32),
  }: { claims: Claims; factorId: string; secondFactorAt: number; proofKey?: Uint8Array },
): Promise<string> {
  proveApproval(claims, proofKey);
  const now = await currentSecond(db);
  const row = await one<{ id: string }>(db, {
    sql: `insert into private.login_challenges (
            kind, status, user_id, session_id, secret_hash, pair_code_hash, expires_at,
            approved_at, approver_session_id, approver_factor_id, second_factor_at,
            bound_session_id, bound_at, valid_until, proof_key
          ) values (
            'mfa_mobile', 'bound', $1, $2, $3, $3, now() + interval '5 minutes',
            to_timestamp(greatest($4::float8, $6::float8)), gen_random_uuid(), $5, to_timestamp($4::float8),
            $2, now(), to_timestamp($7::float8), $8
          ) returning id`,
    values: [
      claims.sub,
      claims.session_id,
      randomBytes(32),
      secondFactorAt,
      factorId,
      now,
      now + 3600,
      Buffer.from(proofKey),
    ],
  });
  return row.id;
}

/** Returns the transaction's time, in whole seconds since 1970. */
export async function currentSecond(db: Database): Promise<number> {
  const row = await one<{ second: number }>(db, {
    sql: "select floor(extract(epoch from now()))::float8 as second",
  });
  return row.second;
}
