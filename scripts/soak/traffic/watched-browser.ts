import { type Browser, openBrowser } from "../../../remix-app/testing/browser.ts";
import { type Journal, type Target, watch } from "../journal.ts";
import type { Random } from "../random.ts";

export type PageAnswer = Awaited<ReturnType<Browser["get"]>>;

/** A browser that records every call. Each call can throw NoAnswer. */
export type WatchedBrowser = Browser;

/** Opens a watched browser with its own address. `cookie` is the cookie that it already holds. */
export function openWatchedBrowser(
  journal: Journal,
  {
    actor,
    base,
    target,
    address,
    cookie = "",
  }: { actor: string; base: string; target: Target; address: string; cookie?: string },
): WatchedBrowser {
  const browser = openBrowser(base, { address, cookie, userAgent: "Mozilla/5.0 (X11; Linux x86_64) Soak/1.0" });
  function noted(method: string, path: string, call: () => Promise<PageAnswer>): Promise<PageAnswer> {
    const what = `${method} ${path.replace(/\?.*/, "").replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, ":id")}`;
    return watch(
      journal,
      { actor, what, target },
      { call, seen: ({ status, text }) => ({ status, ...(status >= 400 ? problemOf(text) : {}) }) },
    );
  }
  return {
    get: (path) => noted("GET", path, () => browser.get(path)),
    post: (path, fields) => noted("POST", path, () => browser.post(path, fields)),
    postJson: (path, body) => noted("POST", path, () => browser.postJson(path, body)),
    sendJson: (method, path, body) => noted(method, path, () => browser.sendJson(method, path, body)),
    cookie: browser.cookie,
  };
}

function problemOf(text: string): { code: string | null; requestId: string | null } {
  try {
    const { code = null, requestId = null } = JSON.parse(text) as { code?: string; requestId?: string };
    return { code, requestId };
  } catch {
    return { code: null, requestId: null };
  }
}

/** Returns an IPv6 documentation address derived from the seed. */
export function addressFrom(random: Random): string {
  const group = () => (1 + random.below(0xfffe)).toString(16);
  return `2001:db8:${group()}:${group()}::1`;
}
