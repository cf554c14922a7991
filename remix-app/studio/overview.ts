import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import type { CsvColumn } from "../http/csv.ts";
import type { Range } from "./range.ts";
import { rowLabel } from "./row-label.ts";
import type { StudioReader } from "./studio-reader.ts";
import { readUsage } from "./usage.ts";

/** What the overview's table can be about. */
export const overviewDimensions = ["day", "model", "feature", "key", "app"] as const;
export type OverviewDimension = (typeof overviewDimensions)[number];

/** Reads the dimension off an address; days without one. */
export function readDimension(url: URL): OverviewDimension {
  return z.enum(overviewDimensions).catch("day").parse(url.searchParams.get("by"));
}

/** A workspace's usage of a range by one dimension, and that of the range before. */
export async function readOverview(
  context: AppLoadContext,
  { reader, range, by }: { reader: StudioReader; range: Range; by: OverviewDimension },
) {
  const limit = 400;
  const of = ({ from, to }: { from: string; to: string }) =>
    readUsage(context, { reader, query: { from, to, limit, cursor: undefined }, groupBy: [by] });
  const [now, before] = await Promise.all([of(range), of(range.previous)]);
  return { totals: now.totals, before: before.totals, rows: now.rows };
}

export type OverviewRow = Awaited<ReturnType<typeof readOverview>>["rows"][number];

/** The columns of the overview's file. */
export function overviewColumns(by: OverviewDimension): CsvColumn<OverviewRow>[] {
  return [
    { name: by, value: (row) => rowLabel(row, by) },
    { name: "cost_usd", value: (row) => row.amountUsd },
    { name: "billed_credits", value: (row) => row.billedCredits },
    { name: "requests", value: (row) => row.requests },
    { name: "failed", value: (row) => row.failed },
    { name: "input_tokens", value: (row) => row.inputTokens },
    { name: "output_tokens", value: (row) => row.outputTokens },
  ];
}
