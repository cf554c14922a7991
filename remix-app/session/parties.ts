import type { AppLoadContext } from "@remix-run/server-runtime";
import type { Claims } from "#shared/claims.ts";
import { problem } from "../http/problem.ts";
import { requireUser, type User } from "./user.ts";

/**
 * The token's claims of a browser that asks: its session comes by cookie. Whether the session is alive is not asked.
 * @throws Response 401 without a session, 403 for a Bearer caller, 503 where the session could not be judged
 */
export function requireBrowser({ session, requestId }: AppLoadContext): Claims {
  const { auth } = session;
  if (auth.status === "unavailable") throw problem("AUTH_UNAVAILABLE", { requestId });
  if (auth.status === "anonymous") throw problem("UNAUTHENTICATED", { requestId });
  if (auth.via === "cookie") return auth.claims;
  throw problem("FORBIDDEN", { requestId, detail: "This is for the browser that is signed in by its cookie." });
}

/**
 * Who answers from a phone: its session comes as a Bearer, and satisfies what the account demands.
 * @throws Response 401 without a session, 403 for a cookie's and where a second factor is due, 503
 */
export async function requirePhone(context: AppLoadContext, request: Request): Promise<{ user: User; claims: Claims }> {
  const { session, requestId } = context;
  const { auth } = session;
  const user = await requireUser(context, request);
  if (auth.status === "authenticated" && auth.via === "bearer") return { user, claims: auth.claims };
  throw problem("FORBIDDEN", { requestId, detail: "Answer this in the app on your phone." });
}
