import { connect } from "node:net";
import { isPrivateAddress } from "../../_shared/private-addresses.ts";
import type { Provider } from "./provider-settings.ts";

/** An answer within this time shows that a host can be reached. */
const freshMs = 30_000;
/** By base URL. */
const reachedAt = new Map<string, number>();

/** Whether a host has answered so lately that nobody need look. */
export function wasJustReached(baseUrl: string, now: () => number): boolean {
  return now() - (reachedAt.get(baseUrl) ?? Number.NEGATIVE_INFINITY) < freshMs;
}

/**
 * Makes sure that a provider's host takes connections within a time of its own, before anything is
 * asked of it, and that its name does not lead into a private network. Costs one handshake.
 * @throws Error when it does not within the limit, or when `signal` falls
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

/** Remembers that a host has just answered. */
export function noteReached(baseUrl: string, now: () => number): void {
  reachedAt.set(baseUrl, now());
}

/** Forgets it: the next call looks again. */
export function noteFailed(baseUrl: string): void {
  reachedAt.delete(baseUrl);
}

/** Nobody answered the handshake in time. */
export class ConnectTimeout extends Error {}
