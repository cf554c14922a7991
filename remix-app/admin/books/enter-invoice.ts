import type { AppLoadContext } from "@remix-run/node";
import { platformBookId } from "../../studio/costs/platform-book.ts";
import { enterInvoice, type InvoiceEntry } from "../../studio/invoices/record-invoice.ts";
import type { StudioMember } from "../../studio/studio-reader.ts";
import { type ConsoleRefusal, confirmedChangeSchema, confirms, unavailable } from "../console-change.ts";
import { type FailedChange, failWithErrors, failWithRefusal } from "../failed-change.ts";
import { auditedChange } from "./platform-book.ts";

/**
 * The state of an invoice's entry after a step. If a confirmed invoice could not be recorded, the entry returns to the
 * review and `failed` says what to correct.
 */
export type PlatformInvoiceEntry =
  | Exclude<InvoiceEntry, { at: "review" }>
  | (Extract<InvoiceEntry, { at: "review" }> & { failed?: FailedChange; status?: ConsoleRefusal["status"] });

/**
 * Advances the entry of an invoice into the platform's book by one step, like {@link enterInvoice}. Recording one needs
 * a reason and its reference typed again. Without them, the review is shown again and nothing is recorded.
 * @throws Response 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function enterPlatformInvoice(
  context: AppLoadContext,
  { member, form }: { member: StudioMember; form: FormData },
): Promise<PlatformInvoiceEntry> {
  form.set("appId", platformBookId);
  if (!form.has("reviewedAt") || form.get("step") === "edit") return enterInvoice(context, { member, form });
  const showReview = async (failed: FailedChange, status: ConsoleRefusal["status"]): Promise<PlatformInvoiceEntry> => {
    form.delete("reviewedAt");
    const entry = await enterInvoice(context, { member, form });
    return entry.at === "review" ? { ...entry, failed, status } : entry;
  };
  const confirmed = confirmedChangeSchema.safeParse(Object.fromEntries(form));
  if (!confirmed.success) return showReview(failWithErrors(confirmed.error, form), 400);
  const { reason, confirmation } = confirmed.data;
  if (!confirms(confirmation, String(form.get("reference") ?? ""))) {
    const message = "That isn’t the invoice’s reference. Nothing was recorded.";
    return showReview(failWithRefusal({ message, field: "confirmation" }, form), 400);
  }
  try {
    return await enterInvoice(context, { member, form, change: auditedChange(context, reason) });
  } catch (error) {
    if (!(error instanceof Response) || error.status !== unavailable.status) throw error;
    return showReview(failWithRefusal(unavailable, form), unavailable.status);
  }
}
