import { connect } from "node:net";
import { isPrivateAddress } from "../../_shared/private-addresses.ts";
import type { Provider } from "./provider-settings.ts";

/** A host that answered within this time counts as reachable. */
const freshMs = 30_000;
/** When each host last answered, by base URL. */
const reachedAt = new Map<string, number>();

/** Returns whether a host answered so recently that it need not be checked. */
export function wasJustReached(baseUrl: string, now: () => number): boolean {
  return now() - (reachedAt.get(baseUrl) ?? Number.NEGATIVE_INFINITY) < freshMs;
}

/**
 * Checks that a provider's host accepts connections and that its name doesn't resolve to a private address. Runs before
 * the request is sent, with a time limit of its own, and costs one handshake.
 * @throws Error if the host isn't reached within the limit, or if `signal` aborts
 */
export async function ensureReachable(
  { baseUrl, allowPrivate }: Pick<Provider, "baseUrl" | "allowPrivate">,
  { limitMs, signal, now }: { limitMs: number; signal: AbortSignal; now: () => number },
): Promise<void> {
  const { protocol, hostname, port } = new URL(baseUrl);
  await new Promise<void>((resolve, reject) => {
    const socket = connect({
      host: hostname.replace(/^\[|\]$/g, ""),
      port: Number(port || (protocol === "https:" ? 443 : 80)),
    });
    const settle = (act: () => void) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", leave);
      socket.destroy();
      act();
    };
    const leave = () => settle(() => reject(new Error("aborted")));
    const timer = setTimeout(() => settle(() => reject(new ConnectTimeout())), limitMs);
    socket.once("connect", () => {
      const leadsInside = !allowPrivate && isPrivateAddress(socket.remoteAddress ?? "");
      settle(() => (leadsInside ? reject(new Error("the name leads to a private address")) : resolve()));
    });
    socket.once("error", (error) => settle(() => reject(error)));
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) leave();
  });
  noteReached(baseUrl, now);
}

/** Records that a host has just answered. */
export function noteReached(baseUrl: string, now: () => number): void {
  reachedAt.set(baseUrl, now());
}

/** Forgets that a host answered, so that the next call checks the host again. */
export function noteFailed(baseUrl: string): void {
  reachedAt.delete(baseUrl);
}

/** The host did not complete the handshake in time. */
export class ConnectTimeout extends Error {}
