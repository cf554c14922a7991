import type { Attempt } from "../../_shared/attempt.ts";
import type { TokenCounts } from "../../_shared/money.ts";
import type { RunEnd } from "../runs/run.ts";
import type { UsageSource } from "../runs/settlements.ts";
import type { Step } from "../runs/steps.ts";

/** A step, with what its provider call used where it was one. Times are milliseconds of the gateway's clock. */
export type TracedStep = Pick<Step, "type" | "name" | "status"> & {
  startedAt: number;
  endedAt: number;
  route?: number;
  /** Of a request to a provider. */
  attempt?: Attempt;
  usage?: TokenCounts;
};

/** What telemetry is told of a run: no more than its row says. Never what was asked or answered, nor any credential. */
export type EndedRun = {
  runId: string;
  requestId: string;
  workspaceId: string;
  path: string;
  feature: string;
  model: string;
  streamed: boolean;
  outputLimit: number;
  choices: number;
  routes: readonly { position: number; provider: string; model: string }[];
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
};

/** What telemetry is told of a call, admitted or not. */
export type EndedRequest = {
  method: string;
  /** The pattern of the route; absent where there is none, since paths can hold anything. */
  route?: string;
  requestId: string;
  status: number;
  code?: string;
  latencyMs: number;
};

/** Whoever watches. Off unless the environment says otherwise. */
export type Telemetry = {
  run?: (run: EndedRun) => void;
  request?: (request: EndedRequest) => void;
};
