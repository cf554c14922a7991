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

/** What the gateway's handlers depend on. */
export type Gateway = {
  /** The URL of the gateway's own `/v1` for callers, without a trailing slash. */
  url: string;
  database: GatewayDatabase;
  /** Used instead of `database.beginRun`: also releases runs whose begin was never answered. */
  beginRun: ReturnType<typeof createBegin>;
  providers: ReadonlyMap<string, Provider>;
  /** The routes set aside in this process. */
  cooldowns: Cooldowns;
  limits: TimeLimits;
  readBody: BodyReader;
  readCredential: CredentialReader;
  /** Returns the caller's address, as far as trusted proxies state it. */
  addressOf: (request: Request) => string | undefined;
  settlements: Settlements;
  openRuns: OpenRuns;
  /** Milliseconds of a monotonic clock. */
  now: () => number;
  waitUntil: (work: Promise<unknown>) => void;
  /** Receives defects and outages, never the content of requests or answers. */
  report: (error: unknown, requestId?: string) => void;
  telemetry: Telemetry;
};
