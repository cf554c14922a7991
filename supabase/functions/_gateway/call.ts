import type { Body } from "./http/body.ts";
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
  /** The memory of the body, if it is large. */
  body: Pick<Body, "keepOnly" | "resume"> | undefined;
  /** Whether another provider call may follow this one in the same run. */
  mayContinue?: boolean;
  usageLimits: UsageLimits;
  inputEstimate: CallCounts;
  /** The time by which the whole call must have ended, on the gateway's clock. */
  deadline: number;
};

/**
 * Drops the input of a request that was sent to a provider for the last time, so that a long answer doesn't keep it in
 * memory. Reading the answer needs only `stream_options`, and the names of the other members.
 */
export function forgetInput(asked: Asked): void {
  if (asked.request) asked.request = mapMembers(asked.request, withoutContent);
  if (asked.others) asked.others = mapMembers(asked.others, () => true);
}

function mapMembers(members: object, map: (value: unknown, name: string) => unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).map(([name, value]) => [name, map(value, name)]));
}

function withoutContent(value: unknown, name: string): unknown {
  if (Array.isArray(value)) return [];
  if (typeof value === "string") return "";
  return typeof value === "object" && name !== "stream_options" ? undefined : value;
}
