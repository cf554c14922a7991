import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { CsvColumn } from "../http/csv.ts";
import { buildPage, eachPage, parseCursor, readKeyCursor, recordsPerRead, writeKeyCursor } from "../http/list-page.ts";
import { daysOfMonth, type MonthChoice, readMonth } from "../studio/costs/month.ts";
import { callFunction } from "../supabase/data-api.ts";
import { requireInfrastructureAdmin, requirePlatformBooks } from "./require-admin.ts";

export const spendingSchema = z.object({
  /** Sums of all rows, not only of the page. */
  totals: z.object({
    owners: z.number(),
    requests: z.number(),
    failed: z.number(),
    costUsd: z.string(),
    billedCredits: z.string(),
  }),
  rows: z.array(
    z.object({
      /** Null for runs without an account. */
      id: z.uuid().nullable(),
      name: z.string().nullable(),
      /** Of accounts only. */
      email: z.string().nullable(),
      /** The plan's name; of workspaces only. */
      plan: z.string().nullable(),
      isDeleted: z.boolean(),
      requests: z.number(),
      failed: z.number(),
      costUsd: z.string(),
      billedCredits: z.string(),
      /** The current balance, not that of the month's end. Null without a credit account. */
      balance: z.string().nullable(),
      available: z.string().nullable(),
      /** The last day of the month with a run, in UTC. */
      lastDay: z.string().nullable(),
      /** The value by which the rows are sorted. */
      value: z.string(),
    }),
  ),
});
export type Spender = z.infer<typeof spendingSchema>["rows"][number];
export type SpendingTotals = z.infer<typeof spendingSchema>["totals"];

const ownerSchema = z.enum(["workspace", "account"]);
export type SpendingOwner = z.infer<typeof ownerSchema>;

export const sortSchema = z.enum(["cost", "credits", "runs", "failed", "balance"]);
export type SpendingSort = z.infer<typeof sortSchema>;

export interface SpendingQuery {
  choice: MonthChoice;
  by: SpendingOwner;
  sort: SpendingSort;
}

/** Reads `month`, `by` and `sort` from a URL. Unknown values of the last two are replaced by the default. */
export function readSpendingQuery(url: URL): SpendingQuery {
  const { searchParams } = url;
  return {
    choice: readMonth(url, { now: new Date(), byDefault: "current" }),
    by: ownerSchema.catch("workspace").parse(searchParams.get("by")),
    sort: sortSchema.catch("cost").parse(searchParams.get("sort")),
  };
}

/**
 * Checks that the person who makes this request may see who spends. Accounts are for admins only.
 * @throws Response like {@link requirePlatformBooks}, and for accounts like {@link requireInfrastructureAdmin}
 */
export async function requireSpendingReader(
  context: AppLoadContext,
  { request, by }: { request: Request; by: SpendingOwner },
): Promise<void> {
  await (by === "account" ? requireInfrastructureAdmin(context, request) : requirePlatformBooks(context, request));
}

const spendersPerPage = 50;
const valuePattern = /^(-?\d{1,40}(\.\d{1,40})?|-Infinity)$/;

type SpendingPage = { spenders: Spender[]; totals: SpendingTotals; nextCursor: string | null };

/**
 * Returns a page of the workspaces or accounts with runs in a month, highest value first, and the totals of all of them.
 * Sorted by balance, also returns those with a balance and no runs.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function listSpending(
  context: AppLoadContext,
  { query: { choice, by, sort }, cursor, limit = spendersPerPage, inOrderOf = sort }: SpendingRead,
): Promise<SpendingPage> {
  const { first: first_day, last: last_day } = daysOfMonth(choice.month);
  const args = {
    grouped_by: by,
    first_day,
    last_day,
    sorted_by: inOrderOf,
    with_balances: sort === "balance",
    after: parseCursor(cursor, { read: readSpenderCursor, requestId: context.requestId }),
    page_size: limit + 1,
  };
  const { rows, totals } = await callFunction(context, {
    name: "private.list_spending",
    args,
    schema: spendingSchema,
  });
  const { records: spenders, nextCursor } = buildPage(rows, {
    limit,
    cursorOf: ({ value, id }) => writeKeyCursor([value, id ?? ""]),
  });
  return { spenders, totals, nextCursor };
}

interface SpendingRead {
  query: SpendingQuery;
  cursor: string | null | undefined;
  limit?: number;
  /** The order of the rows, if it isn't that of the query. */
  inOrderOf?: SpendingSort | "id";
}

function readSpenderCursor(cursor: string): { value: string; id: string | null } | null {
  const [value = "", id = ""] = readKeyCursor(cursor, { length: 2 }) ?? [];
  if (!valuePattern.test(value) || !(id === "" || z.uuid().safeParse(id).success)) return null;
  return { value, id: id || null };
}

/**
 * Returns all rows of the page for a file. If one read can't return them all, they are in the order of their ids,
 * because amounts may change between two reads, and a row would then be missing or appear twice.
 */
export async function readSpendingFile(
  context: AppLoadContext,
  { query, limit = recordsPerRead }: { query: SpendingQuery; limit?: number },
): Promise<Iterable<readonly Spender[]> | AsyncIterable<readonly Spender[]>> {
  const { spenders, nextCursor } = await listSpending(context, { query, cursor: null, limit });
  if (nextCursor === null) return [spenders];
  return eachPage(async (cursor) => {
    const page = await listSpending(context, { query, cursor, limit, inOrderOf: "id" });
    return { records: page.spenders, nextCursor: page.nextCursor };
  });
}

/** Returns the columns of the file. Emails are only in files of accounts, and plans only in files of workspaces. */
export function spendingColumns({ by, choice: { month } }: SpendingQuery): readonly CsvColumn<Spender>[] {
  const isOfAccounts = by === "account";
  return [
    { name: "month", value: () => month },
    { name: `${by}_id`, value: ({ id }) => id },
    { name: by, value: (spender) => spender.name ?? (spender.id === null ? "No account" : null) },
    isOfAccounts ? { name: "email", value: ({ email }) => email } : { name: "plan", value: ({ plan }) => plan },
    { name: "deleted", value: ({ isDeleted }) => String(isDeleted) },
    { name: "runs", value: ({ requests }) => requests },
    { name: "failed", value: ({ failed }) => failed },
    { name: "cost_usd", value: ({ costUsd }) => costUsd },
    { name: "billed_credits", value: ({ billedCredits }) => billedCredits },
    { name: "balance", value: ({ balance }) => balance },
    { name: "available", value: ({ available }) => available },
    { name: "last_day", value: ({ lastDay }) => lastDay },
  ];
}
