import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { callAppFunction } from "../apps/app-database.ts";
import { redirectTarget } from "../http/redirect-target.ts";

const maxLength = 2_048;
// Browsers drop some control characters and treat a backslash as a slash.
const unsafeCharacters = /[\p{Cc}\s\\]/u;
const stateShape = /^[A-Za-z0-9_.~-]{1,256}$/;

const registeredApp = z.object({
  name: z.string(),
  displayName: z.string(),
  enabled: z.boolean(),
  scopes: z.array(z.string()),
});

/** A page of a registered app to return to. */
export interface AppDestination {
  app: z.infer<typeof registeredApp>;
  /** The origin, exactly as registered. */
  origin: string;
  /** The path, query and fragment of the page, relative to `origin`. */
  nextUrl: string;
}

/**
 * Returns the registered app whose origin is exactly the origin of a URL, and the page that the URL names in the app.
 * @returns null if `address` is not an absolute URL, contains a user name or password, or belongs to no registered app
 * @throws Response 503 UNAVAILABLE if the registry did not answer
 */
export async function appDestination(context: AppLoadContext, address: unknown): Promise<AppDestination | null> {
  const url = parseAddress(address);
  if (!url) return null;
  const app = await callAppFunction(context, {
    name: "find_app_by_origin",
    args: { origin: url.origin },
    schema: registeredApp.nullable(),
  });
  if (!app) return null;
  // Dot segments may collapse into a leading `//`, which would name another host.
  const path = `${url.pathname}${url.search}${url.hash}`;
  return { app, origin: url.origin, nextUrl: path.startsWith("//") ? "/" : path };
}

/** Parses an http(s) URL without a user name, or returns null. */
export function parseAddress(address: unknown): URL | null {
  if (typeof address !== "string" || address.length > maxLength || unsafeCharacters.test(address)) return null;
  if (!/^https?:\/\/[^/]/i.test(address)) return null;
  const url = URL.parse(address);
  return url && url.username === "" && url.password === "" ? url : null;
}

/**
 * Returns the path of our page that hands a person over to an app. Its query contains the app's URL, and the state if
 * the state is well-formed.
 */
export function continuePath(address: string, state: string | null): string {
  const query = new URLSearchParams({ returnUrl: address });
  if (state !== null && stateShape.test(state)) query.set("state", state);
  return `/continue?${query}`;
}

/** Returns the app's URL that takes a token and completes the sign-in. */
export function verifyTokenAddress(
  { origin, nextUrl }: AppDestination,
  { token, state }: { token: string; state: string | null },
): string {
  const query = new URLSearchParams({ token, nextUrl });
  if (state !== null && stateShape.test(state)) query.set("state", state);
  return `${origin}/verify-token?${query}`;
}

const timeoutMs = 3_000;

/** Whether an app has the page that completes a sign-in. `missing`: the app answered 404. */
export type VerifyRoute = "present" | "missing" | "unreachable";

/**
 * Checks that an app has `/verify-token` before a person is sent there, since without it the handoff would end on an
 * error page. Asks only the registered origin, without credentials, and follows no redirect.
 */
export async function findVerifyRoute(origin: string): Promise<VerifyRoute> {
  try {
    const response = await fetch(resolveLocalhost(new URL("/verify-token", origin)), {
      method: "HEAD",
      redirect: "manual",
      signal: AbortSignal.timeout(timeoutMs),
    });
    return response.status === 404 || response.status === 410 ? "missing" : "present";
  } catch {
    return "unreachable";
  }
}

/** Browsers resolve every name under .localhost to this machine (RFC 6761 §6.3), but Node's resolver may not. */
function resolveLocalhost(url: URL): URL {
  if (url.hostname.endsWith(".localhost")) url.hostname = "127.0.0.1";
  return url;
}

/** Where a sign-in leads, from the sign-in page's query. */
export interface SignInTarget {
  /** One of our paths, or empty if the query has no usable path. */
  returnUrl: string;
  /** The display name of the app that requested the sign-in. */
  appName: string | null;
  /** Whether the given URL is on an origin that is neither ours nor a registered app's. */
  dropped: boolean;
}

/**
 * Reads the sign-in page's `returnUrl` and `state`. Accepts our own paths and pages of registered apps, and drops any
 * other URL. For an app's page, returns our page that asks the person before it signs them in to the app.
 */
export async function readSignInTarget(context: AppLoadContext, query: URLSearchParams): Promise<SignInTarget> {
  const returnUrlParam = query.get("returnUrl");
  if (returnUrlParam === null) return { returnUrl: "", appName: null, dropped: false };
  const ownPath = redirectTarget(returnUrlParam, { context, fallback: "" });
  if (ownPath !== "") {
    const { pathname, searchParams } = new URL(ownPath, context.origin);
    const app = pathname === "/continue" ? await appDestination(context, searchParams.get("returnUrl")) : null;
    return { returnUrl: ownPath, appName: app?.app.displayName ?? null, dropped: false };
  }
  const destination = await appDestination(context, returnUrlParam);
  if (!destination) {
    const isForeign = URL.parse(returnUrlParam, context.origin)?.origin !== context.origin;
    return { returnUrl: "", appName: null, dropped: isForeign };
  }
  const returnUrl = continuePath(returnUrlParam, query.get("state"));
  return { returnUrl, appName: destination.app.displayName, dropped: false };
}
