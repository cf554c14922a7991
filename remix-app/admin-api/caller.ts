import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { type InfrastructureAdmin, requireInfrastructureAdmin, requirePlatformBooks } from "../admin/require-admin.ts";
import { problem } from "../http/problem.ts";
import { getServiceCaller } from "../machines/service-caller.ts";
import { callFunction } from "../supabase/data-api.ts";
import type { AdminScope } from "./table.ts";

/** Who calls the admin API: a person with a role in the console, or a service account of the platform. */
export interface AdminCaller {
  id: string;
  /** Null for a service account. */
  person: InfrastructureAdmin | null;
  /** The scopes of a service account's token; null for a person. */
  scopes: readonly string[] | null;
}

/**
 * Returns the caller of an operation, by current database rows. A person needs a session with a second factor whose
 * last proof is at most ten minutes old, as on the console's pages. A service account needs a token with the scope.
 * @throws Response 401 UNAUTHENTICATED; 403 FORBIDDEN, MFA_REQUIRED or STEP_UP_REQUIRED; 429 RATE_LIMITED
 */
export async function requireAdminCaller(
  context: AppLoadContext,
  { request, scope }: { request: Request; scope: AdminScope },
): Promise<AdminCaller> {
  const service = await getServiceCaller(context, request);
  if (service === null) {
    const requirePerson = scope === "books" ? requirePlatformBooks : requireInfrastructureAdmin;
    const person = await requirePerson(context, request);
    return { id: person.id, person, scopes: null };
  }
  await countRequest(context, service.id);
  const { requestId } = context;
  if (scope === "person") {
    const detail = "Only an administrator’s own session can do this, not a service account.";
    throw problem("FORBIDDEN", { requestId, detail });
  }
  // A service account of a workspace has no scope of the platform.
  const scopes = service.workspaceId === null ? service.scopes : [];
  const caller = { id: service.id, person: null, scopes };
  requireAdminScope(caller, { scope, requestId });
  return caller;
}

/** Requires that a service account's token has a scope. @throws Response 403 FORBIDDEN */
export function requireAdminScope(
  { scopes }: AdminCaller,
  { scope, requestId }: { scope: Exclude<AdminScope, "person">; requestId: string },
): void {
  if (scopes === null || scopes.includes(`admin:${scope}`)) return;
  const detail = `The service account’s token doesn’t have the scope admin:${scope}.`;
  throw problem("FORBIDDEN", { requestId, detail });
}

/** Counts a service account's request. @throws Response 429 RATE_LIMITED if there were too many in a minute */
async function countRequest(context: AppLoadContext, serviceAccountId: string): Promise<void> {
  const seconds = await callFunction(context, {
    name: "private.count_admin_request",
    args: { service_account: serviceAccountId },
    schema: z.number().int().nullable(),
  });
  if (seconds === null) return;
  const detail = `This service account sent too many requests. Try again in ${seconds} s.`;
  throw problem("RATE_LIMITED", {
    requestId: context.requestId,
    detail,
    headers: { "Retry-After": String(seconds) },
  });
}
