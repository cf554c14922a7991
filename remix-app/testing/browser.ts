import { newAddress, visitorHeaders } from "./visitor.ts";

/** A browser without scripts: it keeps cookies, posts forms, and follows nothing by itself. */
export interface Browser {
  get(path: string): Promise<{ status: number; location: string | null; text: string }>;
  post(
    path: string,
    fields: Record<string, string>,
  ): Promise<{ status: number; location: string | null; text: string }>;
  /** As its Cookie header has it. */
  cookie(): string;
}

/** Opens one on our origin, that comes from an address of its own. */
export function openBrowser(base: string, { userAgent = "Test browser", address = newAddress() } = {}): Browser {
  const cookies = new Map<string, string>();
  const cookie = () => [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  async function send(path: string, init: RequestInit) {
    const headers = { ...visitorHeaders(address), accept: "text/html", "user-agent": userAgent, cookie: cookie() };
    const response = await fetch(new URL(path, base), { headers, redirect: "manual", ...init });
    for (const header of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(header) ?? [];
      if (header.includes("Max-Age=0")) cookies.delete(name);
      else cookies.set(name, value);
    }
    return { status: response.status, location: response.headers.get("location"), text: await response.text() };
  }
  return {
    get: (path) => send(path, {}),
    post: (path, fields) => send(path, { method: "POST", body: new URLSearchParams(fields) }),
    cookie,
  };
}
