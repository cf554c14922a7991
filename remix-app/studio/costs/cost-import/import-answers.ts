import { z } from "zod";
import { amountText } from "../../../ui/format-amount.ts";
import { importedFile } from "../provider-import-schema.ts";

const count = z.number().int();

/** What an import would do, as the database compared it; it has stored nothing. */
const preview = z.object({
  outcome: z.literal("previewed"),
  totalUsd: amountText,
  byCurrency: z.array(z.object({ currency: z.string(), amount: amountText, amountUsd: amountText })),
  firstDay: z.string(),
  lastDay: z.string(),
  /** Account days. */
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
  /** Runs and service records that no longer count, because a day's total stands for them. */
  replaced: z.object({ records: count, amountUsd: amountText }),
  /** Days of this time that other files stated and this one lacks: as they are, or set to 0 as the document asks. */
  remaining: z.object({ days: count, amountUsd: amountText }),
  cleared: z.object({ days: count, amountUsd: amountText }),
  /** Stands for what the import was compared with. */
  state: z.string(),
});
export type ImportPreview = z.output<typeof preview>;

/** How many days an import would write. */
export function changedDays({ added, corrected, cleared }: ImportPreview): number {
  return added.days + corrected.days + cleared.days;
}

const invalid = z.object({ outcome: z.literal("invalid"), param: z.string().nullish(), message: z.string() });
export type InvalidImport = z.output<typeof invalid>;

const imported = z.object({
  outcome: z.literal("imported"),
  /** Null where the file changed nothing. */
  importId: z.uuid().nullable(),
  added: count,
  corrected: count,
  cleared: count,
  unchanged: count,
});

/** What the database answers to a preview, and to an import, of any book. */
export const previewAnswer = z.union([preview, invalid]);
export type PreviewAnswer = z.output<typeof previewAnswer>;
export const importAnswer = z.union([imported, invalid, z.object({ outcome: z.literal("changed") })]);
export type ImportAnswer = z.output<typeof importAnswer>;

/** The receipt of an import. */
export const importReceipt = z.object({
  outcome: z.literal("read"),
  provider: z.string(),
  sha256: z.string(),
  appName: z.string().nullable(),
  import: importedFile,
  /** The days that it wrote and that nothing has corrected since. */
  current: z.object({
    days: count,
    accounts: count,
    amountUsd: amountText,
    firstDay: z.string().nullable(),
    lastDay: z.string().nullable(),
  }),
});
export type ImportReceipt = z.output<typeof importReceipt>;
