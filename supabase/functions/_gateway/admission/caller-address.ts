import { isIP } from "node:net";
import { withoutPort } from "../../_shared/forwarded-for.ts";
import { isSameSecret } from "../../_shared/same-secret.ts";

export type AddressOptions = {
  /**
   * Number of trusted proxies in front of the server. Functions always have one, which belongs to the hosting platform.
   */
  trustedHops: number;
  /** The project's secret keys. Our own web server authenticates with any of them. */
  secretKeys: readonly string[];
};

/** Returns whether a request has one of the project's secret keys, as those of our own web server have. */
export function hasSecretKey(headers: Headers, { secretKeys }: Pick<AddressOptions, "secretKeys">): boolean {
  const key = headers.get("apikey");
  return secretKeys.some((secret) => isSameSecret(key, secret));
}

/**
 * Returns the caller's address: the entry of `X-Forwarded-For` that the outermost trusted proxy added. Earlier entries
 * are never used, because any client can write them. For a call that our own web server forwards, returns the address
 * that the web server states.
 * @returns undefined if the address is unknown, or if a call states an address without one of the secret keys
 */
export function readCallerAddress(headers: Headers, { trustedHops, secretKeys }: AddressOptions): string | undefined {
  const statedAddress = headers.get("x-platform-forwarded-for");
  if (statedAddress !== null) return hasSecretKey(headers, { secretKeys }) ? readAddress(statedAddress) : undefined;
  const chain = (headers.get("x-forwarded-for") ?? "").split(",").map((entry) => entry.trim());
  if (trustedHops === 0 || trustedHops > chain.length) return undefined;
  return readAddress(withoutPort(chain.at(-trustedHops) ?? ""));
}

/** Normalizes an address to Postgres's form; an IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2) becomes IPv4. */
function readAddress(text: string): string | undefined {
  // A zone only has meaning on the machine that wrote it.
  if (isIP(text) === 0 || text.includes("%")) return undefined;
  if (isIP(text) === 4) return text;
  // URL normalizes every IPv6 address (RFC 5952).
  const canonical = new URL(`http://[${text}]`).hostname.slice(1, -1);
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical);
  if (!mapped) return canonical;
  const [high = 0, low = 0] = mapped.slice(1).map((group) => Number.parseInt(group, 16));
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}
