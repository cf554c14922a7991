/**
 * Our origin as the browser names it: the configured one whose host the request names, else the first. Host alone is
 * never believed.
 * @param origins configured; not empty
 */
export function requestOrigin(host: string | null, origins: readonly [string, ...string[]]): string {
  return origins.find((origin) => new URL(origin).host === host) ?? origins[0];
}
