import { z } from "zod";
import { amountText } from "../../../ui/format-amount.ts";
import { importedFile } from "../provider-import-schema.ts";

const countSchema = z.number().int();

/** The changes that an import would make, as compared by the database. A preview stores nothing. */
const previewSchema = z.object({
  outcome: z.literal("previewed"),
  totalUsd: amountText,
  byCurrency: z.array(z.object({ currency: z.string(), amount: amountText, amountUsd: amountText })),
  firstDay: z.string(),
  lastDay: z.string(),
  /** The number of daily totals. A day with costs in two accounts counts twice. */
  days: countSchema,
  /** The number of different days. */
  dates: countSchema,
  accountCount: countSchema,
  /** The first 50 accounts, ordered by id. */
  accounts: z.array(z.object({ accountId: z.string(), days: countSchema, amountUsd: amountText })),
  added: z.object({ days: countSchema, amountUsd: amountText }),
  unchanged: z.object({ days: countSchema }),
  corrected: z.object({
    days: countSchema,
    fromUsd: amountText,
    toUsd: amountText,
    /** The first 100 corrected days, ordered by day. */
    list: z.array(z.object({ accountId: z.string(), day: z.string(), fromUsd: amountText, toUsd: amountText })),
  }),
  /** The runs and service records that no longer count, because a day's total replaces them. */
  replaced: z.object({ records: countSchema, amountUsd: amountText }),
  /**
   * Days in the file's period that earlier imports stored but the file lacks. If the import sets these days to 0, they
   * count in `cleared` and not here.
   */
  remaining: z.object({ days: countSchema, amountUsd: amountText }),
  cleared: z.object({ days: countSchema, amountUsd: amountText }),
  /** Identifies the stored costs that the import was compared with. */
  state: z.string(),
  /** The closed months (YYYY-MM) in which the import would change days, so that it is refused. */
  closedMonths: z.array(z.string()).default([]),
});
export type ImportPreview = z.output<typeof previewSchema>;

export function changedDays({ added, corrected, cleared }: ImportPreview): number {
  return added.days + corrected.days + cleared.days;
}

const invalidAnswer = z.object({ outcome: z.literal("invalid"), param: z.string().nullish(), message: z.string() });
export type InvalidImport = z.output<typeof invalidAnswer>;

const importedAnswer = z.object({
  outcome: z.literal("imported"),
  /** Null if the file changed nothing. */
  importId: z.uuid().nullable(),
  added: countSchema,
  corrected: countSchema,
  cleared: countSchema,
  unchanged: countSchema,
});

/** The database's answers to a preview and to an import, the same for members and operators. */
export const previewAnswer = z.union([previewSchema, invalidAnswer]);
export const importAnswer = z.union([
  importedAnswer,
  invalidAnswer,
  z.object({ outcome: z.literal("changed") }),
  z.object({ outcome: z.literal("month_closed"), months: z.array(z.string()) }),
]);

export const importReceipt = z.object({
  outcome: z.literal("read"),
  provider: z.string(),
  sha256: z.string(),
  appName: z.string().nullable(),
  import: importedFile,
  /** The days that this import wrote and no later import has corrected. */
  current: z.object({
    days: countSchema,
    accounts: countSchema,
    amountUsd: amountText,
    firstDay: z.string().nullable(),
    lastDay: z.string().nullable(),
  }),
  /**
   * The services of these days: the 50 with the largest amounts, and the sum of the others. A null service has the lines
   * that name none. Null if the file names no services, or if it was imported before services were stored.
   */
  services: z
    .object({
      list: z.array(z.object({ service: z.string().nullable(), amountUsd: amountText })),
      others: z.object({ services: countSchema, amountUsd: amountText }),
    })
    .nullable(),
});
export type ImportReceipt = z.output<typeof importReceipt>;
