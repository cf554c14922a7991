import type { AppLoadContext } from "@remix-run/server-runtime";
import { refuseForGateway } from "./gateway-refusal.ts";

/** What of a request is the gateway's business: neither cookies nor what browsers and proxies add. */
const passedOn = [
  "authorization",
  "content-type",
  "idempotency-key",
  "x-platform-workspace-id",
  "x-platform-operation",
  "x-platform-entity-id",
];

/** What of its answer is the client's. */
const passedBack =
  /^(content-type|deprecation|retry-after|www-authenticate|x-should-retry|x-ratelimit-.+|x-platform-.+)$/;

/** Beyond the longest that the gateway lets a call take (AI_TOTAL_LIMIT_SECONDS). */
const answerTimeoutMs = 410_000;

/**
 * Passes a call of the legacy `POST /api/ai/generate` on to the gateway's function of that name, and its answer back.
 * The credential is the gateway's to judge; who this server knows by a cookie is nobody there.
 */
export async function forwardGenerate(
  { env, requestId, clientAddress }: Pick<AppLoadContext, "env" | "requestId" | "clientAddress">,
  request: Request,
): Promise<Response> {
  const successor = { link: `<${env.AI_URL}/v1/chat/completions>; rel="successor-version"` };
  const named = request.headers.get("x-request-id");
  if (named !== null && named !== requestId) {
    const message = "The header x-request-id is malformed.";
    return refuseForGateway("invalid_request", { requestId, param: "x-request-id", message, headers: successor });
  }
  const answer = await ask();
  // What is not the function's own word is in some other shape, and says only that it was not reached.
  if (!answer?.headers.has("deprecation")) {
    await answer?.body?.cancel();
    return refuseForGateway("service_unavailable", { requestId, headers: successor });
  }
  const headers = new Headers(successor);
  for (const [name, value] of answer.headers) if (passedBack.test(name)) headers.set(name, value);
  return new Response(answer.body, { status: answer.status, headers });

  async function ask(): Promise<Response | undefined> {
    const headers = new Headers({
      "x-request-id": requestId,
      // Where the caller is, which the gateway believes of this server alone.
      apikey: env.SUPABASE_SECRET_KEY,
      "x-platform-forwarded-for": clientAddress,
    });
    for (const name of passedOn) {
      const value = request.headers.get(name);
      if (value !== null) headers.set(name, value);
    }
    try {
      return await fetch(`${env.AI_URL}/v1/generate`, {
        method: "POST",
        headers,
        body: await request.arrayBuffer(),
        redirect: "error",
        signal: AbortSignal.any([request.signal, AbortSignal.timeout(answerTimeoutMs)]),
      });
    } catch {
      return undefined;
    }
  }
}
