export interface RequestLogEntry {
  method: string;
  pathname: string;
  status: number;
  durationMs: number;
  requestId: string;
  clientAddress: string;
}

/**
 * Formats one line per request in logfmt. Leaves out queries, because some contain one-time secrets (/auth/confirm,
 * /auth/recovery, /verify-token, QR polls), as well as headers and bodies.
 */
export function requestLogLine(entry: RequestLogEntry): string {
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
