import type { AppLoadContext } from "@remix-run/node";
import { maxCallSeconds } from "#shared/longest-call.ts";

export interface GatewayCall {
  method: "GET" | "POST";
  /** Below `/v1`, with a leading slash. */
  path: string;
  headers: Headers;
  body?: BodyInit;
  /** Aborted when the client stops waiting, which also cancels the provider's call. */
  signal: AbortSignal;
}

/** Gateway headers that are passed on to the client. */
const forwardedHeaders =
  /^(content-type|deprecation|retry-after|www-authenticate|x-accel-buffering|x-should-retry|x-ratelimit-.+|x-platform-.+)$/;

/** Longer than any call that the gateway allows. Until then, it keeps the connection alive. */
const answerTimeoutMs = (maxCallSeconds + 10) * 1_000;

/**
 * Calls the AI gateway with the credential in the headers, and tells it the caller's address.
 * @returns the answer with its body unread, so that streams pass through; undefined if the gateway was not reached
 */
export async function callGateway(
  { env, requestId, clientAddress }: Pick<AppLoadContext, "env" | "requestId" | "clientAddress">,
  { method, path, headers: requestHeaders, body, signal }: GatewayCall,
): Promise<Response | undefined> {
  const headers = new Headers(requestHeaders);
  headers.set("x-request-id", requestId);
  // The gateway accepts a caller's address only from this server.
  headers.set("apikey", env.SUPABASE_SECRET_KEY);
  headers.set("x-platform-forwarded-for", clientAddress);
  try {
    return await fetch(`${env.AI_URL}/v1${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body }),
      redirect: "error",
      signal: AbortSignal.any([signal, AbortSignal.timeout(answerTimeoutMs)]),
    });
  } catch {
    return undefined;
  }
}

/** Returns the headers of a gateway answer that its client may see. */
export function headersForClient(answer: Response): Headers {
  return new Headers([...answer.headers].filter(([name]) => forwardedHeaders.test(name)));
}
