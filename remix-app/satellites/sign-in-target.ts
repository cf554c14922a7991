import type { AppLoadContext } from "@remix-run/server-runtime";
import { redirectTarget } from "../http/redirect-target.ts";
import { appDestination, continuePath } from "./app-destination.ts";

/** Where a sign-in leads, as the address of the sign-in page says. */
export interface SignInTarget {
  /** A path of ours, or empty where nothing usable was asked for. */
  returnUrl: string;
  /** The app that asked for the sign-in, by the name people know. */
  appName: string | null;
  /** Whether an address was given and is none of ours, nor of a registered app. */
  dropped: boolean;
}

/**
 * Reads `returnUrl` (and `state`) of the sign-in page: our own paths, and pages of registered apps, which lead to the
 * page that asks before it hands anybody over. Anything else is dropped.
 */
export async function readSignInTarget(context: AppLoadContext, query: URLSearchParams): Promise<SignInTarget> {
  const given = query.get("returnUrl");
  if (given === null) return { returnUrl: "", appName: null, dropped: false };
  const own = redirectTarget(given, { origin: context.origin, fallback: "" });
  if (own !== "") {
    const { pathname, searchParams } = new URL(own, context.origin);
    const app = pathname === "/continue" ? await appDestination(context, searchParams.get("returnUrl")) : null;
    return { returnUrl: own, appName: app?.app.displayName ?? null, dropped: false };
  }
  const destination = await appDestination(context, given);
  if (!destination) return { returnUrl: "", appName: null, dropped: true };
  const returnUrl = continuePath(given, query.get("state"));
  return { returnUrl, appName: destination.app.displayName, dropped: false };
}
