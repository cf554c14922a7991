import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { utcTime } from "#shared/utc-time.ts";
import { pageOf, positionOf, readCursor } from "../../http/list-page.ts";
import { problem } from "../../http/problem.ts";
import { invoiceRecord, listedInvoiceShares, listedInvoices } from "../../studio/costs/provider-import-schema.ts";
import { cursorOfInvoice, type ImportFilter } from "../../studio/costs/provider-imports.ts";
import { comparison, reviewed, unreplaceable } from "../../studio/invoices/invoice-entry.ts";
import { type DraftedInvoice, readInvoiceForm } from "../../studio/invoices/invoice-form.ts";
import { invoiceFields, platformApp, type TypedInvoice } from "../../studio/invoices/invoice-words.ts";
import { type InvoiceEntry, recordedInvoice } from "../../studio/invoices/record-invoice.ts";
import { callFunction } from "../../supabase/data-api.ts";
import { type FailedChange, refused, unreadable } from "../change-answer.ts";
import { askConsole, type ConsoleRefusal, confirmedChangeSchema, confirms, unavailable } from "../console-change.ts";
import type { InfrastructureAdmin } from "../require-admin.ts";

type ListOptions = { limit: number; cursor: string | null | undefined };

/** Returns a page of the platform's invoices, the latest issued first, with the total of all matching invoices. */
export async function listPlatformInvoices(
  context: AppLoadContext,
  { filter, ...options }: ListOptions & { filter: ImportFilter & { month?: string } },
) {
  const { totals, records } = await readPage(context, { ...options, filter, schema: listedInvoices });
  return { totals, ...pageOf(records, { limit: options.limit, cursorOf: cursorOfInvoice }) };
}

/**
 * Returns a page of the platform's invoices that cover at least a day of the month, each with its share of that month.
 */
export async function listPlatformShares(
  context: AppLoadContext,
  { month, ...options }: ListOptions & { month: string },
) {
  const { records } = await readPage(context, { ...options, filter: { month }, schema: listedInvoiceShares });
  return pageOf(records, { limit: options.limit, cursorOf: cursorOfInvoice });
}

/** @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE */
function readPage<Schema extends z.ZodType>(
  context: AppLoadContext,
  { limit, cursor, filter, schema }: ListOptions & { filter: object; schema: Schema },
): Promise<z.output<Schema>> {
  const before = positionOf(cursor, { read: readCursor, requestId: context.requestId });
  const args = { before, page_size: limit + 1, filter };
  return callFunction(context, { name: "private.list_platform_invoices", args, schema });
}

const read = z.union([
  z.object({
    outcome: z.literal("read"),
    invoice: invoiceRecord,
    /** The admin's email; null if the account was deleted. */
    recorded: z.object({ name: z.string().nullable() }).nullable(),
    comparison: comparison.nullable(),
  }),
  z.object({ outcome: z.literal("not_found") }),
]);

/** Returns a platform invoice, who recorded it and how it compares with the books. @throws Response 404, 503 */
export async function requirePlatformInvoice(context: AppLoadContext, invoiceId: string | undefined) {
  const { requestId } = context;
  const id = z.uuid().safeParse(invoiceId);
  if (!id.success) throw problem("NOT_FOUND", { requestId, detail: "This invoice doesn’t exist." });
  const args = { invoice_id: id.data };
  const answer = await callFunction(context, { name: "private.read_platform_invoice", args, schema: read });
  if (answer.outcome === "not_found") {
    throw problem("NOT_FOUND", { requestId, detail: "This invoice doesn’t exist." });
  }
  const { invoice, recorded, comparison: compared } = answer;
  return { invoice, recorded, comparison: compared };
}

/**
 * The state of an invoice's entry after a step. If a confirmed invoice could not be recorded, the entry returns to the
 * review and `failed` says what to correct.
 */
export type PlatformInvoiceEntry =
  | Extract<InvoiceEntry, { at: "form" | "conflict" | "receipt" }>
  | (Extract<InvoiceEntry, { at: "review" }> & { failed?: FailedChange; status?: ConsoleRefusal["status"] });

type Entering = { typed: TypedInvoice; draft: DraftedInvoice };

