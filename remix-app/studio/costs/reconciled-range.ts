import { type Range, readRange } from "../range.ts";
import { wholeMonths } from "./reconciliation.ts";

const parameters = ["range", "from", "to"];

/** Reads the months off an address; without any, those of the last 365 days. */
export function readReconciledRange(
  url: URL,
  { now }: { now: Date },
): { range: Range; months: { from: string; to: string }; today: string } {
  const asked = new URL(url);
  if (parameters.every((name) => !asked.searchParams.get(name))) asked.searchParams.set("range", "365d");
  const range = readRange(asked, { now });
  return { range, months: wholeMonths(range), today: now.toISOString().slice(0, 10) };
}
