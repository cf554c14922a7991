import { type Connections, sqlState } from "../_gateway/database/connections.ts";

/** How long an answer is used again, so that frequent requests cost the database nothing. */
const reuseMs = 1_000;

/**
 * Creates the check of whether calls can be served: the database answers, and a provider is configured.
 * @returns a function that returns undefined or, in plain words, what is missing. Concurrent callers share one check.
 */
export function createReadiness({
  connections,
  providers,
  now,
  report,
}: {
  connections: Pick<Connections, "ping">;
  providers: ReadonlyMap<string, unknown>;
  now: () => number;
  report: (error: unknown) => void;
}): () => Promise<string | undefined> {
  let checkedAt = Number.NEGATIVE_INFINITY;
  let checking: Promise<string | undefined> = Promise.resolve(undefined);

  async function check(): Promise<string | undefined> {
    if (providers.size === 0) return "No model provider is configured.";
    try {
      await connections.ping();
      return undefined;
    } catch (error) {
      report(error instanceof Error ? error.cause : error);
      const state = sqlState(error);
      return state ? `The database refuses the connection (SQLSTATE ${state}).` : "The database does not answer.";
    }
  }

  return () => {
    if (now() - checkedAt >= reuseMs) {
      checkedAt = Number.POSITIVE_INFINITY;
      checking = check().finally(() => {
        checkedAt = now();
      });
    }
    return checking;
  };
}
