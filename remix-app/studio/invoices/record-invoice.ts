import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { enteredInvoice, InvoiceReceipt } from "#shared/provider-records.ts";
import { utcTime } from "#shared/utc-time.ts";
import { problem } from "../../http/problem.ts";
import type { AuditedChange } from "../costs/platform-book.ts";
import type { InvoiceRecord } from "../costs/provider-import-schema.ts";
import { callAsMember, isUnavailable, type StudioMember } from "../studio-reader.ts";
import { findImportRate, type ImportRate, type InvoiceReview, requireInvoice, reviewInvoice } from "./invoice-entry.ts";
import {
  type InvoiceErrors,
  invoiceFields,
  recordedFields,
  type TypedInvoice,
  unconfirmedInvoice,
} from "./invoice-facts.ts";
import { type InvoiceDraft, readInvoiceForm } from "./invoice-form.ts";

const recordAnswer = z.union([
  z.object({ outcome: z.enum(["stored", "unchanged"]), id: z.uuid() }),
  z.object({
    refused: z.literal("invoice_conflict"),
    /** The id of the stored invoice. `differs` lists the fields in which the new invoice differs from it. */
    id: z.uuid(),
    differs: z.array(z.enum([...recordedFields, "reviewedAt"])),
    /** Set if another invoice already replaces the same invoice. */
    message: z.string().optional(),
  }),
  /** The invoice would change closed months (YYYY-MM). */
  z.object({ refused: z.literal("month_closed"), months: z.array(z.string()) }),
  z.object({
    refused: z.enum(["not_allowed", "app_not_linked", "invalid_request"]),
    param: z.string().optional(),
    message: z.string().optional(),
  }),
]);

type EnteredInvoice = z.output<typeof enteredInvoice>;

/**
 * Stores a reviewed invoice in a book, or returns why it was not stored. A repeated call changes nothing.
 * @throws Response 503 UNAVAILABLE
 */
function storeInvoice(
  context: AppLoadContext,
  {
    member,
    invoice: { appId, ...record },
    change,
  }: { member: StudioMember; invoice: EnteredInvoice["record"]; change?: AuditedChange | undefined },
) {
  const args = { app: appId, record, ...(change ? { change } : {}) };
  return callAsMember(context, { member, name: "record_provider_invoice", args, schema: recordAnswer });
}

/**
 * Stores an invoice sent to the API, like {@link storeInvoice}.
 * @param options.change what the audit log records, for the platform's book
 * @throws Response 400 INVALID_REQUEST, 403 FORBIDDEN, 409 CONFLICT if it is stored with other values, 503 UNAVAILABLE
 */
export async function recordInvoice(
  context: AppLoadContext,
  {
    member,
    invoice: { record, receipt },
    change,
  }: { member: StudioMember; invoice: EnteredInvoice; change?: AuditedChange },
): Promise<InvoiceReceipt> {
  const answer = await storeInvoice(context, { member, invoice: record, change });
  if ("outcome" in answer) return { accepted: true, reference: record.reference, ...receipt };
  const { requestId } = context;
  switch (answer.refused) {
    case "not_allowed":
      throw problem("FORBIDDEN", { requestId });
    case "app_not_linked":
      throw problem("INVALID_REQUEST", {
        requestId,
        detail: "appId: no enabled external app linked to this workspace.",
        members: { param: "appId" },
      });
    case "month_closed":
      throw problem("CONFLICT", { requestId, detail: `These months are closed: ${answer.months.join(", ")}.` });
    case "invoice_conflict":
      throw problem("CONFLICT", {
        requestId,
        detail:
          answer.message ??
          "An invoice with this reference is already recorded with other values. Invoices never change.",
      });
    case "invalid_request":
      throw problem("INVALID_REQUEST", {
        requestId,
        ...(answer.message ? { detail: answer.message } : {}),
        ...(answer.param ? { members: { param: answer.param } } : {}),
      });
  }
}

/** The result of one step of entering an invoice. */
export type InvoiceEntry =
  | { at: "form"; typed: TypedInvoice; errors: InvoiceErrors; closedMonths?: readonly string[] }
  | {
      at: "review";
      typed: TypedInvoice;
      draft: InvoiceDraft;
      review: InvoiceReview;
      /** The exchange rate of the provider's imported costs, if the invoice is in another currency than US dollars. */
      importRate: ImportRate | null;
      /** Whether it is reviewed again because the database did not answer when it was to be recorded. */
      isUnconfirmed: boolean;
    }
  | { at: "conflict"; typed: TypedInvoice; draft: InvoiceDraft; stored: InvoiceRecord; differs: readonly string[] }
  | { at: "receipt"; id: string };

