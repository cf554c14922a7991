import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../../http/problem.ts";
import { amountText } from "../../ui/format-amount.ts";
import { importedFile, invoiceRecord } from "../costs/provider-import-schema.ts";
import { readStudio, type StudioMember } from "../studio-reader.ts";
import type { InvoiceDraft } from "./invoice-form.ts";

const countSchema = z.number().int();
const daySchema = z.string();

/** The costs that were metered, imported and invoiced in an invoice's period. */
const comparisonSchema = z.object({
  firstDay: daySchema,
  lastDay: daySchema,
  /** Null if the workspace hides provider costs. */
  meteredUsd: amountText.nullable(),
  importedUsd: amountText,
  importedRecords: countSchema,
  importedDifferenceUsd: amountText,
  otherInvoicesUsd: amountText,
  otherInvoices: countSchema,
});
export type InvoiceComparison = z.output<typeof comparisonSchema>;

const listedApps = z.object({
  outcome: z.literal("listed"),
  apps: z.array(z.object({ id: z.uuid(), name: z.string() })),
});
export type LinkedApp = z.output<typeof listedApps>["apps"][number];

/**
 * Lists the linked apps that a workspace can record invoices for.
 * @throws Response 403, 503 like readStudio
 */
export async function listLinkedApps(context: AppLoadContext, member: StudioMember): Promise<LinkedApp[]> {
  const { apps } = await readStudio(context, {
    reader: member,
    name: "list_linked_apps",
    args: {},
    schema: listedApps,
  });
  return apps;
}

const reviewedAnswer = z.object({
  outcome: z.literal("reviewed"),
  reviewedAt: z.string(),
  appName: z.string().nullable(),
  /** The stored invoice for the same app, provider, account and reference, and the fields that differ. */
  kept: invoiceRecord.nullable(),
  differs: z.array(z.string()).nullable(),
  comparison: comparisonSchema.nullable(),
});
export type InvoiceReview = z.output<typeof reviewedAnswer>;

const reviewAnswer = z.union([
  reviewedAnswer,
  z.object({ outcome: z.enum(["app_not_linked", "not_issued_yet"]) }),
  z.object({ outcome: z.literal("month_closed"), months: z.array(z.string()) }),
  /** The invoice entered under “Replaces” cannot be replaced. */
  z.object({ outcome: z.literal("cannot_replace"), param: z.enum(["replaces", "kind"]), message: z.string() }),
]);

/**
 * Returns the review of an invoice that a person is about to store permanently. Writes nothing.
 * @throws Response 403, 503 like readStudio
 */
export async function reviewInvoice(
  context: AppLoadContext,
  { member, draft: { appId, ...record } }: { member: StudioMember; draft: InvoiceDraft },
) {
  const args = { app: appId, record };
  return readStudio(context, { reader: member, name: "review_provider_invoice", args, schema: reviewAnswer });
}

const rateAnswer = z.union([
  z.object({ outcome: z.literal("found"), rate: z.string(), import: importedFile }),
  z.object({ outcome: z.literal("none") }),
]);
export type ImportRate = Extract<z.output<typeof rateAnswer>, { outcome: "found" }>;

/**
 * Returns the exchange rate with which the costs of an invoice's provider and period were imported last, and the file for
 * which it was entered. Returns null if no file has a rate for the invoice's currency, or for US dollars.
 * @throws Response 403, 503 like readStudio
 */
export async function findImportRate(
  context: AppLoadContext,
  {
    member,
    draft: { appId, provider, currency, issuedOn, periodStart, periodEnd },
  }: { member: StudioMember; draft: InvoiceDraft },
): Promise<ImportRate | null> {
  if (currency === undefined || currency === "USD") return null;
  const args = { app: appId, record: { provider, currency, issuedOn, periodStart, periodEnd } };
  const answer = await readStudio(context, { reader: member, name: "find_import_rate", args, schema: rateAnswer });
  return answer.outcome === "found" ? answer : null;
}

/**
 * Who recorded an invoice. An invoice recorded with an app's key names the app but no person, and one of the platform's
 * names the admin's email.
 */
const recorder = z.object({ by: z.enum(["person", "app"]), name: z.string().nullable() });
export type InvoiceRecorder = z.output<typeof recorder>;

export const readInvoiceAnswer = z.object({
  outcome: z.literal("read"),
  invoice: invoiceRecord,
  recorded: recorder.nullable(),
  /** The person who attached the document. */
  attachedBy: z.string().nullable(),
  comparison: comparisonSchema.nullable(),
});

/**
 * Returns an invoice of a book, who recorded it, and its comparison with other costs.
 * @throws Response 403, 404, 503
 */
export async function requireInvoice(
  context: AppLoadContext,
  { member, invoiceId = "" }: { member: StudioMember; invoiceId: string | undefined },
) {
  const notFound = () => problem("NOT_FOUND", { requestId: context.requestId, detail: "This invoice doesn’t exist." });
  if (!z.uuid().safeParse(invoiceId).success) throw notFound();
  const answer = await readStudio(context, {
    reader: member,
    name: "read_provider_invoice",
    args: { invoice_id: invoiceId },
    schema: z.union([readInvoiceAnswer, z.object({ outcome: z.literal("not_found") })]),
  });
  if (answer.outcome === "not_found") throw notFound();
  const { outcome: _, ...read } = answer;
  return read;
}
