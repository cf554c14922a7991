import type { RouteMatch } from "../http/route-table.ts";
import type { RequestKind } from "./web-metrics.ts";

/** What metrics, logs and traces say about a request's route. */
export type MeasuredRoute = { kind: RequestKind; pattern?: string };

/** Returns what a request was for, and the pattern of its route. */
export function describeRoute(verdict: RouteMatch): MeasuredRoute {
  if (verdict.status === "not-found") return { kind: "not_found" };
  const pattern = verdict.status === "found" ? `/${verdict.pattern}` : undefined;
  const isApi = pattern?.startsWith("/api/");
  const kinds = {
    bearer: isApi ? "api" : "page",
    basic: "app",
    gateway: "gateway",
    client: isApi ? "api" : "oauth",
  } as const;
  return { kind: kinds[verdict.authorization], pattern };
}
