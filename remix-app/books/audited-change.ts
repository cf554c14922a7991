import type { AppLoadContext } from "@remix-run/node";
import type { AuditedChange } from "../studio/costs/platform-book.ts";

/** Returns what the audit log records about a change to the platform's book, with the reason in the form. */
export function auditedChange({ requestId, clientAddress }: AppLoadContext, form: FormData): AuditedChange {
  return { reason: String(form.get("reason") ?? "").trim(), requestId, ip: clientAddress };
}
