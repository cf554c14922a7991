export interface RequestLogEntry {
  method: string;
  pathname: string;
  status: number;
  durationMs: number;
  requestId: string;
  clientAddress: string;
}

/**
 * One line a request in logfmt. Queries are left out altogether, since some hold one-time secrets
 * (/auth/confirm, /auth/recovery, /verify-token, QR polls); so are headers and bodies.
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
