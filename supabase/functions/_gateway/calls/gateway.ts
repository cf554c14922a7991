import type { createRunStarter } from "../admission/begin-runs.ts";
import type { CallerReader } from "../admission/labels.ts";
import type { RefusedCalls } from "../admission/refused-calls.ts";
import type { GatewayDatabase } from "../database/database.ts";
import type { EnvelopeWatch } from "../envelopes/envelope-watch.ts";
import type { WaitingCalls } from "../envelopes/waiting-calls.ts";
import type { BodyReader } from "../http/body.ts";
import type { Cooldowns } from "../providers/cooldowns.ts";
import type { TimeLimits } from "../providers/limits.ts";
import type { RunServices } from "../runs/run.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";

/** The services that the gateway's handlers depend on. */
export type Gateway = RunServices &
  CallerReader & {
    database: GatewayDatabase;
    /**
     * Begins a run. If the database never answers, looks the run up in the background and ends it, which
     * `database.beginRun` does not do.
     */
    beginRun: ReturnType<typeof createRunStarter>;
    refusedCalls: RefusedCalls;
    /** Returns whether a request has one of the project's secret keys, as those of our own web server have. */
    isWebServer: (request: Request) => boolean;
    watchEnvelope: EnvelopeWatch["watch"];
    /** Aborts when the process stops. Waiting then ends. */
    stopping: AbortSignal;
    /** Waits until an envelope may have room for a call that it refused. */
    waitForEnvelope: WaitingCalls;
    /** The routes that this process has set aside after failures. */
    cooldowns: Cooldowns;
    limits: TimeLimits;
    readBody: BodyReader;
    telemetry: Telemetry;
  };
