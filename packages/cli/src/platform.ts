import { z } from "zod";
import { createSignedOutFailure, Failure } from "./failure.ts";

const requestTimeoutMs = 15_000;

/** Parses an address. Node 20 lacks `URL.parse`. */
function parseUrl(text: string): URL | null {
  return URL.canParse(text) ? new URL(text) : null;
}

/** Returns whether a URL's host is this machine, by name or by address. */
function isLoopback(hostname: string): boolean {
  return (
    hostname === "localhost" ||
    hostname.endsWith(".localhost") ||
    hostname === "[::1]" ||
    /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(hostname)
  );
}

/** Returns whether an address is https, or http on this machine. Only there may a token or a person be sent. */
export function isSafeAddress(text: string): boolean {
  const url = parseUrl(text);
  return url !== null && (url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname)));
}

const problem = z.object({ detail: z.string() });
const oauthError = z.object({ error: z.string() });

/**
 * Parses the platform's address as people type it.
 * @throws Failure unless it is an origin with https, or http on this machine
 */
export function readPlatformUrl(text: string): string {
  const url = parseUrl(text.includes("://") ? text : `https://${text}`);
  if (!url || !/^https?:$/.test(url.protocol) || url.pathname !== "/" || url.search || url.username) {
    throw new Failure("usage", `This is not a platform’s address: ${text}. Use one such as https://app.example.com.`);
  }
  if (url.protocol === "http:" && !isLoopback(url.hostname)) {
    throw new Failure("usage", "The address must begin with https, since tokens travel there.");
  }
  return url.origin;
}

/**
 * Posts a form to an OAuth endpoint.
 * @returns the response, or its error code
 * @throws Failure if the endpoint cannot be reached
 */
export async function postForm<Schema extends z.ZodType>(
  url: string,
  { form, schema }: { form: Record<string, string>; schema: Schema },
): Promise<{ answer: z.output<Schema> } | { error: string }> {
  const response = await sendRequest(url, { method: "POST", body: new URLSearchParams(form) });
  const body = await readJson(response);
  if (response.ok) return { answer: parseAnswer(url, schema, body) };
  const { data } = oauthError.safeParse(body);
  if (response.status >= 500 || response.status === 429 || !data) throw createUnavailableFailure(url);
  return { error: data.error };
}

/**
 * Calls the platform's API, or the gateway's.
 * @throws Failure `signed-out` for 401, `gone` for 410, `unreachable` for 429, 5xx or no response, otherwise `refused`
 */
export async function callApi<Schema extends z.ZodType>(
  url: string,
  { token, method = "GET", body, schema }: { token: string; method?: string; body?: object; schema: Schema },
): Promise<z.output<Schema>> {
  const response = await sendRequest(url, {
    method,
    headers: { Authorization: `Bearer ${token}`, ...(body && { "Content-Type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const answer = response.status === 204 ? null : await readJson(response);
  if (response.ok) return parseAnswer(url, schema, answer);
  if (response.status >= 500 || response.status === 429) throw createUnavailableFailure(url);
  if (response.status === 401) throw createSignedOutFailure("Your sign-in has ended.");
  const detail = problem.safeParse(answer).data?.detail ?? `${new URL(url).host} refused this (${response.status}).`;
  throw new Failure(response.status === 410 ? "gone" : "refused", detail);
}

/**
 * Sends a request, and follows no redirect.
 * @throws Failure `refused` for an address that isn't safe, `unreachable` without a response
 */
export async function sendRequest(
  url: string,
  { timeoutMs = requestTimeoutMs, ...init }: RequestInit & { timeoutMs?: number },
): Promise<Response> {
  if (!isSafeAddress(url)) throw new Failure("refused", `This address is refused, because it isn’t https: ${url}`);
  try {
    // Redirects are refused, since a redirect would carry the token elsewhere.
    return await fetch(url, { ...init, redirect: "error", signal: AbortSignal.timeout(timeoutMs) });
  } catch {
    throw new Failure("unreachable", `Couldn’t reach ${new URL(url).host}. Check your network, then try again.`);
  }
}

/** Returns the JSON of a response. Undefined if it isn't JSON. */
export async function readJson(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    return undefined;
  }
}

function parseAnswer<Schema extends z.ZodType>(url: string, schema: Schema, body: unknown): z.output<Schema> {
  const read = schema.safeParse(body);
  if (read.success) return read.data;
  throw new Failure("refused", `${new URL(url).host} gave an answer that this version doesn’t understand.`);
}

function createUnavailableFailure(url: string): Failure {
  return new Failure("unreachable", `${new URL(url).host} is unavailable right now. Try again in a moment.`);
}
