import { afterAll, beforeAll, describe } from "vitest";
import { type RunningServer, type Surroundings, startServer } from "./servers.ts";

const surroundings = process.env.IDENTITY_SURROUNDINGS;

/**
 * Cases against a second server with other settings, on the same database. Where the suite faces a server that it
 * did not start, there is no second one, and no such cases.
 */
export function describeVariant(name: string, changes: Record<string, string>, cases: (url: () => string) => void) {
  if (!surroundings) return;
  describe(name, () => {
    let server: RunningServer | undefined;
    beforeAll(async () => {
      server = await startServer(JSON.parse(surroundings) as Surroundings, changes);
    }, 30_000);
    afterAll(() => server?.stop());
    cases(() => server?.url ?? "");
  });
}
