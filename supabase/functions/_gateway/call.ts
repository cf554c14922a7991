import type { Call } from "./http/router.ts";
import type { OpenRun } from "./runs/run.ts";
import type { Asked, Surface } from "./surface.ts";
import type { CallCounts, UsageLimits } from "./usage/usage.ts";

/** An admitted call, with its request and its run. */
export type AdmittedCall<Request extends Asked = Asked> = Pick<Call, "request" | "requestId"> & {
  surface: Surface<Request>;
  asked: Request;
  /** The model's name in the catalogue. */
  model: string;
  open: OpenRun;
  usageLimits: UsageLimits;
  inputEstimate: CallCounts;
  /** The time by which the whole call must have ended, on the gateway's clock. */
  deadline: number;
};
