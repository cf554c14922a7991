import { problemText } from "../http/problem.ts";
import { newAddress, visitorHeaders } from "./visitor.ts";

/** A browser that stores cookies and posts what it is given, but follows no redirects. */
export interface Browser {
  get(path: string): Promise<Answer>;
  /** Forms with files are passed as FormData, and forms with repeated fields as URLSearchParams. */
  post(path: string, fields: Record<string, string> | URLSearchParams | FormData): Promise<Answer>;
  /** Posts JSON as a page's script does. */
  postJson(path: string, body: unknown): Promise<Answer>;
  /** Sends JSON with any method, as a page's script does. */
  sendJson(method: string, path: string, body?: unknown): Promise<Answer>;
  /** The value of the browser's Cookie header. */
  cookie(): string;
}

interface Answer {
  status: number;
  location: string | null;
  headers: Headers;
  text: string;
  /** The visible text of the page. */
  words: string;
}

/**
 * Opens a browser on our origin, with its own network address.
 * @param options.cookie its initial cookies, as a Cookie header
 * @param options.retries whether it sends a request again that a busy server refused, as pages tell people to do. Not
 * for servers whose backend is made to fail.
 */
export function openBrowser(
  base: string,
  { userAgent = "Test browser", address = newAddress(), cookie: held = "", retries = false } = {},
): Browser {
  const cookies = new Map(held.split("; ").flatMap((pair) => (pair ? [splitPair(pair)] : [])));
  const cookie = () => [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  let page = base;
  async function send(path: string, init: RequestInit & { headers?: Record<string, string> }): Promise<Answer> {
    const answer = await sendOnce(path, init);
    return retries && isBusy(answer, init) ? sendOnce(path, init) : answer;
  }
  async function sendOnce(path: string, init: RequestInit & { headers?: Record<string, string> }): Promise<Answer> {
    const visitor = { ...visitorHeaders(address), "user-agent": userAgent, cookie: cookie() };
    const headers = { ...visitor, accept: "text/html", ...init.headers };
    // A link that is only a query leads to another view of the page.
    const url = new URL(path, path.startsWith("?") ? page : base).href;
    if (init.method === undefined) page = url;
    const response = await fetch(url, { redirect: "manual", ...init, headers });
    for (const header of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(header) ?? [];
      if (header.includes("Max-Age=0")) cookies.delete(name);
      else cookies.set(name, value);
    }
    const text = await response.text();
    const { status, headers: answered } = response;
    return { status, location: answered.get("location"), headers: answered, text, words: wordsOf(text) };
  }
  const sendJson: Browser["sendJson"] = (method, path, body) =>
    send(path, {
      method,
      headers: { "content-type": "application/json", accept: "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  return {
    get: (path) => send(path, {}),
    post: (path, fields) =>
      send(path, { method: "POST", body: fields instanceof FormData ? fields : new URLSearchParams(fields) }),
    postJson: (path, body) => sendJson("POST", path, body),
    sendJson,
    cookie,
  };
}

/**
 * Whether a busy server refused a request that can be repeated: a read, or a change for which the session could not be
 * checked in time.
 */
function isBusy({ status, text }: Answer, { method }: RequestInit): boolean {
  return status === 503 && (method === undefined || text.includes(problemText("AUTH_UNAVAILABLE").title));
}

export function accessTokenOf(browser: Pick<Browser, "cookie">): string {
  const [, value = ""] = /-auth-token=base64-([\w-]+)/.exec(browser.cookie()) ?? [];
  return JSON.parse(Buffer.from(value, "base64url").toString()).access_token;
}

function splitPair(pair: string): [string, string] {
  const at = pair.indexOf("=");
  return [pair.slice(0, at), pair.slice(at + 1)];
}

function wordsOf(html: string): string {
  const main = /<main.*<\/main>/s.exec(html)?.[0] ?? "";
  return main
    .replaceAll(/<!--.*?-->|<wbr\/?>|<script.*?<\/script>/gs, "")
    .replaceAll(/<[^>]*>/g, " ")
    .replaceAll(/\s+/g, " ")
    .trim();
}
