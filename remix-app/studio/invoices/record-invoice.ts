import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { type enteredInvoice, rounding } from "#shared/provider-records.ts";
import { utcTime } from "#shared/utc-time.ts";
import { problem } from "../../http/problem.ts";
import type { InvoiceRecord } from "../costs/provider-import-schema.ts";
import { callAsMember, type StudioMember } from "../studio-reader.ts";
import { type InvoiceReview, requireInvoice, reviewInvoice } from "./invoice-entry.ts";
import { type DraftedInvoice, readInvoiceForm } from "./invoice-form.ts";
import type { InvoiceErrors, TypedInvoice } from "./invoice-words.ts";

export const invoiceReceipt = rounding.extend({ accepted: z.literal(true), reference: z.string() });

export const recordedInvoice = z.union([
  z.object({ outcome: z.enum(["stored", "unchanged"]), id: z.uuid() }),
  z.object({
    refused: z.literal("invoice_conflict"),
    /** The id of the stored invoice. `differs` lists the fields in which the new invoice differs from it. */
    id: z.uuid(),
    differs: z.array(z.enum(["kind", "replaces", "amountUsd", "issuedOn", "periodStart", "periodEnd", "reviewedAt"])),
    /** Set if another invoice already replaces the same invoice. */
    message: z.string().optional(),
  }),
  z.object({
    refused: z.enum(["not_allowed", "app_not_linked", "invalid_request"]),
    param: z.string().optional(),
    message: z.string().optional(),
  }),
]);

type EnteredInvoice = z.output<typeof enteredInvoice>;
type Entry = StudioMember & { invoice: EnteredInvoice["record"] };

/**
 * Stores a reviewed invoice for one of the workspace's apps, or returns why it was not stored. A repeated call changes
 * nothing.
 * @throws Response 503 UNAVAILABLE
 */
function keepInvoice(context: AppLoadContext, { invoice: { appId, ...record }, ...member }: Entry) {
  const args = { app: appId, record };
  return callAsMember(context, { member, name: "record_provider_invoice", args, schema: recordedInvoice });
}

/**
 * Stores an invoice sent to the API, like {@link keepInvoice}.
 * @throws Response 400 INVALID_REQUEST, 403 FORBIDDEN, 409 CONFLICT if it is stored with other values, 503 UNAVAILABLE
 */
export async function recordInvoice(
  context: AppLoadContext,
  { invoice: { record, receipt }, ...member }: StudioMember & { invoice: EnteredInvoice },
): Promise<z.output<typeof invoiceReceipt>> {
  const answer = await keepInvoice(context, { ...member, invoice: record });
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
  | { at: "form"; typed: TypedInvoice; errors: InvoiceErrors }
  | { at: "review"; typed: TypedInvoice; draft: DraftedInvoice; review: InvoiceReview }
  | { at: "conflict"; typed: TypedInvoice; draft: DraftedInvoice; kept: InvoiceRecord; differs: readonly string[] }
  | { at: "receipt"; id: string };

/**
 * Advances a member's entry of an invoice by one step. `edit` shows the form again, `record` stores what was reviewed,
 * and any other step reviews the typed values. For a stored invoice, a double click, a reload or a second review
 * returns the same receipt, even if the review time differs.
 * @throws Response 403, 503
 */
export async function enterInvoice(
  context: AppLoadContext,
  { member, form }: { member: StudioMember; form: FormData },
): Promise<InvoiceEntry> {
  const { typed, read } = readInvoiceForm(form);
  if ("errors" in read) return { at: "form", typed, errors: read.errors };
  const step = form.get("step");
  if (step === "edit") return { at: "form", typed, errors: {} };
  const entry = { member, typed, draft: read.draft };
  const reviewedAt = utcTime.safeParse(form.get("reviewedAt"));
  return step === "record" && reviewedAt.success
    ? record(context, { ...entry, reviewedAt: reviewedAt.data })
    : review(context, entry);
}

type Entering = { member: StudioMember; typed: TypedInvoice; draft: DraftedInvoice };

async function review(context: AppLoadContext, { member, typed, draft }: Entering): Promise<InvoiceEntry> {
  const answer = await reviewInvoice(context, { reader: { kind: "member", ...member }, draft });
  switch (answer.outcome) {
    case "app_not_linked":
      return { at: "form", typed, errors: { appId: "Choose an app that is linked to this workspace" } };
    case "not_issued_yet":
      return {
        at: "form",
        typed,
        errors: { issuedOn: "The issue date can’t be in the future" },
      };
    case "cannot_replace":
      return { at: "form", typed, errors: { [answer.param]: answer.message } };
    case "reviewed": {
      const { kept, differs } = answer;
      if (!kept || !differs) return { at: "review", typed, draft, review: answer };
      return differs.length === 0 ? { at: "receipt", id: kept.id } : { at: "conflict", typed, draft, kept, differs };
    }
  }
}

async function record(context: AppLoadContext, entry: Entering & { reviewedAt: string }): Promise<InvoiceEntry> {
  const { member, typed, draft, reviewedAt } = entry;
  const answer = await keepInvoice(context, { ...member, invoice: { ...draft, reviewedAt } });
  if ("outcome" in answer) return { at: "receipt", id: answer.id };
  switch (answer.refused) {
    case "not_allowed":
      throw problem("FORBIDDEN", { requestId: context.requestId });
    case "invoice_conflict": {
      if (answer.message) return { at: "form", typed, errors: { replaces: answer.message } };
      const differs = answer.differs.filter((field) => field !== "reviewedAt");
      if (differs.length === 0) return { at: "receipt", id: answer.id };
      const reader = { kind: "member", ...member } as const;
      const { invoice } = await requireInvoice(context, { reader, invoiceId: answer.id });
      return { at: "conflict", typed, draft, kept: invoice, differs };
    }
    default:
      if ("param" in answer && (answer.param === "replaces" || answer.param === "kind")) {
        return { at: "form", typed, errors: { [answer.param]: answer.message } };
      }
      // For example, the app was unlinked after the review, or the form's review time did not come from us. Reviews the
      // invoice again, which shows any remaining error.
      return review(context, entry);
  }
}
