import { Socket } from "node:net";
import pg from "pg";
import { GatewayError } from "../http/errors.ts";
import { startTimeLimit } from "../http/time-limit.ts";

/** Maximum number of statements that wait for a connection. More are refused. */
const maxWaiting = 1_000;
/**
 * A host that accepts no connection within this time is down. One that accepts it may be slow after that. The time is
 * counted in parts, between which sockets are read, so that a busy process does not take a host for down.
 */
const reachPartMs = 250;
const reachParts = 4;
/** Idle connections are kept for a while, because each new Postgres backend must plan every statement again. */
const idleConnectionMs = 60_000;
/**
 * How long a call waits for a slow database before it is refused. Clients wait about as long. The sweep, which closes
 * runs without a heartbeat for 45 s, and the lookups of orphaned runs allow for it.
 */
export const databaseWaitMs = 20_000;
/** Longer than any statement timeout of the gateway's database role. */
export const answerTimeoutMs = 12_000;
const pingTimeoutMs = 2_000;
/** Messages of errors that are due to load: pg-pool's own when no connection becomes free, and ours. */
const noFreeConnection = "timeout exceeded when trying to connect";
const noAnswer = "The statement was not answered in time.";
/**
 * SQLSTATEs of statements that Postgres rolled back because others held what they waited for: lock_not_available,
 * query_canceled, deadlock_detected and serialization_failure (PostgreSQL, Appendix A).
 */
const contentionErrors: ReadonlySet<unknown> = new Set(["55P03", "57014", "40P01", "40001"]);
/**
 * invalid_sql_statement_name and duplicate_prepared_statement. The statement was not executed (PostgreSQL, Appendix A).
 */
const preparedNameErrors: ReadonlySet<unknown> = new Set(["26000", "42P05"]);
/**
 * The errors of a statement that ran while a migration replaced or dropped what its function uses: class 42,
 * feature_not_supported and internal_error (PostgreSQL, Appendix A). Postgres rolled it back, and a second one finds the
 * new definitions.
 */
const replacedDefinition = /^(?:42...|0A000|XX000)$/;
/**
 * read_only_sql_transaction (PostgreSQL, Appendix A), with which a standby refuses writes: the connection leads to a
 * former primary. Postgres rolled the statement back.
 */
const standbyError = "25006";
/**
 * protocol_violation and internal_error, which poolers send when they have lost the server (PgBouncer, Supavisor), and
 * crash_shutdown (PostgreSQL, Appendix A). Each of these codes means a lost server only if the error's severity is FATAL.
 */
const lostServerErrors: ReadonlySet<unknown> = new Set(["08P01", "XX000", "57P02"]);

/** The gateway's connections to its database. */
export type Connections = ReturnType<typeof createConnections>;

/**
 * Creates a connection pool that connects on the first call. Each statement is its own transaction, so any pooler
 * works.
 */
export function createConnections({
  url,
  connections = 8,
  waitMs = databaseWaitMs,
}: {
  url: string;
  connections?: number;
  waitMs?: number | undefined;
}) {
  const pool = new pg.Pool({
    connectionString: url,
    max: connections,
    connectionTimeoutMillis: waitMs,
    stream: openSocket,
    idleTimeoutMillis: idleConnectionMs,
    application_name: "gatehouse-gateway",
  });
  // Ignores errors of idle connections. A broken connection is replaced when it is needed, and a running statement
  // fails by itself.
  pool.on("error", () => {});
  /** The connections that may be used. Those opened before a primary turned out to be a standby are replaced. */
  let current = new WeakSet<pg.PoolClient>();
  pool.on("connect", (client) => {
    client.on("error", () => {});
    current.add(client);
  });
  let usesNames = true;

  async function connect(): Promise<pg.PoolClient> {
    for (;;) {
      const client = await pool.connect();
      if (current.has(client)) return client;
      client.release(true);
    }
  }

  /**
   * Runs one statement. An error about a missing or duplicate prepared statement means that the connection goes through
   * a transaction pooler. From then on, this process sends statements without names.
   */
  async function query(client: pg.PoolClient, text: string, argument: string): Promise<string> {
    const isNamed = usesNames;
    try {
      // Uses the text as the name, so that a name never refers to a different statement.
      const name = isNamed ? text : undefined;
      const { rows } = await client.query<[string | null]>({ name, text, values: [argument], rowMode: "array" });
      return rows[0]?.[0] ?? "";
    } catch (error) {
      if (!isNamed || !preparedNameErrors.has((error as { code?: unknown }).code)) throw error;
      usesNames = false;
      return query(client, text, argument);
    }
  }

  /**
   * Runs a statement. Keeps its connection only if Postgres answered with a result or with an error that leaves the
   * session usable.
   */
  async function ask(text: string, argument: string, limitMs: number): Promise<string> {
    const client = await connect();
    let isReleased = false;
    function release(isClosed: boolean): void {
      if (!isReleased) client.release(isClosed);
      isReleased = true;
    }
    let isLate = false;
    const limit = startTimeLimit(limitMs, () => {
      isLate = true;
      release(true);
    });
    try {
      const answer = await query(client, text, argument);
      release(false);
      return answer;
    } catch (error) {
      // Keeps the connection after an ERROR, but not after FATAL or PANIC. If the server translates severities, the
      // connection is replaced after any error.
      // A connection from before the last standby was noticed says nothing about those opened since.
      if (isStandby(error) && current.has(client)) current = new WeakSet();
      release(!(error instanceof pg.DatabaseError && error.severity === "ERROR"));
      throw isLate ? new Error(noAnswer, { cause: error }) : error;
    } finally {
      limit.end();
    }
  }

  return {
    /**
     * Calls a database function that takes JSON, in one round trip.
     * @param limitMs time limit for the answer, not counting the wait for a connection
     * @throws GatewayError `service_unavailable` for every failure, with its cause
     */
    async call(name: string, argument: object, limitMs = answerTimeoutMs): Promise<string> {
      if (pool.waitingCount >= maxWaiting) throw new GatewayError("service_unavailable");
      const statement = `select ${name}($1)::text`;
      const json = JSON.stringify(argument);
      try {
        return await ask(statement, json, limitMs).catch((error: unknown) => {
          if (!isDefinitionReplaced(error) && !isStandby(error)) throw error;
          return ask(statement, json, limitMs);
        });
      } catch (cause) {
        throw new GatewayError("service_unavailable", { cause });
      }
    },
    /** Resolves if Postgres answers. @throws GatewayError `service_unavailable` with its cause */
    async ping(): Promise<void> {
      try {
        await ask("select $1::text", "", pingTimeoutMs);
      } catch (cause) {
        throw new GatewayError("service_unavailable", { cause });
      }
    },
    close: () => pool.end(),
  };
}

