import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { buildPage, parseCursor, readKeyCursor, writeKeyCursor } from "../../http/list-page.ts";
import { amountText } from "../../ui/format-amount.ts";
import { type WindowQuery, windowQuery } from "../range.ts";
import { readStudio, type StudioReader } from "../studio-reader.ts";

/** The dimensions that usage can be grouped by. A key and the keys that it replaced by rotation count as one key. */
export const usageDimensions = [
  "day",
  "model",
  "feature",
  "executionMode",
  "provider",
  "key",
  "app",
  "member",
  "label",
] as const;
export type UsageDimension = (typeof usageDimensions)[number];

/** Sums by label are stored only by day, because there may be a million labels per day. */
const labelCompatibleDimensions: readonly UsageDimension[] = ["label", "day"];

/** The query parameters of usage. `groupBy` takes dimensions separated by commas. */
export const usageQuery = windowQuery.extend({
  groupBy: z
    .string()
    .default("day,model,feature,executionMode")
    .transform((text) => text.split(","))
    .pipe(z.array(z.enum(usageDimensions)).min(1))
    .refine((names) => !names.includes("label") || names.every((name) => labelCompatibleDimensions.includes(name))),
});

const count = z.number().int();
/** What runs used and cost, and how many calls were refused. */
export const usageSums = {
  requests: count,
  failed: count,
  /**
   * Calls that were refused before a run began, on all UTC days that overlap the range. They are not in `requests`.
   * Null in rows by label.
   */
  refused: count.nullable(),
  inputTokens: count,
  outputTokens: count,
  /** Null if the workspace hides provider costs. */
  amountUsd: amountText.nullable(),
  billedCredits: amountText,
  unmeteredCredits: amountText,
  averageLatencyMs: count.nullable(),
};
const usageRow = z.object({
  ...usageSums,
  day: z.string().nullable(),
  /** Null also for refused calls of models that don't exist. */
  model: z.string().nullable(),
  feature: z.string().nullable(),
  executionMode: z.enum(["interactive", "background"]).nullable(),
  provider: z.string().nullable(),
  keyId: z.uuid().nullable(),
  keyName: z.string().nullable(),
  appId: z.uuid().nullable(),
  appName: z.string().nullable(),
  memberId: z.uuid().nullable(),
  memberName: z.string().nullable(),
  /** The 10,000 most expensive labels of a day are listed. `*` stands for all others. */
  label: z.string().nullable(),
});
const usageWindow = {
  from: z.string(),
  to: z.string(),
  previous: z.object({ from: z.string(), to: z.string() }),
  totals: z.object({ ...usageSums, otherDeductions: amountText, usedCredits: amountText }),
};
const listedUsage = z.object({
  ...usageWindow,
  outcome: z.literal("listed"),
  rows: z.array(usageRow.extend({ position: z.array(z.string()) })),
});
const nextCursorSchema = z.string().nullable();

/** Usage, as returned by the API. */
export const usagePage = z.object({
  ...usageWindow,
  currency: z.literal("USD"),
  workspaceId: z.uuid(),
  groupBy: z.array(z.enum(usageDimensions)).readonly(),
  rows: z.array(usageRow),
  nextCursor: nextCursorSchema,
});

/**
 * Returns a workspace's usage in a range, grouped by dimensions, with the totals of the whole range. In the totals,
 * `otherDeductions` is the credits that were deducted without a run. The range defaults to the last 30 days.
 * @throws Response 400, 403, 503 like readStudio
 */
export async function readUsage(
  context: AppLoadContext,
  {
    reader,
    query: { from, to, limit, cursor },
    groupBy,
  }: { reader: StudioReader; query: WindowQuery; groupBy: readonly UsageDimension[] },
) {
  const detailed = groupBy.includes("member") || groupBy.includes("label");
  const read = (text: string) => readKeyCursor(text, { length: detailed ? 8 : 7 });
  const { outcome: _, ...page } = await readStudio(context, {
    reader,
    name: "read_usage",
    args: {
      given_from: from ?? null,
      given_to: to ?? null,
      group_by: groupBy,
      after: parseCursor(cursor, { read, requestId: context.requestId }),
      page_size: limit + 1,
    },
    schema: listedUsage,
  });
  const cursorOf = ({ position }: { position: string[] }) => writeKeyCursor(position);
  const { records, nextCursor } = buildPage(page.rows, { limit, cursorOf });
  return { ...page, groupBy, rows: records.map(({ position: __, ...row }) => row), nextCursor };
}

