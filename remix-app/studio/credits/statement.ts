import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { amountText } from "../../ui/format-amount.ts";
import { readStudio, type StudioMember } from "../studio-reader.ts";

const changeSchema = z.object({
  id: z.string(),
  at: z.string(),
  kind: z.enum(["grant", "purchase", "usage", "adjustment", "refund"]),
  /** Positive for additions, negative for deductions. */
  credits: amountText,
  description: z.string().nullable(),
  reference: z.string().nullable(),
});

const useSchema = z.object({
  /** Null if the run was deleted. */
  model: z.string().nullable(),
  memberId: z.uuid().nullable(),
  /** Former member if the person has left the workspace; null if the run has no member. */
  member: z.string().nullable(),
  requests: z.number().int(),
  credits: amountText,
});

/**
 * The month of a balance: opening + added − deducted − used + corrected − usedElsewhere + unexplained = closing.
 * Amounts are exact decimal strings.
 */
const accountSchema = z.object({
  payer: z.enum(["member", "workspace"]),
  opening: amountText,
  added: amountText,
  deducted: amountText,
  /** Billed for runs of this workspace. */
  used: amountText,
  /** Later corrections of runs of this workspace. */
  corrected: amountText,
  /** Billed for runs of the member's other workspaces. */
  usedElsewhere: amountText,
  /** 0 unless the ledger does not add up. */
  unexplained: amountText,
  closing: amountText,
  changes: z.array(changeSchema),
  use: z.array(useSchema),
});
export type CreditAccount = z.output<typeof accountSchema>;

const statementSchema = z.object({
  outcome: z.literal("listed"),
  month: z.string(),
  from: z.string(),
  to: z.string(),
  isEnded: z.boolean(),
  workspace: z.object({ id: z.uuid(), name: z.string() }),
  /** What runs of this workspace took from balances that this statement does not show. */
  paidByMembers: amountText,
  accounts: z.array(accountSchema),
});
export type CreditStatement = Omit<z.output<typeof statementSchema>, "outcome">;

/** Enough to read the ledger of a month with a million runs. */
const timeoutMs = 20_000;

/**
 * Returns a workspace's statement of a month, or of the month so far.
 * @throws Response 400 for a month that has not begun, 403, 503 like {@link readStudio}
 */
export async function readCreditStatement(
  context: AppLoadContext,
  { reader, month }: { reader: StudioMember; month: string },
): Promise<CreditStatement> {
  const { outcome: _, ...statement } = await readStudio(context, {
    reader,
    name: "read_credit_statement",
    args: { of_month: month },
    schema: statementSchema,
    timeoutMs,
  });
  return statement;
}

/** Returns the name of a statement's file, without its extension. */
export function creditStatementFileName({ month, isEnded }: CreditStatement): string {
  return `credits-statement-${month}${isEnded ? "" : "-to-date"}`;
}
