import type { Decimal } from "#shared/decimal.ts";

/** A cost file that cannot be imported. The message says what is wrong and what to do. */
export class UnreadableCostFile extends Error {}

export type CostLine = {
  /** The provider's name in imported costs, such as `aws`. */
  provider: string;
  /** The IANA time zone of the provider's days. */
  timeZone: string;
  /** Null if the line names no account. */
  account: string | null;
  /** The provider's calendar day on which the line begins, YYYY-MM-DD. */
  day: string;
  /** The last day, if the line spans several. */
  lastDay?: string | undefined;
  /** The first and the last day of the bill that the line is on. */
  bill?: { first: string; last: string } | undefined;
  service: string | null;
  /** The FOCUS category of the service, if the file states it. */
  serviceCategory?: string | undefined;
  /** ISO 4217. */
  currency: string;
  /** Credits and refunds are negative. */
  amount: Decimal;
};

/** The result of reading a row: a line, or why the row is skipped. */
export type ReadLine = CostLine | { skipped: string };

/** The costs of one service in one currency, for one day and account. `amount` is an exact decimal. */
export type ServiceAmount = { currency: string; amount: string; service: string | null };

export type CostDay = { accountId: string | null; day: string; amounts: ServiceAmount[] };

export type ProviderCosts = {
  /** A suggested name. A person may choose another one. */
  provider: string;
  timeZone: string;
  currencies: string[];
  /** Ordered by day, then by account. */
  days: CostDay[];
  /** The FOCUS category of each service, by name. Only files with categories have it. */
  serviceCategories?: Record<string, string>;
};

/** The contents of one or more files of a provider's bill. */
export type CostFile = {
  format: string;
  formatName: string;
  providers: ProviderCosts[];
  /** Rows that are not costs, such as totals. */
  skipped: { what: string; rows: number }[];
  /** Sentences that a person should read before importing. */
  notes: string[];
  /** The number of rows or results read, including skipped ones. */
  rows: number;
  fileName: string;
  /** The hash of the file as uploaded, in hex. */
  sha256: string;
};
