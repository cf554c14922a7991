import { z } from "zod";
import type { SatelliteEnv } from "../../config/satellite-env.server.ts";
import { basicAuthorization } from "../../http/authorization.ts";

/** Bounds on what one request waits for. */
const callTimeoutMs = 5_000;
/** How long a refresh's result answers for the token that it replaced: the grace that the platform gives it. */
const refreshKeptMs = 30_000;

const issued = z.object({ token: z.string(), expiresAt: z.string() });
const redeemed = z.object({ userId: z.uuid(), appSession: issued, centralSession: issued.optional() });
const preview = z.object({ userId: z.uuid(), name: z.string().nullable(), email: z.string().nullable() });
const introspected = z.union([
  z.object({ active: z.literal(false) }),
  z.object({
    active: z.literal(true),
    sub: z.uuid(),
    exp: z.number(),
    name: z.string().nullish(),
    email: z.string().nullish(),
  }),
]);

export type IssuedSession = z.infer<typeof issued>;

/** The platform did not answer, or not as it should: nothing is concluded from it. */
export class CentralUnavailable extends Error {
  override name = "CentralUnavailable";
}

/** The platform, as a satellite's server reaches it. No call goes anywhere else. */
export interface CentralClient {
  /** Redeems a cross-app token; null where it leads nowhere. */
  redeem(token: string): Promise<z.infer<typeof redeemed> | null>;
  /** Whom a token would sign in; redeems nothing. */
  preview(token: string): Promise<z.infer<typeof preview> | null>;
  introspect(token: string): Promise<z.infer<typeof introspected>>;
  /** A new token for a session: one call however many ask; null where the session is over. */
  refresh(token: string): Promise<IssuedSession | null>;
  revoke(token: string): Promise<void>;
  /** A call of the central API for the person behind a central session. */
  fetch(path: string, options: { token: string; method?: string; body?: unknown }): Promise<Response>;
}

/** Makes the client of a satellite. */
export function createCentralClient({ APP_NAME, APP_SECRET, CENTRAL_API_URL }: SatelliteEnv): CentralClient {
  const authorization = basicAuthorization({ name: APP_NAME, secret: APP_SECRET });
  const refreshes = new Map<string, { result: Promise<IssuedSession | null>; keptUntil: number }>();

  async function send(path: string, init: RequestInit): Promise<Response> {
    try {
      return await fetch(new URL(path, CENTRAL_API_URL), {
        ...init,
        redirect: "error",
        signal: AbortSignal.timeout(callTimeoutMs),
      });
    } catch (error) {
      throw new CentralUnavailable(String(error));
    }
  }

  async function ask<Schema extends z.ZodType>(
    path: string,
    { body, schema }: { body: object; schema: Schema },
  ): Promise<{ status: 200; body: z.output<Schema> } | { status: 401 }> {
    const headers = { Authorization: authorization, "Content-Type": "application/json" };
    const response = await send(path, { method: "POST", headers, body: JSON.stringify(body) });
    if (response.status === 401 && !response.headers.has("WWW-Authenticate")) return { status: 401 };
    if (!response.ok) throw new CentralUnavailable(`${path} answered ${response.status}`);
    const answer = schema.safeParse(response.status === 204 ? null : await response.json().catch(() => undefined));
    if (!answer.success) throw new CentralUnavailable(`${path} gave an unexpected answer`);
    return { status: 200, body: answer.data };
  }

  async function refresh(token: string): Promise<IssuedSession | null> {
    const answer = await ask("/api/v1/auth/app-sessions/refresh", { body: { token }, schema: issued });
    return answer.status === 200 ? answer.body : null;
  }

  async function validate<Schema extends z.ZodType>(body: object, schema: Schema): Promise<z.output<Schema> | null> {
    const answer = await ask("/api/v1/auth/cross-app-tokens/validate", { body, schema: schema.nullable() });
    return answer.status === 200 ? (answer.body as z.output<Schema> | null) : null;
  }

  return {
    redeem: (token) => validate({ token }, redeemed),
    preview: (token) => validate({ token, preview: true }, preview),
    async introspect(token) {
      const answer = await ask("/api/v1/auth/app-sessions/introspect", { body: { token }, schema: introspected });
      return answer.status === 200 ? answer.body : { active: false };
    },
    refresh(token) {
      const now = Date.now();
      for (const [old, { keptUntil }] of refreshes) if (keptUntil <= now) refreshes.delete(old);
      const known = refreshes.get(token);
      if (known) return known.result;
      const result = refresh(token);
      refreshes.set(token, { result, keptUntil: now + refreshKeptMs });
      result.catch(() => refreshes.delete(token));
      return result;
    },
    async revoke(token) {
      await ask("/api/v1/auth/app-sessions/revoke", { body: { token }, schema: z.null() });
    },
    fetch: (path, { token, method = "GET", body }) =>
      send(path, {
        method,
        headers: {
          Authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
  };
}
