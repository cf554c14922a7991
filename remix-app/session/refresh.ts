import { z } from "zod";
import { createFetchWithTimeout } from "../supabase/backend-fetch.ts";
import type { StoredSession } from "./cookies.ts";

/** A session this close to its expiry is refreshed before use. */
export const refreshMarginSeconds = 90;
/** How long requests with the old refresh token still get the result of its refresh. */
const resultTtlMs = 30_000;
/** Together with the policy timeout and the timeouts of #shared/claims.ts, keeps a request's total wait below 10 s. */
const refreshTimeoutMs = 4_000;

/** `refused` is the backend's final answer about a session. `unavailable` says nothing about the session. */
export type RefreshResult =
  | { status: "refreshed"; session: StoredSession }
  | { status: "refused" }
  | { status: "unavailable" };

export interface SessionRefresherOptions {
  supabaseUrl: string;
  fetch?: typeof globalThis.fetch;
  now?: () => number;
}

export type SessionRefresher = (
  refreshToken: string,
  options: { identityHeaders: Record<string, string> },
) => Promise<RefreshResult>;

const tokenResponse = z.object({
  access_token: z.string().min(1),
  refresh_token: z.string().min(1),
  expires_in: z.number(),
  expires_at: z.number().optional(),
});
const errorResponse = z.object({ code: z.string() });

/** The backend's error codes for a session that has ended. Any other failure is temporary. */
const definitiveCodes = new Set([
  "refresh_token_not_found",
  "refresh_token_already_used",
  "session_not_found",
  "session_expired",
  "user_not_found",
  "user_banned",
  "validation_failed",
]);

/**
 * Creates the session refresher. It makes one call per old token for concurrent requests, and reuses the result for 30
 * s, so that pending requests with the same token do not rotate the session again.
 */
export function createSessionRefresher(options: SessionRefresherOptions): SessionRefresher {
  const { supabaseUrl, fetch = createFetchWithTimeout(refreshTimeoutMs), now = Date.now } = options;
  const flights = new Map<string, { result: Promise<RefreshResult>; expiresAtMs: number }>();

  async function call(refreshToken: string, identityHeaders: Record<string, string>): Promise<RefreshResult> {
    try {
      const response = await fetch(`${supabaseUrl}/auth/v1/token?grant_type=refresh_token`, {
        method: "POST",
        headers: { ...identityHeaders, "Content-Type": "application/json", "X-Supabase-Api-Version": "2024-01-01" },
        body: JSON.stringify({ refresh_token: refreshToken }),
      });
      const body: unknown = await response.json();
      if (!response.ok) {
        const error = errorResponse.safeParse(body);
        return { status: error.success && definitiveCodes.has(error.data.code) ? "refused" : "unavailable" };
      }
      const tokens = tokenResponse.parse(body);
      const expires_at = tokens.expires_at ?? Math.floor(now() / 1000) + tokens.expires_in;
      return {
        status: "refreshed",
        session: {
          access_token: tokens.access_token,
          refresh_token: tokens.refresh_token,
          expires_in: tokens.expires_in,
          expires_at,
          token_type: "bearer",
        },
      };
    } catch {
      return { status: "unavailable" };
    }
  }

  return (refreshToken, { identityHeaders }) => {
    for (const [token, flight] of flights) if (flight.expiresAtMs <= now()) flights.delete(token);
    const current = flights.get(refreshToken);
    if (current) return current.result;
    const flight = { result: call(refreshToken, identityHeaders), expiresAtMs: Number.POSITIVE_INFINITY };
    flights.set(refreshToken, flight);
    void flight.result.then(({ status }) => {
      if (status === "unavailable") flights.delete(refreshToken);
      else flight.expiresAtMs = now() + resultTtlMs;
    });
    return flight.result;
  };
}
