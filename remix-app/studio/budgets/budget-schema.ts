import { z } from "zod";
import { amountText } from "../../ui/format-amount.ts";

export const budgetScope = z.enum(["workspace", "app", "key", "member", "label"]);
export type BudgetScope = z.infer<typeof budgetScope>;

export const budgetPeriod = z.enum(["day", "week", "month", "total", "concurrent"]);
export type BudgetPeriod = z.infer<typeof budgetPeriod>;

export const amountSchema = amountText.nullable();
/** The percentages of a limit at which warnings are sent. */
export const thresholdsSchema = z.array(z.number().int().min(1).max(100)).max(5);
export const maxCallsSchema = z.number().int().min(0).max(1_000_000);

export const budget = z.object({
  scope: budgetScope,
  subjectId: z.uuid(),
  name: z.string().nullable(),
  /** Whether the budget's subject can still make requests. */
  live: z.boolean(),
  /**
   * Whether calls can be refused because of this budget. A label's budget only warns unless a live key carries the
   * label.
   */
  enforced: z.boolean(),
  period: budgetPeriod.describe(
    "The window in which the budget counts, or concurrent for a limit of the calls in progress.",
  ),
  timeZone: z.string().describe("The IANA time zone in which days, weeks and months begin."),
  startsAt: z.string().nullable().describe("When the current window began. Null for total and concurrent."),
  endsAt: z.string().nullable().describe("When the budget resets. Null for total and concurrent."),
  thresholds: z.array(z.number()).describe("The percentages of the limit at which warnings are sent."),
  reservesExpected: z
    .boolean()
    .describe("Whether streamed calls reserve the cost of their usual output instead of their maximum cost."),
  /** Null if the subject has no budget of this period, and for concurrent calls. */
  limitUsd: amountSchema.describe("US dollars per period. Null without a budget, and for concurrent."),
  spentUsd: amountSchema,
  reservedUsd: amountSchema,
  remainingUsd: amountSchema,
  /** Percent of the limit, rounded down to an integer. A string, because it may be large. */
  spentPercent: z.string().regex(/^\d+$/).nullable(),
  /**
   * Whether requests are refused because the budget is used up or too little is left. Never true if spending is hidden.
   */
  usedUp: z.boolean(),
  warned: z.object({ threshold: z.number(), at: z.string() }).nullable(),
  maxCalls: z.number().nullable().describe("The maximum number of concurrent calls. Null for budgets in dollars."),
  calls: z.number().nullable().describe("The calls in progress. Null for budgets in dollars."),
});

/** A budget, or a subject that could have one. Amounts are exact strings in USD, null if hidden. */
export type Budget = z.infer<typeof budget>;

/** A page of budgets, as returned by the API. */
export const budgetPage = z.object({
  endsAt: z.string().describe("The end of this UTC month."),
  costVisible: z.boolean(),
  keysVisible: z.boolean(),
  budgets: z.array(budget),
  nextCursor: z.string().nullable(),
});

export const notAllowedAnswer = z.object({ outcome: z.literal("not_allowed") });
export const budgetsAnswer = z.union([
  budgetPage
    .omit({ nextCursor: true, budgets: true })
    .extend({ outcome: z.literal("read"), budgets: z.array(budget.extend({ position: z.array(z.string()) })) }),
  notAllowedAnswer,
]);
