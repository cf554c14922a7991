import { type AppLoadContext, redirect } from "@remix-run/node";
import { requireFormAccount } from "../http/form.ts";
import { problem } from "../http/problem.ts";
import { addReturnUrl, getDestination } from "../http/redirect-target.ts";
import type { ConsoleRole } from "../session/console-role.ts";
import { getUser, requireFreshUser, requireUser, type User } from "../session/user.ts";

/** A person who may use the console and has passed the second factor in this session. */
export type InfrastructureAdmin = Pick<User, "id" | "email" | "sessionId">;

type ConsolePerson = InfrastructureAdmin & Pick<User, "displayName">;

/**
 * Returns the infrastructure admin who makes this request, based on their current database row. The session must have
 * passed the backend's own second factor, and its last proof must be at most ten minutes old. A phone approval does not
 * replace the second factor, and an account without an authenticator must enroll one first.
 * @throws Response 403 FORBIDDEN for anyone else, finance people included
 * @throws Response a redirect to the page for the missing step, which returns here afterwards; for APIs and bearer
 * callers 403 MFA_REQUIRED or STEP_UP_REQUIRED
 */
export function requireInfrastructureAdmin(context: AppLoadContext, request: Request): Promise<ConsolePerson> {
  const detail = "Only platform administrators can use the admin console.";
  return requireConsoleRole(context, { request, roles: ["admin"], detail });
}

/**
 * Returns the infrastructure admin or the finance person who makes this request, for the pages of the platform's books.
 * @throws Response like {@link requireInfrastructureAdmin}
 */
export function requirePlatformBooks(context: AppLoadContext, request: Request): Promise<ConsolePerson> {
  const detail = "Only platform administrators and finance people can use the platform’s books.";
  return requireConsoleRole(context, { request, roles: ["admin", "finance"], detail });
}

/**
 * Leads finance people from the console's first page, which is for admins, to the books.
 * @throws Response a redirect to the platform's books
 */
export async function redirectToBooks(context: AppLoadContext): Promise<void> {
  const user = await getUser(context);
  if (user?.consoleRole === "finance") throw redirect("/admin/books");
}

async function requireConsoleRole(
  context: AppLoadContext,
  { request, roles, detail }: { request: Request; roles: readonly ConsoleRole[]; detail: string },
): Promise<ConsolePerson> {
  const user = await requireUser(context, request);
  const { requestId } = context;
  if (user.consoleRole === null || !roles.includes(user.consoleRole)) {
    await requireFormAccount(context, request);
    throw problem("FORBIDDEN", { requestId, detail });
  }
  if (!user.mfa.enrolled || user.aal === "aal1") {
    const isPage = context.surface === "page" && !request.headers.has("authorization");
    if (!isPage) throw problem("MFA_REQUIRED", { requestId });
    throw redirect(addReturnUrl(user.mfa.enrolled ? "/step-up" : "/mfa/enroll", getDestination(request, context)));
  }
  const { id, email, sessionId, displayName } = await requireFreshUser(context, request, { keepsForm: true });
  return { id, email, sessionId, displayName };
}
