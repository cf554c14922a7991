import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../../http/problem.ts";
import type { AuditedChange } from "../../studio/costs/platform-book.ts";
import { callAsMember, type StudioMember } from "../../studio/studio-reader.ts";
import { amountText } from "../../ui/format-amount.ts";

/** Enough to list the records of a month with a hundred thousand imported costs. */
const timeoutMs = 30_000;

const count = z.number().int();
const figuresSchema = z.object({
  provider: z.string(),
  meteredUsd: amountText,
  importedUsd: amountText,
  invoicedUsd: amountText,
  runs: count,
  importedRecords: count,
  invoices: count,
});

/** What is open in a provider's month when it is closed. */
const openPointKinds = [
  "nothing_reported",
  "costs_missing",
  "invoice_missing",
  "invoice_differs",
  "metering_differs",
  "not_metered",
] as const;
export type OpenPointKind = (typeof openPointKinds)[number];

const openPointSchema = z.object({
  provider: z.string(),
  kind: z.enum(openPointKinds),
  meteredUsd: amountText,
  importedUsd: amountText,
  invoicedUsd: amountText,
  /** The missing or unmetered amount, or the difference. */
  amountUsd: amountText,
});
export type OpenPoint = z.output<typeof openPointSchema>;

const accountFigures = figuresSchema.extend({ accountId: z.string().nullable() });
export type AccountFigures = z.output<typeof accountFigures>;

const summarySchema = z.object({
  id: z.uuid(),
  /** YYYY-MM */
  month: z.string(),
  version: count,
  /** Emails are null once the account is deleted. */
  closedBy: z.string().nullable(),
  closedAt: z.string(),
  /** Of the records, in hexadecimal. */
  sha256: z.string(),
  exceptions: count,
  reopened: z.object({ by: z.string().nullable(), at: z.string(), reason: z.string() }).nullable(),
});
export type StatementSummary = z.output<typeof summarySchema>;

const exceptionSchema = openPointSchema.extend({ reason: z.string() });
export type StatementException = z.output<typeof exceptionSchema>;

const statementSchema = z.object({
  outcome: z.literal("read"),
  statement: summarySchema,
  figures: z.array(accountFigures),
  exceptions: z.array(exceptionSchema),
  /** Lines of nine fields that are separated by tabs, for files; null for pages. */
  records: z.string().nullable(),
  /** What the closed month's records are now; null for files and reopened months. */
  after: z.object({ sha256: z.string(), differences: z.array(figuresSchema) }).nullable(),
});
export type Statement = z.output<typeof statementSchema>;
export type FigureDifference = z.output<typeof figuresSchema>;

const checklistSchema = z.union([
  z.object({
    outcome: z.literal("listed"),
    /** Identifies the records that were shown. */
    state: z.string(),
    figures: z.array(accountFigures),
    openPoints: z.array(openPointSchema),
  }),
  z.object({ outcome: z.literal("not_ended") }),
  z.object({ outcome: z.literal("already_closed"), id: z.uuid() }),
]);

/** Returns what closing a month needs. @throws Response 403, 503 like {@link callAsMember} */
export function readCloseChecklist(
  context: AppLoadContext,
  { member, month }: { member: StudioMember; month: string },
) {
  const args = { of_month: month };
  return callStatements(context, { member, name: "read_close_checklist", args, schema: checklistSchema });
}

export interface PointReason {
  provider: string;
  kind: string;
  reason: string;
}

/**
 * Closes a month of the platform's book with the records that were shown.
 * @throws Response 403; 503, after which the month may be closed
 */
export function closeMonth(
  context: AppLoadContext,
  options: {
    member: StudioMember;
    month: string;
    state: string;
    reasons: readonly PointReason[];
    change: AuditedChange;
  },
) {
  const { member, month, ...args } = options;
  const schema = z.union([
    z.object({ outcome: z.enum(["closed", "already_closed"]), id: z.uuid() }),
    z.object({ outcome: z.enum(["changed", "reasons_missing", "not_ended"]) }),
  ]);
  return callStatements(context, { member, name: "close_month", args: { of_month: month, ...args }, schema });
}

/** Reopens the month of a statement. @throws Response 403, 404, 503 */
export async function reopenMonth(
  context: AppLoadContext,
  { member, id, change }: { member: StudioMember; id: string; change: AuditedChange },
): Promise<"reopened" | "not_closed"> {
  const schema = z.object({ outcome: z.enum(["reopened", "not_closed", "not_found"]) });
  const args = { statement_id: requireStatementId(context, id), change };
  const { outcome } = await callStatements(context, { member, name: "reopen_month", args, schema });
  if (outcome === "not_found") throw notFound(context);
  return outcome;
}

/** Lists statements, the latest month first. @throws Response 403, 503 */
export async function listStatements(context: AppLoadContext, member: StudioMember): Promise<StatementSummary[]> {
  const schema = z.object({ outcome: z.literal("listed"), records: z.array(summarySchema) });
  const { records } = await callStatements(context, { member, name: "list_statements", args: {}, schema });
  return records;
}

/**
 * Returns a statement: with its records for a file, otherwise with what changed after the close.
 * @throws Response 403, 404, 503
 */
export async function requireStatement(
  context: AppLoadContext,
  { member, id, withRecords }: { member: StudioMember; id: string | undefined; withRecords: boolean },
): Promise<Statement> {
  const schema = z.union([statementSchema, z.object({ outcome: z.literal("not_found") })]);
  const args = { statement_id: requireStatementId(context, id), with_records: withRecords };
  const answer = await callStatements(context, { member, name: "read_statement", args, schema });
  if (answer.outcome === "not_found") throw notFound(context);
  return answer;
}

async function callStatements<Schema extends z.ZodType<{ outcome: string }>>(
  context: AppLoadContext,
  { schema, ...call }: { member: StudioMember; name: string; args: object; schema: Schema },
): Promise<z.output<Schema>> {
  const refused = z.object({ outcome: z.literal("not_allowed") });
  const answer = await callAsMember(context, { ...call, schema: z.union([schema, refused]), timeoutMs });
  if (answer.outcome === "not_allowed") throw problem("FORBIDDEN", { requestId: context.requestId });
  return answer as z.output<Schema>;
}

function requireStatementId(context: AppLoadContext, id: string | undefined): string {
  if (!z.uuid().safeParse(id).success) throw notFound(context);
  return id ?? "";
}

function notFound({ requestId }: AppLoadContext): Response {
  return problem("NOT_FOUND", { requestId, detail: "This statement doesn’t exist." });
}
