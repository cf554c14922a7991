import pg from "pg";
import { createFunctionCaller } from "./function-call.ts";
import { HeldConnection, learnWhoAnswers } from "./held-connection.ts";
import { GatewayError } from "./http/errors.ts";
import { keepConnection, takeFrom } from "./kept-connection.ts";

/** Statements that may wait for a connection before further ones are turned away. */
const maxWaiting = 500;
const connectTimeoutMs = 1_000;
/** A server process that is new takes some 60 ms to plan an admission, a batch and a settlement, each for the first time. */
const idleConnectionMs = 60_000;
const applicationName = "gatehouse-gateway";
/** Beyond what the role's own limits let a statement take. */
const answerTimeoutMs = 12_000;

/** How the gateway's database is asked. */
export type Connections = {
  /**
   * Calls a function with JSON, in one flight.
   * @param options.limitMs how long its answer may take
   * @param options.isAlone whether it comes by itself, one after another, so that one connection does for all of them
   * @param options.onTaken is told the connection as the statement is about to be sent
   * @throws GatewayError `service_unavailable` while the database cannot be had
   */
  call: (
    name: string,
    argument: object,
    options?: { limitMs?: number; isAlone?: boolean; onTaken?: (connection: HeldConnection) => void },
  ) => Promise<string>;
  close: () => Promise<void>;
};

/** Connects when first asked something. Any pooler can be in between; what a statement takes travels together. */
export function createConnections({ url, connections = 8 }: { url: string; connections?: number }): Connections {
  const pool = new pg.Pool({
    connectionString: url,
    max: connections,
    connectionTimeoutMillis: connectTimeoutMs,
    idleTimeoutMillis: idleConnectionMs,
    application_name: applicationName,
  });
  // A connection that breaks is replaced when next needed; the statement that is under way on it fails by itself.
  pool.on("error", () => {});
  pool.on("connect", (client) => {
    client.on("error", () => {});
    // One that ends meanwhile fails what it was connected for.
    learnWhoAnswers(client, applicationName).catch(() => {});
  });
  const functions = createFunctionCaller();
  const kept = keepConnection(pool);

  return {
    async call(name, argument, { limitMs = answerTimeoutMs, isAlone = false, onTaken } = {}) {
      if (pool.waitingCount >= maxWaiting) throw new GatewayError("service_unavailable");
      const json = JSON.stringify(argument);
      if (!isAlone) kept.lend();
      return orUnavailable(async () => {
        const connection = new HeldConnection(await (isAlone ? kept.take() : takeFrom(pool)), functions);
        onTaken?.(connection);
        return connection.ask(name, json, limitMs);
      });
    },
    close() {
      kept.close();
      return pool.end();
    },
  };
}

/** @throws GatewayError `service_unavailable`, with its cause, for whatever fails */
export async function orUnavailable(work: () => Promise<string>): Promise<string> {
  try {
    return await work();
  } catch (cause) {
    throw new GatewayError("service_unavailable", { cause });
  }
}

/** Whether a statement surely did nothing: what Postgres says about one, it says of one that it has rolled back. */
export function wasUndone(error: unknown): boolean {
  return error instanceof GatewayError && error.cause instanceof pg.DatabaseError;
}

/** Whether nobody knows what became of a statement that was sent: no answer came. */
export function isUnanswered(error: unknown): boolean {
  return error instanceof GatewayError && error.cause !== undefined && !wasUndone(error);
}
