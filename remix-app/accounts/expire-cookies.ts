import type { AppLoadContext } from "@remix-run/server-runtime";
import { clearDeviceCookie } from "./device-cookie.ts";

/**
 * What else is known of an account in a browser, and where. How the pages look, and by what was signed in, stays; so
 * does the state of a visit to a provider, without which nobody could undo what it began.
 */
const traces = [
  { name: "gh_own_password", path: "/" },
  { name: "gh_kept_form", path: "/" },
  { name: "gh_pending_mail", path: "/signup" },
  { name: "gh_sign_in_email", path: "/add-account" },
  { name: "gh_settings_notice", path: "/settings" },
  { name: "gh_link_result", path: "/settings" },
  { name: "gh_qr", path: "/qr" },
  { name: "gh_mfa_app", path: "/mfa" },
] as const;

/** Takes from the browser every cookie of ours that has to do with an account, host-only and by domain. With the session's go those of approvals. */
export function expireAccountCookies(context: AppLoadContext): void {
  const { session, jar, origin, env } = context;
  session.clear();
  clearDeviceCookie(jar, { origin, domain: env.PARENT_DOMAIN });
  for (const trace of traces) expire(context, trace);
}

function expire({ jar, origin, env }: AppLoadContext, { name, path }: { name: string; path: string }): void {
  const secure = origin.startsWith("https:");
  const attributes = { path, httpOnly: true, sameSite: "lax", secure, maxAge: 0 } as const;
  jar.set(name, "", attributes);
  if (env.PARENT_DOMAIN) jar.set(name, "", { ...attributes, domain: env.PARENT_DOMAIN });
  if (!secure) return;
  if (path === "/") jar.set(`__Host-${name}`, "", attributes);
  else jar.set(`__Secure-${name}`, "", attributes);
}
