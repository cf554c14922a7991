import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { labelPattern } from "#shared/labels.ts";
import { recordsPerRead } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { reconcileCosts } from "../studio/costs/book.ts";
import { monthPattern, monthWindow } from "../studio/costs/month.ts";
import type { ReconciledMonth } from "../studio/costs/provider-import-schema.ts";
import type { StudioMember } from "../studio/studio-reader.ts";
import { callFunction } from "../supabase/data-api.ts";
import { amountText } from "../ui/format-amount.ts";
import { type DifferenceCause, differenceCauseSchema } from "./causes.ts";

const count = z.number().int();

const workspaceFigures = z.object({
  workspaceId: z.uuid(),
  /** Null if the workspace was deleted. */
  name: z.string().nullable(),
  /** The provider account that the runs name; null for runs that name no account. */
  accountId: z.string().nullable(),
  meteredUsd: amountText,
  runs: count,
  estimatedRuns: count,
  closedRuns: count,
  /** Comes from the workspace's own records, which the platform's records do not include. */
  importedUsd: amountText,
  invoicedUsd: amountText,
  /** The workspace's own imports minus its metered cost; null without imports. */
  differenceUsd: amountText.nullable(),
});
export type WorkspaceFigures = z.output<typeof workspaceFigures>;

const dayFigures = z.object({
  day: z.string(),
  accountId: z.string().nullable(),
  meteredUsd: amountText,
  importedUsd: amountText,
});
export type DayFigures = z.output<typeof dayFigures>;

export const explainedMonthSchema = z.object({
  workspaces: z.array(workspaceFigures),
  days: z.array(dayFigures),
  causes: z.array(differenceCauseSchema),
});

/**
 * Returns a provider's figures for a month: in total, by workspace and by day, with the likely causes of a difference.
 * @throws Response 404 if the platform's month does not list the provider, 503 UNAVAILABLE
 */
export async function explainPlatformMonth(
  context: AppLoadContext,
  { reader, month, provider }: { reader: StudioMember; month: string; provider: string },
) {
  const query = { ...monthWindow(month), limit: recordsPerRead, cursor: undefined };
  const args = { month: `${month}-01`, provider };
  const [{ records }, explanation] = await Promise.all([
    reconcileCosts(context, { reader, query }),
    callFunction(context, { name: "private.explain_platform_month", args, schema: explainedMonthSchema }),
  ]);
  const record = records.find((each) => each.provider === provider);
  if (!record) {
    const detail = `${provider} has no metered, imported or invoiced costs in ${month}.`;
    throw problem("NOT_FOUND", { requestId: context.requestId, detail });
  }
  return { record, ...explanation, causes: addUnmeteredProvider(explanation.causes, record) };
}

/**
 * Puts a cause for the whole provider first if nothing was metered in the month. It stands for the causes of single
 * accounts, and for an invoice that nothing explains.
 */
function addUnmeteredProvider(causes: DifferenceCause[], record: ReconciledMonth): DifferenceCause[] {
  const { runs, importedRecords, importedUsd, invoicedUsd } = record;
  const amountUsd = importedRecords > 0 ? importedUsd : invoicedUsd;
  if (runs > 0 || Number(amountUsd) === 0) return causes;
  const isExplained = ({ kind }: DifferenceCause) =>
    kind === "account_not_metered" || (kind === "invoice_share" && importedRecords === 0);
  return [{ kind: "provider_not_metered", amountUsd }, ...causes.filter((cause) => !isExplained(cause))];
}

/** Reads a provider's month from a path. @throws Response 404 unless the path has a valid month and a valid provider */
export function readBookMonth(
  { month, provider }: { month?: string | undefined; provider?: string | undefined },
  { requestId }: { requestId: string },
): { month: string; provider: string } {
  const path = z.object({ month: z.string().regex(monthPattern), provider: z.string().regex(labelPattern) });
  const read = path.safeParse({ month, provider });
  if (read.success) return read.data;
  throw problem("NOT_FOUND", { requestId, detail: "This page doesn’t exist." });
}
