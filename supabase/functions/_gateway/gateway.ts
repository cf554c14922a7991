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

/** The services that the gateway's handlers depend on. */
export type Gateway = {
  /** The public URL of the gateway's `/v1`, without a trailing slash. */
  url: string;
  database: GatewayDatabase;
  /**
   * Begins a run. If the database never answers, looks the run up in the background and ends it, which
   * `database.beginRun` does not do.
   */
  beginRun: ReturnType<typeof createBegin>;
  providers: ReadonlyMap<string, Provider>;
  /** The routes that this process has set aside after failures. */
  cooldowns: Cooldowns;
  limits: TimeLimits;
  readBody: BodyReader;
  readCredential: CredentialReader;
  /** Returns the caller's IP address, if trusted proxies state it. */
  addressOf: (request: Request) => string | undefined;
  settlements: Settlements;
  openRuns: OpenRuns;
  /** Returns the time of a monotonic clock in milliseconds. */
  now: () => number;
  waitUntil: (work: Promise<unknown>) => void;
  /** Receives defects and outages, never the content of requests or answers. */
  report: (error: unknown, requestId?: string) => void;
  telemetry: Telemetry;
};
