import type { AppLoadContext } from "@remix-run/server-runtime";
import { problem } from "../http/problem.ts";
import { redirectTarget } from "../http/redirect-target.ts";
import type { SwitchOutcome } from "./switch-account.ts";

/** Where an account is entered: where the caller wants to go, else where it was left, else the start page. */
export function entryPath({
  targetRoute,
  lastRoute,
  origin,
}: {
  targetRoute?: unknown;
  lastRoute: string | null;
  origin: string;
}): string {
  const fallback = redirectTarget(lastRoute, { origin, fallback: "/" });
  return redirectTarget(targetRoute, { origin, fallback });
}

/** Why there is no browser to act in: a visitor or a bearer has none, while of a cookie's session nobody could say. */
export function withoutDevice({ session: { auth } }: AppLoadContext): "no_device" | "unavailable" {
  const none = auth.status === "anonymous" || (auth.status === "authenticated" && auth.via === "bearer");
  return none ? "no_device" : "unavailable";
}

const requiresReauth = { requiresReauth: true };

/** A switch, or whatever else a browser asks of its accounts, that came to nothing, as the API answers it. */
export function accountProblem(
  status: Exclude<SwitchOutcome["status"], "switched">,
  { requestId }: { requestId: string },
): Response {
  switch (status) {
    case "ended":
      return problem("REAUTH_REQUIRED", {
        requestId,
        detail: "This account's session has ended. Sign in to it again.",
        members: requiresReauth,
      });
    case "no_account":
      return problem("NOT_FOUND", {
        requestId,
        detail: "This account is not signed in in this browser.",
        members: requiresReauth,
      });
    case "no_device":
      return problem("UNAUTHENTICATED", { requestId, detail: "No account is signed in in this browser." });
    case "unavailable":
      return problem("AUTH_UNAVAILABLE", {
        requestId,
        detail: "We cannot do this right now. No account was signed out by it. Try again in a moment.",
        headers: { "Retry-After": "5" },
      });
  }
}
