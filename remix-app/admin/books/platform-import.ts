import type { AppLoadContext } from "@remix-run/node";
import { problem } from "../../http/problem.ts";
import { type ImportEntry, takeImportStep } from "../../studio/costs/cost-import/import-steps.ts";
import { platformBookId } from "../../studio/costs/platform-book.ts";
import type { StudioMember } from "../../studio/studio-reader.ts";
import { confirms, reasonSchema } from "../console-change.ts";
import { auditedChange } from "./platform-book.ts";

/**
 * Advances an import by one step. An import needs a reason and the provider's name typed again. Without
 * them, the review is shown again and nothing is stored.
 * @throws Response 403 FORBIDDEN, 429 RATE_LIMITED, 503 UNAVAILABLE
 */
export async function takePlatformStep(
  context: AppLoadContext,
  { member, form }: { member: StudioMember; form: FormData },
): Promise<ImportEntry> {
  const errors = form.get("step") === "import" ? confirmationErrors(form) : null;
  if (errors) form.set("step", "preview");
  const change = auditedChange(context, String(form.get("reason") ?? "").trim());
  const isImport = form.get("step") === "import";
  const entry = await takeImportStep(context, { member, appId: platformBookId, form, change }).catch((error) => {
    if (!isImport || !(error instanceof Response) || error.status !== 503) throw error;
    const detail = "The database didn’t respond. Upload the file again to see whether its costs were stored.";
    throw problem("UNAVAILABLE", { requestId: context.requestId, detail });
  });
  if (entry.at !== "review" || !errors) return entry;
  return { at: "review", review: { ...entry.review, errors: { ...entry.review.errors, ...errors } } };
}

/** Returns what is wrong with the confirmation of an import, or null. */
function confirmationErrors(form: FormData): Record<string, string> | null {
  const readText = (name: string) => String(form.get(name) ?? "").trim();
  const reason = reasonSchema.safeParse(readText("reason"));
  const errors = {
    ...(reason.success ? {} : { reason: reason.error.issues[0]?.message ?? "" }),
    ...(confirms(readText("confirmation"), readText("provider")) ? {} : { confirmation: typeProvider }),
  };
  return Object.keys(errors).length > 0 ? errors : null;
}

const typeProvider = "Type the provider’s name exactly as above. Nothing was stored.";
