import { logEvent } from "#shared/log.ts";

export interface RequestLogEntry {
  method: string;
  pathname: string;
  /** The route's pattern; absent if no route matched. */
  route?: string;
  status: number;
  durationMs: number;
  requestId: string;
  clientAddress: string;
}

/** Logs a request: as a line of logfmt, or of JSON with the members of the gateway's `request` lines. */
export function logRequest(entry: RequestLogEntry): void {
  const { method, pathname, route, status, durationMs, requestId, clientAddress } = entry;
  const members = {
    method,
    route,
    path: pathname,
    request_id: requestId,
    status,
    latency_ms: Math.round(durationMs),
    address: clientAddress,
  };
  const level = status >= 500 ? "error" : "info";
  logEvent({ level, event: "request", members }, () => requestLogLine(entry));
}

/**
 * Formats one line per request in logfmt. Leaves out queries, because some contain one-time secrets (/auth/confirm,
 * /auth/recovery, /verify-token, QR polls), as well as headers and bodies.
 */
function requestLogLine(entry: RequestLogEntry): string {
  const { method, pathname, status, durationMs, requestId, clientAddress } = entry;
  return [
    `status=${status}`,
    `method=${method}`,
    `path=${JSON.stringify(pathname)}`,
    `ms=${durationMs.toFixed(1)}`,
    `request=${requestId}`,
    `address=${clientAddress}`,
  ].join(" ");
}
