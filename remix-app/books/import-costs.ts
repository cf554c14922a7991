import type { AppLoadContext } from "@remix-run/node";
import { reasonSchema } from "../admin/console-change.ts";
import { type ImportEntry, takeImportStep } from "../studio/costs/cost-import/import-steps.ts";
import { platformBookId } from "../studio/costs/platform-book.ts";
import { listLinkedApps } from "../studio/invoices/invoice-entry.ts";
import type { StudioMember } from "../studio/studio-reader.ts";
import { auditedChange } from "./audited-change.ts";
import type { Book } from "./book.ts";

/**
 * Advances an import into a book by one step. An import into a workspace's book needs one of its linked apps. One into
 * the platform's book needs a reason. Without it, the review is shown again and nothing is stored.
 * @throws Response 403 FORBIDDEN, 429 RATE_LIMITED, 503 UNAVAILABLE
 */
export async function importCosts(
  context: AppLoadContext,
  { book, member, form }: { book: Book; member: StudioMember; form: FormData },
): Promise<ImportEntry> {
  if (!book.isPlatform) {
    const apps = await listLinkedApps(context, member);
    const app = apps.find(({ id }) => id === form.get("appId"));
    if (!app) return { at: "upload", errors: { appId: "Choose an app that is linked to this workspace" } };
    return takeImportStep(context, { member, appId: app.id, form });
  }
  const { error } = reasonSchema.safeParse(form.get("reason") ?? "");
  const reason = form.get("step") === "import" ? error?.issues[0]?.message : undefined;
  if (reason) form.set("step", "preview");
  const change = auditedChange(context, form);
  const entry = await takeImportStep(context, { member, appId: platformBookId, form, change });
  if (entry.at !== "review" || !reason) return entry;
  return { at: "review", review: { ...entry.review, errors: { ...entry.review.errors, reason } } };
}
