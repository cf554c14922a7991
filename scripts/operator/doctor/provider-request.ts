import { lookup } from "node:dns/promises";
import { once } from "node:events";
import * as http from "node:http";
import * as https from "node:https";
import { isIP } from "node:net";
import type { Provider } from "../../../supabase/functions/_gateway/providers/provider-settings.ts";
import { isPrivateAddress } from "../../../supabase/functions/_shared/private-addresses.ts";

/** Why the response is missing. */
export type NoAnswer =
  | "unknown host"
  | "private"
  | "refused"
  | "unreachable"
  | "closed"
  | "slow"
  | "not TLS"
  | "certificate expired"
  | "certificate name"
  | "certificate";
/** A provider's response. The text is used to distinguish failures and is never shown. */
export type Reply =
  | { status: number; isPage: boolean; text: string; json: unknown; location: string | null }
  | { failed: NoAnswer };

/** The longest known list, OpenRouter's, is less than a fifth of this. */
const mostBytes = 8 * 1024 * 1024;

/**
 * Resolves a provider's host as the functions do, so that its key is not sent to an address that the functions refuse.
 */
export async function findHost(
  { baseUrl, allowPrivate }: Pick<Provider, "baseUrl" | "allowPrivate">,
  signal: AbortSignal,
): Promise<NoAnswer | undefined> {
  const host = new URL(baseUrl).hostname.replace(/^\[|\]$/g, "");
  if (isIP(host)) return undefined;
  const given = Promise.withResolvers<never>();
  signal.addEventListener("abort", () => given.reject(signal.reason), { once: true });
  try {
    const found = await Promise.race([lookup(host, { all: true }), given.promise]);
    return !allowPrivate && found.some(({ address }) => isPrivateAddress(address)) ? "private" : undefined;
  } catch {
    return signal.aborted ? "slow" : "unknown host";
  }
}

/**
 * Sends one request: a POST if there is a body, otherwise a GET. Follows no redirects. Uses Node's HTTP client, as
 * gateway calls do, since `fetch` refuses some ports.
 */
export async function ask(
  { url, headers, body }: { url: string; headers: Record<string, string>; body?: object },
  signal: AbortSignal,
): Promise<Reply> {
  const { request } = url.startsWith("https:") ? https : http;
  const sent = request(url, {
    method: body ? "POST" : "GET",
    headers: { accept: "application/json", ...(body && { "content-type": "application/json" }), ...headers },
    agent: false,
    signal,
  });
  try {
    const answered = once(sent, "response") as Promise<[http.IncomingMessage]>;
    sent.end(body && JSON.stringify(body));
    const [response] = await answered;
    const text = await readText(response);
    return {
      status: response.statusCode ?? 0,
      isPage: /^\s*</.test(text) || /html/i.test(response.headers["content-type"] ?? ""),
      text,
      json: parse(text),
      location: response.headers.location ?? null,
    };
  } catch (error) {
    return { failed: signal.aborted ? "slow" : reasonOf(error) };
  } finally {
    sent.destroy();
  }
}

async function readText(response: http.IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of response) {
    bytes += piece.byteLength;
    if (bytes > mostBytes) return "";
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Maps the error codes of Node's sockets and OpenSSL to reasons (https://nodejs.org/api/errors.html,
 * /api/tls.html#x509-certificate-error-codes). The first match applies.
 */
const reasons: readonly (readonly [RegExp, NoAnswer])[] = [
  [/^(ENOTFOUND|EAI_AGAIN)$/, "unknown host"],
  [/^ECONNREFUSED$/, "refused"],
  [/^(ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL)$/, "unreachable"],
  [/^(EPROTO|ERR_SSL_WRONG_VERSION_NUMBER|ERR_SSL_PACKET_LENGTH_TOO_LONG)$/, "not TLS"],
  [/^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/, "certificate expired"],
  [/^ERR_TLS_CERT_ALTNAME_INVALID$/, "certificate name"],
  [/CERT|SIGNATURE|^ERR_(TLS|SSL)_/, "certificate"],
];

function reasonOf(error: unknown): NoAnswer {
  // A host with several addresses fails with one error for each.
  const { code, errors = [] } = error as { code?: string; errors?: { code?: string }[] };
  const known = code ?? errors[0]?.code ?? "";
  return reasons.find(([pattern]) => pattern.test(known))?.[1] ?? "closed";
}
