import { parseExactJson } from "#shared/exact-json.ts";
import { isObject, type JsonObject } from "../../studio/costs/files/json-values.ts";
import type { CostProvider } from "./cost-provider.ts";

/** An attempt that failed at the provider. The message says what to do, and contains no text from the provider. */
export class FailedReport extends Error {
  /** How long the provider asks to wait. */
  readonly retryAfterSeconds: number;
  /** The status of the provider's answer; null without an answer. */
  readonly status: number | null;

  constructor(
    message: string,
    { retryAfterSeconds = 0, status = null }: { retryAfterSeconds?: number; status?: number | null } = {},
  ) {
    super(message);
    this.retryAfterSeconds = retryAfterSeconds;
    this.status = status;
  }
}

const maxPageBytes = 32 * 1024 * 1024;
const pageTimeoutMs = 30_000;

/**
 * Requests a page of a provider's report. Follows no redirect, so that the key reaches no other server.
 * @returns the page with exact numbers, and the time by the provider's clock
 * @throws FailedReport
 */
export async function requestPage(
  { url, headers }: { url: URL; headers: Record<string, string> },
  {
    provider,
    signal,
    timeoutMs = pageTimeoutMs,
    maxBytes = maxPageBytes,
  }: { provider: CostProvider; signal: AbortSignal; timeoutMs?: number | undefined; maxBytes?: number },
): Promise<{ page: JsonObject; now: Date }> {
  const { name, settings } = provider;
  const limit = AbortSignal.timeout(timeoutMs);
  let response: Response;
  let text: string | null = null;
  try {
    response = await fetch(url, { headers, redirect: "error", signal: AbortSignal.any([signal, limit]) });
    if (response.ok) text = await readText(response, { maxBytes });
    else await response.body?.cancel();
  } catch {
    if (signal.aborted) throw new FailedReport("The import was interrupted. It is repeated soon.");
    const what = limit.aborted ? `did not answer within ${timeoutMs / 1_000} seconds` : "could not be reached";
    throw new FailedReport(`${name} ${what}, or broke off its answer. If this persists, check ${settings.url}.`);
  }
  if (!response.ok) throw describeRefusal(response, provider);
  const request = requestText(response);
  const { status } = response;
  if (text === null) {
    const size = `${maxBytes / 1024 / 1024} MiB`;
    throw new FailedReport(`${name} answered more than ${size}${request}. Check ${settings.url}.`, { status });
  }
  let page: unknown;
  try {
    page = parseExactJson(text);
  } catch {
    page = null;
  }
  if (!isObject(page)) {
    throw new FailedReport(`${name} answered no JSON object${request}. Check ${settings.url}.`, { status });
  }
  const date = Date.parse(response.headers.get("date") ?? "");
  return { page, now: Number.isNaN(date) ? new Date() : new Date(date) };
}

/** Returns a response's text, or null if it is too long. */
async function readText({ body }: Response, { maxBytes }: { maxBytes: number }): Promise<string | null> {
  const decoder = new TextDecoder();
  let length = 0;
  let text = "";
  for await (const part of body ?? []) {
    length += part.byteLength;
    if (length > maxBytes) return null;
    text += decoder.decode(part, { stream: true });
  }
  return text + decoder.decode();
}

function describeRefusal(response: Response, { name, settings, keyAdvice }: CostProvider): FailedReport {
  const { status } = response;
  const request = requestText(response, String(status));
  const retryAfterSeconds = readRetryAfter(response.headers.get("retry-after"));
  if (status === 401)
    return new FailedReport(`${name} refuses the key${request}. ${settings.key} must be ${keyAdvice}.`, { status });
  if (status === 403) {
    return new FailedReport(
      `${name} does not let this key read costs${request}. ${settings.key} must be ${keyAdvice}.`,
      { status },
    );
  }
  if (status === 429) {
    return new FailedReport(`${name} asks to wait${request}.`, { retryAfterSeconds, status });
  }
  if (status >= 500) {
    const message = `${name} is unavailable${request}. If this persists, look at its status page.`;
    return new FailedReport(message, { retryAfterSeconds, status });
  }
  return new FailedReport(`${name} refuses the request${request}. Check ${settings.url}.`, { status });
}

/** Returns the status and the provider's id of a request in parentheses, for the provider's support. */
function requestText({ headers }: Response, ...parts: string[]): string {
  const id = ["request-id", "x-request-id", "cf-ray"]
    .map((header) => headers.get(header))
    .find((value) => value !== null && /^[A-Za-z0-9._:-]{1,80}$/.test(value));
  const all = [...parts, ...(id ? [`request ${id}`] : [])];
  return all.length > 0 ? ` (${all.join(", ")})` : "";
}

const maxWaitSeconds = 24 * 60 * 60;

/** Reads seconds or a date (RFC 9110 section 10.2.3). */
function readRetryAfter(text: string | null): number {
  if (text === null) return 0;
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : Math.ceil((Date.parse(text) - Date.now()) / 1_000);
  return Number.isNaN(seconds) ? 0 : Math.min(maxWaitSeconds, Math.max(0, seconds));
}
