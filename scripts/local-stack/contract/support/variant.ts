import { afterAll, beforeAll, describe } from "vitest";
import { type RunningServer, type Surroundings, startServer } from "./servers.ts";

const surroundings = process.env.IDENTITY_SURROUNDINGS
  ? (JSON.parse(process.env.IDENTITY_SURROUNDINGS) as Surroundings)
  : undefined;

type Cases = (url: () => string) => void;

/**
 * Cases against a second server with other settings, on the same database. Where the suite faces a server that it
 * did not start, there is no second one, and no such cases.
 */
export function describeVariant(name: string, changes: Record<string, string>, cases: Cases): void {
  if (!surroundings) return;
  describe(name, () => {
    let server: RunningServer | undefined;
    beforeAll(async () => {
      server = await startServer(surroundings, changes);
    }, 30_000);
    afterAll(() => server?.stop());
    cases(() => server?.url ?? "");
  });
}

/** As `describeVariant`, where the server can be told which verifier of bot challenges to ask. */
export function describePluggable(name: string, changes: Record<string, string>, cases: Cases): void {
  if (surroundings?.pluggableVerifier) describeVariant(name, changes, cases);
}