const listedEntries = z.object({
  outcome: z.literal("listed"),
  entries: z.array(
    z.object({
      id: z.string(),
      createdAt: z.string(),
      payer: z.enum(["workspace", "member"]),
      kind: z.enum(["grant", "purchase", "usage", "adjustment", "refund"]),
      amount: amountText,
      balanceAfter: amountText,
      runId: z.uuid().nullable(),
      description: z.string().nullable(),
    }),
  ),
});

const listedCredits = listedEntries.extend({
  from: z.string(),
  to: z.string(),
  payer: z.enum(["workspace", "member"]),
  accounts: z.array(
    z.object({
      payer: z.enum(["workspace", "member"]),
      balance: amountText,
      reserved: amountText,
      available: amountText,
      /** The provider cost that the available credits pay for at the plan's markup. Null if it is hidden or free. */
      availableUsd: amountText.nullable(),
      /** How the balance changed in the range: opening + added − deducted − runs − otherRuns = closing. */
      changes: z.object({
        opening: amountText,
        added: amountText,
        deducted: amountText,
        /** Paid for this workspace's runs. */
        runs: amountText,
        /** Paid for runs of other workspaces, which share a member's own balance. */
        otherRuns: amountText,
        closing: amountText,
      }),
    }),
  ),
  /**
   * The part of the totals' `runCredits` that none of these accounts paid in the range: members' own balances did, under
   * this plan or an earlier one, or the run was charged before or after the range.
   */
  elsewhere: z.object({
    credits: amountText,
    /** Whether members' own balances paid part of it. */
    membersPaid: z.boolean(),
  }),
  totals: z.object({
    /** Billed for the workspace's runs that began in the range, regardless of who paid. */
    runCredits: amountText,
    otherDeductions: amountText,
    usedCredits: amountText,
    unmeteredCredits: amountText,
    addedCredits: amountText,
  }),
});

/** Credits, as returned by the API. */
export const creditsPage = listedCredits
  .omit({ outcome: true })
  .extend({ workspaceId: z.uuid(), nextCursor: nextCursorSchema });

/** One change of a balance. Amounts are exact strings. */
export type LedgerEntry = z.infer<typeof listedEntries>["entries"][number];
export type CreditTotals = z.infer<typeof listedCredits>["totals"];
export type CreditsElsewhere = z.infer<typeof listedCredits>["elsewhere"];
export type CreditAccount = z.infer<typeof listedCredits>["accounts"][number];

/**
 * Returns balances, a page of the ledger entries in a range, and the usage in that range. If the workspace's plan
 * charges members, the balance is the member's own. In that case, the ledger lists this workspace's runs and the
 * deductions that belong to no run.
 * @throws Response 400, 403, 503 like readStudio
 */
export async function readCredits(
  context: AppLoadContext,
  { reader, query }: { reader: StudioReader; query: WindowQuery },
) {
  const args = creditArgs(context, query);
  const { outcome: _, ...page } = await readStudio(context, {
    reader,
    name: "read_credits",
    args,
    schema: listedCredits,
  });
  const { records: entries, nextCursor } = buildPage(page.entries, { limit: query.limit, cursorOf: cursorOfEntry });
  return { ...page, entries, nextCursor };
}

/**
 * Returns a page of {@link readCredits} without the totals. Files don't need them, and every page would calculate them
 * again.
 * @throws Response 400, 403, 503 like readStudio
 */
export async function listLedgerEntries(
  context: AppLoadContext,
  { reader, query }: { reader: StudioReader; query: WindowQuery },
) {
  const args = { ...creditArgs(context, query), with_totals: false };
  const { entries } = await readStudio(context, { reader, name: "read_credits", args, schema: listedEntries });
  return buildPage(entries, { limit: query.limit, cursorOf: cursorOfEntry });
}

function creditArgs({ requestId }: AppLoadContext, { from, to, limit, cursor }: WindowQuery) {
  const position = parseCursor(cursor, { read: readEntryId, requestId });
  return {
    given_from: from ?? null,
    given_to: to ?? null,
    before_id: position === null ? null : position[0],
    page_size: limit + 1,
  };
}

const cursorOfEntry = ({ id }: LedgerEntry) => writeKeyCursor([id]);

function readEntryId(cursor: string): string[] | null {
  const position = readKeyCursor(cursor, { length: 1 });
  return /^\d{1,18}$/.test(position?.[0] ?? "") ? position : null;
}
