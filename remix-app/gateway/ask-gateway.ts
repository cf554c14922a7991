import type { AppLoadContext } from "@remix-run/server-runtime";

export interface GatewayCall {
  method: "GET" | "POST";
  /** Below `/v1`, with its slash. */
  path: string;
  /** The credential and what else the call says of itself. */
  headers: Headers;
  body?: BodyInit;
  /** Of whoever waits for the answer: who leaves takes the provider's call with them. */
  signal: AbortSignal;
}

/** What of the gateway's answer is the client's. */
const passedBack =
  /^(content-type|deprecation|retry-after|www-authenticate|x-should-retry|x-ratelimit-.+|x-platform-.+)$/;

/** Beyond the longest that the gateway lets a call take (AI_TOTAL_LIMIT_SECONDS). */
const answerTimeoutMs = 410_000;

/**
 * Asks the AI gateway for somebody whose credential is in the headers, and says where they are.
 * @returns its answer as it comes, streams unread; undefined where it was not reached
 */
export async function askGateway(
  { env, requestId, clientAddress }: Pick<AppLoadContext, "env" | "requestId" | "clientAddress">,
  { method, path, headers: given, body, signal }: GatewayCall,
): Promise<Response | undefined> {
  const headers = new Headers(given);
  headers.set("x-request-id", requestId);
  // Where the caller is, which the gateway believes of this server alone.
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

/** The headers of a gateway's answer that are its client's to see. */
export function headersForClient(answer: Response): Headers {
  return new Headers([...answer.headers].filter(([name]) => passedBack.test(name)));
}
