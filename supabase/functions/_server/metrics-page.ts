import { readCallerAddress } from "../_gateway/admission/caller-address.ts";
import type { MetricsAccess } from "../_shared/metrics-access.ts";

/** Answers `GET /metrics`. Returns undefined if the path must look as if it did not exist. */
export type MetricsPage = (request: Request, info: { remoteAddress: string }) => Promise<Response | undefined>;

/**
 * Creates the page of this process's metrics.
 * @param trustedHops the number of proxies in front. A request without X-Forwarded-For came past them, so its address
 * is the connection's.
 */
export function createMetricsPage({
  access,
  respond,
  trustedHops,
}: {
  access: MetricsAccess;
  respond: () => Promise<Response>;
  trustedHops: number;
}): MetricsPage {
  return async ({ method, headers }, { remoteAddress }) => {
    if (method !== "GET" && method !== "HEAD") return undefined;
    const chain = trustedHops > 0 ? headers.get("x-forwarded-for") : null;
    // Not the request's own headers, because clients may also state an address with one of our keys.
    const address = readCallerAddress(new Headers({ "x-forwarded-for": chain ?? remoteAddress }), {
      trustedHops: chain === null ? 1 : trustedHops,
      secretKeys: [],
    });
    const verdict = access({ authorization: headers.get("authorization"), address });
    if (verdict === "off") return undefined;
    if (verdict === "unauthorized")
      return new Response(null, { status: 401, headers: { "www-authenticate": "Bearer" } });
    return respond();
  };
}
