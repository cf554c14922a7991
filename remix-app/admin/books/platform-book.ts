import type { AppLoadContext } from "@remix-run/node";
import { type AuditedChange, platformBookId } from "../../studio/costs/platform-book.ts";
import type { StudioMember } from "../../studio/studio-reader.ts";
import { requireInfrastructureAdmin } from "../require-admin.ts";

/**
 * Returns the infrastructure admin who makes this request, with the platform's book.
 * @throws Response like {@link requireInfrastructureAdmin}
 */
export async function requirePlatformBook(context: AppLoadContext, request: Request): Promise<StudioMember> {
  const { id } = await requireInfrastructureAdmin(context, request);
  return { userId: id, workspaceId: platformBookId };
}

/** Returns what the audit log records about a change that an admin makes for a reason. */
export function auditedChange({ requestId, clientAddress }: AppLoadContext, reason: string): AuditedChange {
  return { reason, requestId, ip: clientAddress };
}
