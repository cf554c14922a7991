import { escapeHtml } from "./encoding.ts";

const maxBodyBytes = 64 * 1024;

export type ProblemCode =
  | "INVALID_REQUEST"
  | "UNAUTHENTICATED"
  | "CSRF_REJECTED"
  | "METHOD_NOT_ALLOWED"
  | "PAYLOAD_TOO_LARGE"
  | "UNSUPPORTED_MEDIA_TYPE"
  | "AUTH_UNAVAILABLE";

const problems: Record<ProblemCode, { status: number; title: string; detail: string }> = {
  INVALID_REQUEST: { status: 400, title: "Invalid request", detail: "The body is missing or has another shape." },
  UNAUTHENTICATED: {
    status: 401,
    title: "This sign-in link doesn’t work",
    detail: "It has expired, was already used, or was started in another browser. Sign in again.",
  },
  CSRF_REJECTED: { status: 403, title: "Rejected", detail: "The request did not come from this app’s own pages." },
  METHOD_NOT_ALLOWED: { status: 405, title: "Method not allowed", detail: "Use another method." },
  PAYLOAD_TOO_LARGE: { status: 413, title: "Body too large", detail: "Send at most 64 KiB." },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    title: "Unsupported media type",
    detail: "Send the body as JSON, with Content-Type: application/json.",
  },
  AUTH_UNAVAILABLE: {
    status: 503,
    title: "Sign-in is temporarily unavailable",
    detail: "Your session is kept. Try again in a moment.",
  },
};

/** A refusal that is answered as a page or as problem JSON (RFC 9457). */
export class Refusal extends Error {
  readonly code: ProblemCode;
  readonly headers: Record<string, string>;

  constructor(code: ProblemCode, headers: Record<string, string> = {}) {
    super(code);
    this.code = code;
    this.headers = headers;
  }
}

const safeMethods = new Set(["GET", "HEAD", "OPTIONS"]);

/** Returns whether a request comes from this app's own pages or uses a safe method. */
export function isSameOrigin({ method, headers }: Request, origin: string): boolean {
  if (safeMethods.has(method)) return true;
  const site = headers.get("sec-fetch-site");
  return site === null ? headers.get("origin") === origin : site === "same-origin";
}

function asksForPage({ headers, url }: Request): boolean {
  return !new URL(url).pathname.startsWith("/api/") && (headers.get("accept") ?? "").includes("text/html");
}

/** Reads a body of at most 64 KiB. @throws Refusal PAYLOAD_TOO_LARGE */
export async function readBody(request: Request): Promise<string> {
  const tooLarge = new Refusal("PAYLOAD_TOO_LARGE");
  if (!(Number(request.headers.get("content-length") ?? 0) <= maxBodyBytes)) throw tooLarge;
  const decoder = new TextDecoder();
  let text = "";
  let length = 0;
  const reader = request.body?.getReader();
  for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
    length += read.value.byteLength;
    if (length > maxBodyBytes) {
      await reader?.cancel();
      throw tooLarge;
    }
    text += decoder.decode(read.value, { stream: true });
  }
  return text + decoder.decode();
}

/** Creates the response for a refusal: a page for browsers, or problem JSON for other clients. */
export function problemResponse(refusal: Refusal, request: Request): Response {
  const { code, headers } = refusal;
  const { status, title, detail } = problems[code];
  const requestId = crypto.randomUUID();
  const common = { "Cache-Control": "no-store", "X-Request-Id": requestId, ...headers };
  if (asksForPage(request)) {
    const again = status === 503 ? `<p><a class="button" href="">Try again</a></p>` : `<p><a href="/">Home</a></p>`;
    const page = htmlPage({ title, main: `<h1>${title}</h1><p>${detail}</p>${again}` });
    for (const [name, value] of Object.entries({ ...common })) page.headers.set(name, value);
    return new Response(page.body, { status, headers: page.headers });
  }
  const body = {
    type: `urn:gatehouse:problem:${code.toLowerCase().replaceAll("_", "-")}`,
    title,
    status,
    detail,
    code,
    requestId,
  };
  return new Response(JSON.stringify(body), {
    status,
    headers: { ...common, "Content-Type": "application/problem+json" },
  });
}

const styles = `:root{color-scheme:light dark;--ink:light-dark(#16191c,#edf0f2);--muted:light-dark(#535c63,#a7afb5);
--canvas:light-dark(#f9fafb,#0e1214);--edge:light-dark(#848e95,#727c84);--accent:light-dark(#035e63,#5cc8c2);
--on-accent:light-dark(#fff,#06181a)}*{box-sizing:border-box}
body{margin:0;background:var(--canvas);color:var(--ink);font:14px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
main{max-width:27rem;margin:0 auto;padding:80px 16px 32px;display:grid;gap:16px}h1{margin:0;font-size:28px;line-height:1.25}
p{margin:0;color:var(--muted);font-size:16px}form{display:grid;gap:12px}a{color:var(--accent)}
button,.button{display:block;width:100%;min-height:40px;padding:8px 16px;border:1px solid var(--edge);border-radius:6px;
background:none;color:var(--ink);font:inherit;font-weight:600;text-align:center;text-decoration:none;cursor:pointer}
.primary{border-color:var(--accent);background:var(--accent);color:var(--on-accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}`;

/** Renders a page of this package with a content security policy that allows only its own style and script. */
export function htmlPage(
  { title, main, script = "" }: { title: string; main: string; script?: string },
  { status = 200 }: { status?: number } = {},
): Response {
  const nonce = crypto.randomUUID();
  const html = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${escapeHtml(title)}</title>
<meta name="viewport" content="width=device-width,initial-scale=1"><style nonce="${nonce}">${styles}</style></head>
<body><main>${main}</main>${script && `<script type="module" nonce="${nonce}">${script}</script>`}</body></html>`;
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; connect-src 'self'`;
  return new Response(html, {
    status,
    headers: {
      "Content-Type": "text/html; charset=utf-8",
      "Cache-Control": "no-store",
      "Content-Security-Policy": `${policy}; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
      // Requests from the page send only its origin as the referrer, because its URL may hold a token.
      "Referrer-Policy": "strict-origin",
      "X-Content-Type-Options": "nosniff",
    },
  });
}
