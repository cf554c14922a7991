import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
} from "kysely";
import pg from "pg";

const countingCommands = new Set(["INSERT", "UPDATE", "DELETE", "MERGE"]);

/** Thrown if the database cannot be reached, or if the connection broke during use, so that the outcome is unknown. */
export class ConnectionLostError extends Error {
  constructor(cause: unknown) {
    super("The connection to the database is lost", { cause });
  }
}

/**
 * Creates a Kysely dialect on a `pg` pool. Supabase Lite's default driver, postgres.js, encodes JSON arguments twice.
 * It also crashes the process if a connection breaks during a transaction, because it writes to the closed socket.
 */
export function poolDialect(pool: pg.Pool): Dialect {
  return {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new PoolDriver(pool),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  };
}

class PoolDriver implements Driver {
  private readonly pool: pg.Pool;

  constructor(pool: pg.Pool) {
    this.pool = pool;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<PoolConnection> {
    try {
      return new PoolConnection(await this.pool.connect());
    } catch (error) {
      throw new ConnectionLostError(error);
    }
  }

  async beginTransaction(connection: PoolConnection): Promise<void> {
    connection.begin();
  }

  async commitTransaction(connection: PoolConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw("commit"));
  }

  /**
   * Never throws, so that it cannot hide the error that caused the rollback. A connection that cannot roll back is
   * closed.
   */
  async rollbackTransaction(connection: PoolConnection): Promise<void> {
    await connection.rollback();
  }

  async releaseConnection(connection: PoolConnection): Promise<void> {
    connection.release();
  }

  async destroy(): Promise<void> {
    await this.pool.end();
  }
}

class PoolConnection implements DatabaseConnection {
  private readonly client: pg.PoolClient;
  private isLost = false;
  private beginning = false;

  constructor(client: pg.PoolClient) {
    this.client = client;
    client.on("error", this.onError);
  }

  private readonly onError = () => {
    this.isLost = true;
  };

  /** BEGIN is sent with the first statement, in the same message if that statement has no parameters. */
  begin(): void {
    this.beginning = true;
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    if (this.isLost) throw new ConnectionLostError(undefined);
    const begins = this.beginning;
    this.beginning = false;
    try {
      if (begins && parameters.length > 0) await this.client.query("begin");
      const results = await this.client.query(begins && parameters.length === 0 ? `begin; ${sql}` : sql, [
        ...parameters,
      ]);
      // For several statements, `pg` returns an array with one result for each.
      const { rows, command, rowCount } = [results].flat().at(-1) as pg.QueryResult;
      return countingCommands.has(command) ? { rows, numAffectedRows: BigInt(rowCount ?? 0) } : { rows };
    } catch (error) {
      if (error instanceof pg.DatabaseError) throw error;
      this.isLost = true;
      throw new ConnectionLostError(error);
    }
  }

  async rollback(): Promise<void> {
    if (this.isLost) return;
    await this.client.query("rollback").catch(this.onError);
  }

  release(): void {
    this.client.off("error", this.onError);
    this.client.release(this.isLost);
  }

  // biome-ignore lint/correctness/useYield: the interface asks for it, and nothing here streams
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error("Answers are not streamed from the database");
  }
}
