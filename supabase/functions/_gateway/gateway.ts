import type { createBegin } from "./admission/begin-runs.ts";
import type { CredentialReader } from "./admission/credentials.ts";
import type { GatewayDatabase } from "./database.ts";
import type { BodyReader } from "./http/body.ts";
import type { Cooldowns } from "./providers/cooldowns.ts";
import type { TimeLimits } from "./providers/limits.ts";
import type { Provider } from "./providers/provider-settings.ts";
import type { OpenRuns } from "./runs/open-runs.ts";
import type { Settlements } from "./runs/settlements.ts";
import type { Telemetry } from "./telemetry/ended-run.ts";

/** What the gateway's handlers work with. */
export type Gateway = {
  /** Where its own `/v1` is for callers, without a slash at its end. */
  url: string;
  database: GatewayDatabase;
  /** In place of the database's own: what begins unheard is given back. */
  beginRun: ReturnType<typeof createBegin>;
  providers: ReadonlyMap<string, Provider>;
  /** Which routes are set aside, in this process. */
  cooldowns: Cooldowns;
  limits: TimeLimits;
  readBody: BodyReader;
  readCredential: CredentialReader;
  /** Where a call comes from, as far as trusted proxies tell. */
  addressOf: (request: Request) => string | undefined;
  settlements: Settlements;
  openRuns: OpenRuns;
  /** Milliseconds of a clock that never goes back. */
  now: () => number;
  waitUntil: (work: Promise<unknown>) => void;
  /** Is told of defects and outages; never of what was asked or answered. */
  report: (error: unknown, requestId?: string) => void;
  telemetry: Telemetry;
};
