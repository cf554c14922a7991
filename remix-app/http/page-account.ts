import { problem } from "./problem.ts";
import { redirectTarget, type TargetContext } from "./redirect-target.ts";

// Another tab may switch accounts while a page is open: what the page sends then says whose page it is.

/** In which forms say so (AccountForm). Forms that are anybody's have none. */
export const pageAccountField = "pageAccount";

/** In which scripts say so, where their body is another service's. */
export const pageAccountHeader = "X-Page-Account";

/** What of a request says whose it is. */
export interface PageContext extends TargetContext {
  requestId: string;
  session: {
    auth:
      | { status: "authenticated"; claims: { sub: string; email?: string | undefined } }
      | { status: "anonymous" | "unavailable" };
  };
}

/**
 * Of what a page sends, which says whose page it is: it is for that account alone.
 * @throws Response 409 where another one is signed in by now; it has the page, for the way back
 */
export function requirePageAccount(
  context: PageContext,
  { request, pageAccount }: { request: Request; pageAccount: string },
): void {
  const { auth } = context.session;
  if (auth.status !== "authenticated" || pageAccount === auth.claims.sub) return;
  const { pathname } = new URL(request.url);
  const fallback = redirectTarget(pathname, { context, fallback: "/" });
  const page = redirectTarget(request.headers.get("referer"), { context, fallback });
  const active = auth.claims.email || "another account";
  const detail = `You are signed in as ${active} now, and what you sent is from another account's page. Nothing was changed.`;
  throw problem("CONFLICT", { requestId: context.requestId, detail, members: { page } });
}