/**
 * Advances the entry of an invoice by one step: typed values are reviewed, a confirmed review is recorded, and the step
 * `edit` shows the form again. An invoice that is already recorded with these values leads to its receipt.
 * @throws Response 503 UNAVAILABLE
 */
export async function enterPlatformInvoice(
  context: AppLoadContext,
  { admin, form }: { admin: InfrastructureAdmin; form: FormData },
): Promise<PlatformInvoiceEntry> {
  form.set("appId", platformApp);
  const { typed, read: asked } = readInvoiceForm(form);
  if ("errors" in asked) return { at: "form", typed, errors: asked.errors };
  if (form.get("step") === "edit") return { at: "form", typed, errors: {} };
  const entry = { typed, draft: asked.draft };
  const reviewedAt = utcTime.safeParse(form.get("reviewedAt"));
  return reviewedAt.success
    ? record(context, { ...entry, admin, form, reviewedAt: reviewedAt.data })
    : review(context, entry);
}

const reviewAnswer = z.union([reviewed, unreplaceable, z.object({ outcome: z.literal("not_issued_yet") })]);

async function review(context: AppLoadContext, { typed, draft }: Entering): Promise<PlatformInvoiceEntry> {
  const { appId: _, ...record } = draft;
  const answer = await callFunction(context, {
    name: "private.review_platform_invoice",
    args: { record },
    schema: reviewAnswer,
  });
  if (answer.outcome === "not_issued_yet") {
    const message = "The issue date can’t be in the future";
    return { at: "form", typed, errors: { issuedOn: message } };
  }
  if (answer.outcome === "cannot_replace") return { at: "form", typed, errors: { [answer.param]: answer.message } };
  const { kept, differs } = answer;
  if (!kept || !differs) return { at: "review", typed, draft, review: answer };
  return differs.length === 0 ? { at: "receipt", id: kept.id } : { at: "conflict", typed, draft, kept, differs };
}

const recordAnswer = z.union([recordedInvoice, z.object({ refused: z.literal("forbidden") })]);

async function record(
  context: AppLoadContext,
  { admin, form, ...entry }: Entering & { admin: InfrastructureAdmin; form: FormData; reviewedAt: string },
): Promise<PlatformInvoiceEntry> {
  const { typed, draft, reviewedAt } = entry;
  /** Shows the review again, with what to correct. */
  const again = async (failed: FailedChange, status: ConsoleRefusal["status"]): Promise<PlatformInvoiceEntry> => {
    const shown = await review(context, entry);
    return shown.at === "review" ? { ...shown, failed, status } : shown;
  };
  const asked = confirmedChangeSchema.safeParse(Object.fromEntries(form));
  if (!asked.success) return again(unreadable(asked.error, form), 400);
  if (!confirms(asked.data.confirmation, draft.reference)) {
    const message = "That isn’t the invoice’s reference. Nothing was recorded.";
    return again(refused({ message, field: "confirmation" }, form), 400);
  }
  const { appId: _, ...invoice } = draft;
  const answer = await askConsole(context, {
    admin,
    name: "record_platform_invoice",
    change: { reason: asked.data.reason, record: { ...invoice, reviewedAt } },
    schema: recordAnswer,
  });
  if (answer === null) return again(refused(unavailable, form), unavailable.status);
  if ("outcome" in answer) return { at: "receipt", id: answer.id };
  switch (answer.refused) {
    case "invoice_conflict": {
      if (answer.message) return { at: "form", typed, errors: { replaces: answer.message } };
      const differs = answer.differs.filter((field) => field !== "reviewedAt");
      if (differs.length === 0) return { at: "receipt", id: answer.id };
      const { invoice: kept } = await requirePlatformInvoice(context, answer.id);
      return { at: "conflict", typed, draft, kept, differs };
    }
    case "invalid_request": {
      const field = invoiceFields.find((name) => name === answer.param);
      // Reviews the invoice again if the parameter at fault is not a field of the form.
      return field ? { at: "form", typed, errors: { [field]: answer.message } } : review(context, entry);
    }
    default:
      throw problem("FORBIDDEN", { requestId: context.requestId });
  }
}
