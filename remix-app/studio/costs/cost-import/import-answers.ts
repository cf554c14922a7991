import { z } from "zod";
import { amountText } from "../../../ui/format-amount.ts";
import { importedFile } from "../provider-import-schema.ts";

const count = z.number().int();

/** What an import would change, as compared by the database. Nothing is stored. */
const preview = z.object({
  outcome: z.literal("previewed"),
  totalUsd: amountText,
  byCurrency: z.array(z.object({ currency: z.string(), amount: amountText, amountUsd: amountText })),
  firstDay: z.string(),
  lastDay: z.string(),
  /** Days per account. */
  days: count,
  accounts: z.array(z.object({ accountId: z.string(), days: count, amountUsd: amountText })),
  added: z.object({ days: count, amountUsd: amountText }),
  unchanged: z.object({ days: count }),
  corrected: z.object({
    days: count,
    fromUsd: amountText,
    toUsd: amountText,
    /** The first hundred, by day. */
    list: z.array(z.object({ accountId: z.string(), day: z.string(), fromUsd: amountText, toUsd: amountText })),
  }),
  /** Runs and service records that no longer count, because a day's total replaces them. */
  replaced: z.object({ records: count, amountUsd: amountText }),
  /** Days in this period that other files had and this file lacks: unchanged, or set to 0 if the document says so. */
  remaining: z.object({ days: count, amountUsd: amountText }),
  cleared: z.object({ days: count, amountUsd: amountText }),
  /** Identifies the state that the import was compared with. */
  state: z.string(),
});
export type ImportPreview = z.output<typeof preview>;

export function changedDays({ added, corrected, cleared }: ImportPreview): number {
  return added.days + corrected.days + cleared.days;
}

const invalid = z.object({ outcome: z.literal("invalid"), param: z.string().nullish(), message: z.string() });
export type InvalidImport = z.output<typeof invalid>;

const imported = z.object({
  outcome: z.literal("imported"),
  /** Null if the file changed nothing. */
  importId: z.uuid().nullable(),
  added: count,
  corrected: count,
  cleared: count,
  unchanged: count,
});

/** The database's answer to a preview and to an import, for any book. */
export const previewAnswer = z.union([preview, invalid]);
export type PreviewAnswer = z.output<typeof previewAnswer>;
export const importAnswer = z.union([imported, invalid, z.object({ outcome: z.literal("changed") })]);
export type ImportAnswer = z.output<typeof importAnswer>;

export const importReceipt = z.object({
  outcome: z.literal("read"),
  provider: z.string(),
  sha256: z.string(),
  appName: z.string().nullable(),
  import: importedFile,
  /** The days that the import wrote and that have not been corrected since. */
  current: z.object({
    days: count,
    accounts: count,
    amountUsd: amountText,
    firstDay: z.string().nullable(),
    lastDay: z.string().nullable(),
  }),
});
export type ImportReceipt = z.output<typeof importReceipt>;
