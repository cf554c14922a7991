import type { ReadLine } from "../../studio/costs/files/cost-file.ts";
import type { JsonObject } from "../../studio/costs/files/json-values.ts";

/** A range of UTC days, without `to`. */
export type DayRange = { from: string; to: string };

/** A day that a provider's page answers, with its costs by account and service. A day without costs has no lines. */
export type ReportedDay = { day: string; lines: ReadLine[] };

/** What a page of a provider's report says. */
export type CostPage = {
  days: ReportedDay[];
  hasMore: boolean;
  /** The cursor of the next page. */
  next: string | null;
};

/** Conversions between a provider's report of daily costs and days, accounts and services. */
export type CostProvider = {
  /** The name in imported costs. */
  id: string;
  /** The name in messages. */
  name: string;
  settings: { key: string; url: string };
  /** What the key must be, for messages. */
  keyAdvice: string;
  /** How many days before today the first import begins. */
  firstDays: number;
  /** How many days before today the provider answers for, if that is limited. */
  maxDays?: number;
  request: (
    access: { baseUrl: string; key: string },
    page: DayRange & { cursor: string | null },
  ) => { url: URL; headers: Record<string, string> };
  /**
   * Reads a page that was parsed with exact numbers.
   * @param options.today the UTC day by the provider's clock, which is not complete
   * @throws UnreadableCostFile, or a ZodError
   */
  readPage: (page: JsonObject, options: { today: string }) => CostPage;
};
