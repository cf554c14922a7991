import type { Attempt } from "../../_shared/attempt.ts";
import type { TokenCounts } from "../../_shared/money.ts";
import type { RunRoute } from "../database.ts";
import type { RunEnd } from "../runs/run.ts";
import type { Step, UsageSource } from "../runs/settlements.ts";
import type { UsageMark } from "../usage/usage.ts";

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
  runId: string;
  requestId: string;
  workspaceId: string;
  /** Absent if the caller does not use a key. */
  keyName?: string;
  path: string;
  feature: string;
  model: string;
  streamed: boolean;
  outputLimit: number;
  choices: number;
  routes: readonly RunRoute[];
  /** The position of the route that answered. */
  route?: number;
  steps: readonly TracedStep[];
  attempts: readonly Attempt[];
  startedAt: number;
  endedAt: number;
  firstByteMs?: number;
  status: RunEnd["status"];
  httpStatus: number;
  errorCode?: string;
  usageSource: UsageSource;
  usage: TokenCounts;
  servedTier?: string;
  marks?: readonly UsageMark[];
};

/** The data that telemetry receives about a call, whether or not it was admitted. */
export type EndedRequest = {
  method: string;
  /**
   * The pattern of the matched route. Absent if no route matched. The path itself is never included, because an unknown
   * path can contain anything.
   */
  route?: string;
  requestId: string;
  status: number;
  code?: string;
  latencyMs: number;
};

/** Receives ended calls and runs. Environment variables decide which are logged and traced. */
export type Telemetry = {
  run?: (run: EndedRun) => void;
  request?: (request: EndedRequest) => void;
};
