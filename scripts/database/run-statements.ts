import { messageOf } from "@gatehousehq/local-stack/errors";
import pg from "pg";
import { placeOf, type Source } from "./schema-files.ts";

export type Failure<T> = { statement: T; error: unknown };

/**
 * Runs statements that may depend on each other, in the given order where possible. Retries failed statements after the
 * others, until a whole pass has no success. Requires an open transaction.
 * @returns the statements in the order that worked, and those that never did
 */
export async function runInWorkingOrder<T extends { text: string }>(
  client: pg.Client,
  statements: readonly T[],
): Promise<{ done: T[]; failures: Failure<T>[] }> {
  const done: T[] = [];
  let waiting = [...statements];
  for (;;) {
    const failures: Failure<T>[] = [];
    for (const statement of waiting) {
      const error = await tryStatement(client, statement.text);
      if (error === undefined) done.push(statement);
      else failures.push({ statement, error });
    }
    if (failures.length === 0 || failures.length === waiting.length) return { done, failures };
    waiting = failures.map(({ statement }) => statement);
  }
}

/** Runs one statement and undoes it if it fails. @returns the error */
async function tryStatement(client: pg.Client, text: string): Promise<unknown> {
  await client.query("savepoint attempt");
  try {
    await client.query(text);
    await client.query("release savepoint attempt");
    return undefined;
  } catch (error) {
    await client.query("rollback to savepoint attempt; release savepoint attempt");
    return error;
  }
}

/** Describes the failure of a statement in `supabase/schemas/`, with its file and line. */
export function describeFailure({ statement, error }: Failure<Source>): string {
  const database = error instanceof pg.DatabaseError ? error : undefined;
  const position = Number(database?.position ?? 0);
  const before = position > 0 ? [...statement.text].slice(0, position - 1).join("").length : undefined;
  const code = database?.code ? ` (SQLSTATE ${database.code})` : "";
  return [`${placeOf(statement, before)}: ${messageOf(error)}${code}`, ...hintsFor(database)].join("\n");
}

function hintsFor(error: pg.DatabaseError | undefined): string[] {
  const isMissing = ["42P01", "42703", "42704", "3F000"].includes(error?.code ?? "");
  return [
    ...(error?.detail ? [`Detail: ${error.detail}`] : []),
    ...(error?.hint ? [`Hint: ${error.hint}`] : []),
    ...(isMissing ? [byMigration] : []),
  ];
}

/** Advice for a table, column or type that does not exist. */
export const byMigration =
  "Tables, columns and types come from supabase/migrations/: write that migration by hand first, or correct the name.";
