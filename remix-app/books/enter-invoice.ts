import type { AppLoadContext } from "@remix-run/node";
import { reasonedChangeSchema } from "../admin/confirmation.ts";
import { type FailedChange, failWithErrors, failWithRefusal } from "../admin/failed-change.ts";
import { platformBookId } from "../studio/costs/platform-book.ts";
import { attachDocument, readDocument } from "../studio/invoices/invoice-document.ts";
import { unconfirmedInvoice } from "../studio/invoices/invoice-facts.ts";
import { enterInvoice, type InvoiceEntry } from "../studio/invoices/record-invoice.ts";
import { isUnavailable, type StudioMember } from "../studio/studio-reader.ts";
import { auditedChange } from "./audited-change.ts";
import type { Book } from "./book.ts";

/**
 * The state of an invoice's entry after a step. If a confirmed invoice could not be recorded, the entry returns to the
 * review and `failed` says what to correct.
 */
export type BookInvoiceEntry =
  | Exclude<InvoiceEntry, { at: "review" | "receipt" }>
  | (Extract<InvoiceEntry, { at: "review" }> & {
      failed?: FailedChange | undefined;
      documentError?: string | undefined;
    })
  /** `isUnattached` means that the invoice is recorded, but not its document. */
  | (Extract<InvoiceEntry, { at: "receipt" }> & { isUnattached?: boolean });

/** Returns the HTTP status of a page that shows an entry. */
export function statusOfEntry(entry: Exclude<BookInvoiceEntry, { at: "receipt" }>): number {
  switch (entry.at) {
    case "form":
      if (entry.closedMonths) return 409;
      return Object.keys(entry.errors).length === 0 ? 200 : 400;
    case "review":
      if (entry.isUnconfirmed) return 503;
      return entry.failed || entry.documentError ? 400 : 200;
    case "conflict":
      return 409;
  }
}

/**
 * Advances the entry of an invoice into a book by one step, like {@link enterInvoice}. Recording one in the platform's
 * book needs a reason. Without it, the review is shown again and nothing is recorded. An invoice of a workspace may be
 * recorded with its document.
 * @throws Response 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function enterBookInvoice(
  context: AppLoadContext,
  { book, member, form }: { book: Book; member: StudioMember; form: FormData },
): Promise<BookInvoiceEntry> {
  if (!book.isPlatform) return enterWithDocument(context, { member, form });
  form.set("appId", platformBookId);
  const isRecording = form.has("reviewedAt") && form.get("step") !== "edit";
  const { error } = reasonedChangeSchema.safeParse(Object.fromEntries(form));
  const failed = isRecording && error ? failWithErrors(error, form) : undefined;
  // Without the time of its review, an invoice is reviewed and not recorded.
  if (failed) form.delete("reviewedAt");
  const entry = await enterInvoice(context, { member, form, change: auditedChange(context, form) });
  if (entry.at !== "review") return entry;
  return { ...entry, failed: entry.isUnconfirmed ? failWithRefusal({ message: unconfirmedInvoice }, form) : failed };
}

/** Advances the entry like {@link enterInvoice}, and attaches the form's document to the recorded invoice. */
async function enterWithDocument(
  context: AppLoadContext,
  { member, form }: { member: StudioMember; form: FormData },
): Promise<BookInvoiceEntry> {
  const document = await readDocument(form);
  const documentError = document && "error" in document ? document.error : undefined;
  // Without the time of its review, an invoice is reviewed and not recorded.
  if (documentError) form.delete("reviewedAt");
  const entry = await enterInvoice(context, { member, form });
  if (entry.at === "review") return { ...entry, documentError };
  if (entry.at !== "receipt" || !document || "error" in document) return entry;
  const attached = await attachDocument(context, { member, invoiceId: entry.id, document }).catch((error: unknown) => {
    if (isUnavailable(error)) return { error: "The database didn’t respond" };
    throw error;
  });
  return { ...entry, isUnattached: attached !== null };
}
