import type { z } from "zod";
import { logError } from "#shared/log.ts";
import {
  type ProviderListing,
  providerListing,
  type RouteTestAnswer,
  type RouteTestRequest,
  routeTestAnswer,
  routeTestMs,
} from "#shared/provider-setup.ts";
import { callGateway } from "./call-gateway.ts";

/** Why the gateway gave no usable answer. */
export type GatewayFault = "unreachable" | "timeout" | "refused_key" | "too_old" | "not_ready" | "invalid_answer";

/** The configured providers, or why they are not known. */
export type ProviderListingResult = { listing: ProviderListing; fault: null } | { listing: null; fault: GatewayFault };

/** The result of a test call. `refused` means that the gateway can't make the call, because of the member `param`. */
export type RouteTest =
  | ({ outcome: "answered" } & Extract<RouteTestAnswer, { ok: true }>)
  | ({ outcome: "failed" } & Extract<RouteTestAnswer, { ok: false }>)
  | { outcome: "refused"; param: string | null }
  | { outcome: "fault"; fault: GatewayFault };

type Context = Parameters<typeof callGateway>[0];

/** A page waits for the list, so it is short. */
const listingLimitMs = 1_000;
/** A test may first wait five seconds for room in the limits of the provider. */
const testLimitMs = routeTestMs + 5_000;

/**
 * Reads the providers that the functions are configured for, without secrets. Never throws, because pages work without
 * the list.
 */
export async function readProviderListing(
  context: Context,
  { signal }: { signal: AbortSignal },
): Promise<ProviderListingResult> {
  const answer = await askGateway(context, { path: "/providers", limitMs: listingLimitMs, signal });
  if ("fault" in answer) return { listing: null, fault: answer.fault };
  const listing = readAnswer(answer, providerListing);
  return listing ? { listing, fault: null } : { listing: null, fault: faultOf(answer.status) };
}

/** Makes the gateway send one short request to a provider. Never throws. The provider may charge for the request. */
export async function testRoute(
  context: Context,
  { signal, ...test }: RouteTestRequest & { signal: AbortSignal },
): Promise<RouteTest> {
  const answer = await askGateway(context, { path: "/providers/test", limitMs: testLimitMs, signal, body: test });
  if ("fault" in answer) return { outcome: "fault", fault: answer.fault };
  if (answer.status === 400) return { outcome: "refused", param: readParam(answer.value) };
  const result = readAnswer(answer, routeTestAnswer);
  if (!result) return { outcome: "fault", fault: faultOf(answer.status) };
  return result.ok ? { ...result, outcome: "answered" } : { ...result, outcome: "failed" };
}

type Answer = { status: number; value: unknown };

async function askGateway(
  context: Context,
  { path, limitMs, signal, body }: { path: string; limitMs: number; signal: AbortSignal; body?: object },
): Promise<Answer | { fault: "timeout" | "unreachable" }> {
  const { requestId } = context;
  const timeout = AbortSignal.timeout(limitMs);
  const response = await callGateway(context, {
    path,
    headers: new Headers(body && { "content-type": "application/json" }),
    ...(body ? { method: "POST", body: JSON.stringify(body) } : { method: "GET" }),
    signal: AbortSignal.any([signal, timeout]),
  });
  const text = await response?.text().catch(() => undefined);
  if (!response || text === undefined) {
    const fault = timeout.aborted ? "timeout" : "unreachable";
    if (!signal.aborted) logError(`the gateway's ${path} failed: ${fault}`, { requestId });
    return { fault };
  }
  const { status } = response;
  if (status !== 200 && status !== 400) logError(`the gateway answered ${path} with ${status}`, { requestId });
  return { status, value: parseOrNull(text) };
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function readAnswer<Schema extends z.ZodType>({ status, value }: Answer, schema: Schema): z.output<Schema> | undefined {
  return status === 200 ? schema.safeParse(value).data : undefined;
}

function readParam(value: unknown): string | null {
  const { error } = (value ?? {}) as { error?: { param?: unknown } };
  return typeof error?.param === "string" ? error.param : null;
}

/** Returns the fault behind an answer that is not usable. Hosted functions that don't start answer 5xx. */
function faultOf(status: number): GatewayFault {
  if (status === 401 || status === 403) return "refused_key";
  if (status === 404 || status === 405) return "too_old";
  return status >= 500 ? "not_ready" : "invalid_answer";
}

const faultTexts = {
  unreachable: "The gateway can’t be reached. Check AI_URL, and that the functions are running.",
  timeout: "The gateway didn’t answer in time. Try again.",
  refused_key: "The gateway refused this server’s key. SUPABASE_SECRET_KEY must be one of the functions’ secret keys.",
  too_old:
    "The gateway runs an older release, which doesn’t support this. Deploy the functions of this server’s release.",
  not_ready: "The gateway isn’t ready. If the functions don’t start, their log names the wrong setting.",
  invalid_answer: "The gateway’s answer can’t be read. Check that AI_URL points to the functions of this release.",
} as const satisfies Record<GatewayFault, string>;

/** Says why the gateway gave no usable answer, and what to do. */
export function describeGatewayFault(fault: GatewayFault): string {
  return faultTexts[fault];
}