/**
 * Advances the entry of an invoice into a book by one step. `edit` shows the form again, a form with the time of its
 * review is recorded, and any other step reviews the typed values. For a stored invoice, a double click, a reload or a
 * second review returns the same receipt, even if the review time differs. If the database does not answer, the invoice
 * is reviewed again.
 * @param options.change what the audit log records, for the platform's book
 * @throws Response 403; 503, which says whether the invoice may have been recorded
 */
export async function enterInvoice(
  context: AppLoadContext,
  { member, form, change }: { member: StudioMember; form: FormData; change?: AuditedChange },
): Promise<InvoiceEntry> {
  const { typed, read } = await readFormWithRate(context, { member, form });
  if ("errors" in read) return { at: "form", typed, errors: read.errors };
  if (form.get("step") === "edit") return { at: "form", typed, errors: {} };
  const { draft } = read;
  const reviewedAt = utcTime.safeParse(form.get("reviewedAt"));
  if (!reviewedAt.success) return openReview(context, { member, typed, draft });
  const invoice = { ...draft, reviewedAt: reviewedAt.data };
  const answer = await storeInvoice(context, { member, invoice, change }).catch((error: unknown) => {
    if (isUnavailable(error)) return null;
    throw error;
  });
  if (answer === null) return reviewUnconfirmed(context, { member, typed, draft });
  if ("outcome" in answer) return { at: "receipt", id: answer.id };
  switch (answer.refused) {
    case "not_allowed":
      throw problem("FORBIDDEN", { requestId: context.requestId });
    case "month_closed":
      return { at: "form", typed, errors: {}, closedMonths: answer.months };
    case "invoice_conflict": {
      if (answer.message) return { at: "form", typed, errors: { replaces: answer.message } };
      const differs = answer.differs.filter((field) => field !== "reviewedAt");
      if (differs.length === 0) return { at: "receipt", id: answer.id };
      const { invoice } = await requireInvoice(context, { member, invoiceId: answer.id });
      return { at: "conflict", typed, draft, stored: invoice, differs };
    }
    default: {
      const field = invoiceFields.find((name) => name === answer.param);
      if (field) return { at: "form", typed, errors: { [field]: answer.message } };
      // For example, the app was unlinked after the review, or the form's review time did not come from us. Reviews the
      // invoice again, which shows any remaining error.
      return openReview(context, { member, typed, draft });
    }
  }
}

/** Reads the form. If only the exchange rate is missing, uses the rate of the imported costs. */
async function readFormWithRate(context: AppLoadContext, { member, form }: { member: StudioMember; form: FormData }) {
  const [shownCurrency, shownRate] = String(form.get("shownRate") ?? "").split(" ");
  // The rate that the form showed belongs to the currency that it showed.
  if (shownRate && shownRate === form.get("exchangeRate") && shownCurrency !== form.get("currency")) {
    form.set("exchangeRate", "");
  }
  const typed = readInvoiceForm(form);
  if (!("rateless" in typed.read) || typed.read.rateless === undefined) return typed;
  const found = await findImportRate(context, { member, draft: typed.read.rateless });
  if (!found) return typed;
  form.set("exchangeRate", found.rate);
  return readInvoiceForm(form);
}

/** Returns the receipt of an invoice that was recorded without an answer, otherwise its review. */
async function reviewUnconfirmed(
  context: AppLoadContext,
  invoice: { member: StudioMember; typed: TypedInvoice; draft: InvoiceDraft },
): Promise<InvoiceEntry> {
  const entry = await openReview(context, invoice).catch((error: unknown) => {
    if (!isUnavailable(error)) throw error;
    throw problem("UNAVAILABLE", { requestId: context.requestId, detail: unconfirmedInvoice });
  });
  return entry.at === "review" ? { ...entry, isUnconfirmed: true } : entry;
}

async function openReview(
  context: AppLoadContext,
  { member, typed, draft }: { member: StudioMember; typed: TypedInvoice; draft: InvoiceDraft },
): Promise<InvoiceEntry> {
  const [answer, importRate] = await Promise.all([
    reviewInvoice(context, { member, draft }),
    findImportRate(context, { member, draft }),
  ]);
  switch (answer.outcome) {
    case "app_not_linked":
      return { at: "form", typed, errors: { appId: "Choose an app that is linked to this workspace" } };
    case "not_issued_yet":
      return { at: "form", typed, errors: { issuedOn: "The issue date can’t be in the future" } };
    case "month_closed":
      return { at: "form", typed, errors: {}, closedMonths: answer.months };
    case "cannot_replace":
      return { at: "form", typed, errors: { [answer.param]: answer.message } };
    case "reviewed": {
      const { kept: stored, differs } = answer;
      if (!stored || !differs) return { at: "review", typed, draft, review: answer, importRate, isUnconfirmed: false };
      return differs.length === 0
        ? { at: "receipt", id: stored.id }
        : { at: "conflict", typed, draft, stored, differs };
    }
  }
}
