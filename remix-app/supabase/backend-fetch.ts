import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { beginTracedCall } from "../http/request-trace.ts";

/** Shorter than servers keep idle connections, so that no call is sent on one that its server is closing. */
const idleTimeoutMs = 4_000;
const agentOptions = { keepAlive: true, timeout: idleTimeoutMs };
// Marked as pure, so that modules that pages share with the server can be bundled without this one.
const httpAgent = /* @__PURE__ */ new http.Agent(agentOptions);
const httpsAgent = /* @__PURE__ */ new https.Agent(agentOptions);
/** Responses without a body (Fetch Standard, null body status). */
const withoutBody = new Set([204, 205, 304]);

/**
 * Returns a fetch for calls to Supabase, with a timeout until the whole response has arrived. Takes a URL and a text,
 * and follows no redirect. It uses Node's HTTP client, because each call of Node's own fetch costs several times as
 * much CPU.
 */
export function createFetchWithTimeout(timeoutMs: number): typeof globalThis.fetch {
  return async (input, { method = "GET", headers = {}, body, signal } = {}) => {
    if (input instanceof Request || (body && typeof body !== "string")) throw new TypeError("Pass a URL and a text.");
    const url = new URL(input);
    const isHttps = url.protocol === "https:";
    const call = (isHttps ? https : http).request(url, {
      method,
      // Node would send a DELETE with a body but no length.
      headers: {
        "User-Agent": "node",
        ...recordOf(headers),
        ...(body && { "Content-Length": Buffer.byteLength(body) }),
      },
      agent: isHttps ? httpsAgent : httpAgent,
      ...(signal && { signal }),
    });
    const expire = () => call.destroy(new DOMException(`No response within ${timeoutMs} ms`, "TimeoutError"));
    const timer = setTimeout(expire, timeoutMs);
    const endTracedCall = beginTracedCall(method, url);
    let status: number | undefined;
    try {
      const [response, bytes] = await new Promise<[IncomingMessage, Buffer<ArrayBuffer>]>((resolve, reject) => {
        call.once("error", reject).once("response", (response) => {
          const chunks: Buffer[] = [];
          response
            .on("data", (chunk: Buffer) => chunks.push(chunk))
            .once("error", reject)
            .once("end", () => resolve([response, Buffer.concat(chunks)]));
        });
        call.end(body ?? undefined);
      });
      status = response.statusCode;
      return responseOf(response, bytes);
    } finally {
      clearTimeout(timer);
      endTracedCall?.(status);
    }
  };
}

function recordOf(headers: HeadersInit): Record<string, string> {
  return headers instanceof Headers || Array.isArray(headers) ? Object.fromEntries(headers) : headers;
}

function responseOf({ statusCode = 0, statusMessage = "", headers }: IncomingMessage, bytes: Buffer<ArrayBuffer>) {
  return new Response(withoutBody.has(statusCode) ? null : bytes, {
    status: statusCode,
    statusText: statusMessage,
    headers: Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)]),
  });
}