function isStandby(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === standbyError;
}

function isDefinitionReplaced(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.severity === "ERROR" && replacedDefinition.test(error.code ?? "");
}

/** Opens a socket for a connection. Destroys it if the host does not accept the connection in time. */
function openSocket(): Socket {
  const socket = new Socket();
  let partsLeft = reachParts;
  const limit = startTimeLimit(reachPartMs, () => {
    partsLeft -= 1;
    if (partsLeft > 0) limit.restart(reachPartMs);
    else socket.destroy(new Error("The database's host was not reached."));
  });
  return socket.once("connect", limit.end).once("close", limit.end);
}

/** Returns the error of a call whose statement did not answer in time, but may still be executed until it has ended. */
export function unansweredError(statementEnd?: Promise<void>): GatewayError {
  return new GatewayError("service_unavailable", { cause: new UnansweredError(noAnswer, statementEnd) });
}

class UnansweredError extends Error {
  readonly statementEnd: Promise<void> | undefined;
  constructor(message: string, statementEnd: Promise<void> | undefined) {
    super(message);
    this.statementEnd = statementEnd;
  }
}

/** Returns a promise that resolves when the statement of an unanswered call has ended; undefined if it has ended. */
export function getStatementEnd(error: unknown): Promise<void> | undefined {
  return error instanceof GatewayError && error.cause instanceof UnansweredError ? error.cause.statementEnd : undefined;
}

/** Returns whether Postgres rolled back the statement because it waited too long for others. A retry may succeed. */
export function isContended(error: unknown): boolean {
  return contentionErrors.has(sqlState(error));
}

/**
 * Returns whether Postgres itself reported the error and so has rolled back the statement. Returns false if the
 * connection to Postgres was lost, because Postgres may have committed the statement.
 */
export function wasRolledBack(error: unknown): boolean {
  const state = sqlState(error);
  return state !== undefined && !(lostServerErrors.has(state) && isConnectionLost(error));
}

/** Returns whether the statement got no answer. Postgres may or may not have executed the statement. */
export function isUnanswered(error: unknown): boolean {
  return error instanceof GatewayError && error.cause !== undefined && !wasRolledBack(error);
}

/**
 * Returns whether a call failed because its caller's account could not be read: Postgres was unreachable, or failed
 * inside `ai.user_callers`. Returns false for overload, and for errors of what the call does after that.
 */
export function isAccountUnreadable(error: unknown): boolean {
  const cause = error instanceof GatewayError ? error.cause : undefined;
  if (!(cause instanceof Error)) return false;
  if (!(cause instanceof pg.DatabaseError)) return cause.message !== noFreeConnection && cause.message !== noAnswer;
  // Class 53 is Insufficient Resources, such as too_many_connections (PostgreSQL, Appendix A).
  if (cause.severity !== "ERROR") return !cause.code?.startsWith("53");
  return /\buser_callers\(/.test(cause.where ?? "");
}

/** Returns the SQLSTATE that Postgres or a pooler reported; undefined for any other error. */
export function sqlState(error: unknown): string | undefined {
  if (!(error instanceof GatewayError && error.cause instanceof pg.DatabaseError)) return undefined;
  return error.cause.code ?? "";
}

/**
 * Returns whether Postgres or a pooler refused or closed the connection, or it led to a standby, none of which a
 * statement causes.
 */
export function isConnectionLost(error: unknown): boolean {
  if (!(error instanceof GatewayError && error.cause instanceof pg.DatabaseError)) return false;
  return error.cause.severity === "FATAL" || isStandby(error.cause);
}
