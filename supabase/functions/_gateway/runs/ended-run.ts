import type { Attempt } from "../../_shared/attempt.ts";
import type { TokenCounts } from "../../_shared/money.ts";
import type { Run } from "../database/database.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import type { Outcome, Step } from "./settlements.ts";

/** A step with its provider attempt, if any. Times are milliseconds of the gateway's clock. */
export type TracedStep = Pick<Step, "type" | "name" | "status"> & {
  startedAt: number;
  endedAt: number;
  attempt?: Attempt;
  usage?: TokenCounts;
  servedTier?: string;
};

/** The data that telemetry receives about a run. Never contains requests, answers or credentials. */
export type EndedRun = {
  requestId: string;
  path: string;
  feature: string;
  run: Pick<Run, "run_id" | "workspace_id" | "model" | "routes" | "key_name">;
  request: Pick<ParsedRequest, "stream" | "outputLimit" | "choices">;
  outcome: Pick<
    Outcome,
    | keyof TokenCounts
    | "status"
    | "http_status"
    | "error_code"
    | "usage_source"
    | "route"
    | "served_tier"
    | "marks"
    | "first_byte_ms"
  >;
  steps: readonly TracedStep[];
  attempts: readonly Attempt[];
  startedAt: number;
  endedAt: number;
};
