/**
 * Returns an X-Forwarded-For entry without the port that some proxies add, as in `192.0.2.1:1234` or
 * `[2001:db8::1]:1234` (RFC 7239, section 6).
 */
export function withoutPort(entry: string): string {
  return entry.replace(/^\[(.+)\](?::\d+)?$/, "$1").replace(/^([\d.]+):\d+$/, "$1");
}
