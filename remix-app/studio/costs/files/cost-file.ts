import type { Decimal } from "#shared/decimal.ts";

/** A cost file that cannot be imported. The message says what is wrong and what to do. */
export class UnreadableCostFile extends Error {}

/** One line of a provider's bill. */
export type CostLine = {
  /** The provider's name in imported costs, such as `aws`. */
  provider: string;
  /** The IANA time zone of the provider's days. */
  timeZone: string;
  /** Null: the line names no account. */
  account: string | null;
  /** The provider's calendar day on which the line begins, YYYY-MM-DD. */
  day: string;
  /** The last day, where the line spans several. */
  lastDay?: string | undefined;
  /** The first and the last day of the bill that the line is on. */
  bill?: { first: string; last: string } | undefined;
  service: string | null;
  /** ISO 4217. */
  currency: string;
  /** Credits and refunds are negative. */
  amount: Decimal;
};

/** What a reader makes of a row: a line, or why it is left out. */
export type ReadLine = CostLine | { skipped: string };

/** The costs of a day and account in one currency and service; `amount` is an exact decimal. */
export type ServiceAmount = { currency: string; amount: string; service: string | null };

export type CostDay = { accountId: string | null; day: string; amounts: ServiceAmount[] };

export type ProviderCosts = {
  /** A suggestion: a person may choose another name. */
  provider: string;
  timeZone: string;
  currencies: string[];
  /** By day, then by account. */
  days: CostDay[];
};

/** What one or more files of a provider's bill state. */
export type CostFile = {
  format: string;
  formatName: string;
  providers: ProviderCosts[];
  /** Rows that state no cost, such as totals. */
  skipped: { what: string; rows: number }[];
  /** What a person should know before importing, as sentences. */
  notes: string[];
  /** Rows or results that were read, with the skipped ones. */
  rows: number;
  fileName: string;
  /** Of the file as it was sent, in hex. */
  sha256: string;
};
