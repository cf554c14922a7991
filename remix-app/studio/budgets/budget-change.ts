import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { labelPattern } from "#shared/labels.ts";
import { problem } from "../../http/problem.ts";
import { callAsMember, type StudioMember } from "../studio-reader.ts";
import { budgetAmount } from "./budget-amount.ts";
import {
  amountSchema,
  type BudgetPeriod,
  budgetPeriod,
  budgetScope,
  maxCallsSchema,
  notAllowedAnswer,
  thresholdsSchema,
} from "./budget-schema.ts";
import { notAllowedDetail } from "./budgets.ts";
import { concurrentScopes } from "./open-budget.ts";
import { readTimeZone } from "./time-zone.ts";

export const subjectSchema = z.object({ scope: budgetScope.exclude(["label"]), subjectId: z.uuid() });
/** The database derives a label's id from its text. */
export const labelSchema = z.object({ scope: z.literal("label"), label: z.string().trim() });
export type BudgetSubject = z.infer<typeof subjectSchema> | z.infer<typeof labelSchema>;

const perPeriod = "US dollars per period, or null to remove the budget.";
const lastRead = "The value that you last read, or null for none. If it has changed, nothing is set.";

const changeFields = z.strictObject({
  period: budgetPeriod.default("month").describe("Which of the subject’s budgets to set."),
  limitUsd: budgetAmount.nullable().optional().describe(perPeriod),
  previousLimitUsd: budgetAmount.nullable().optional().describe(lastRead),
  maxCalls: maxCallsSchema
    .nullable()
    .optional()
    .describe("The maximum number of concurrent calls, or null to remove the limit. Only with period concurrent."),
  previousMaxCalls: maxCallsSchema.nullable().optional().describe(lastRead),
  timeZone: z
    .string()
    .transform((text, context) => {
      const name = readTimeZone(text);
      if (name !== null) return name;
      context.addIssue({ code: "custom", message: "must be an IANA time zone, such as Europe/Berlin" });
      return z.NEVER;
    })
    .optional()
    .describe("An IANA time zone. Without it, a new budget is in UTC, and another one keeps its time zone."),
  thresholds: thresholdsSchema
    .optional()
    .describe(
      "At most five percentages of the limit at which warnings are sent. Default for a new budget: 50, 80, 100.",
    ),
  reservesExpected: z
    .boolean()
    .optional()
    .describe(
      "Whether streamed calls reserve the cost of their usual output instead of their maximum cost. Default for a new budget: false.",
    ),
  monthlyBudgetUsd: budgetAmount
    .nullable()
    .optional()
    .describe("The limitUsd of period month. Send it with previousBudgetUsd."),
  previousBudgetUsd: budgetAmount.nullable().optional().describe(lastRead),
});
type ChangeFields = z.infer<typeof changeFields>;

/** The request body that sets one budget, as parsed by `parseBudgets`. */
export const budgetChange = z
  .discriminatedUnion("scope", [
    subjectSchema.extend(changeFields.shape).strict(),
    labelSchema.extend({ label: z.string().regex(labelPattern), ...changeFields.shape }).strict(),
  ])
  .superRefine((change, context) => {
    const fault = faultOf(change);
    if (fault) context.addIssue({ code: "custom", path: [fault.field], message: fault.message });
  });

/** Returns the first field that doesn't belong to the period, or is missing. */
function faultOf(
  change: ChangeFields & { scope: string },
): { field: keyof ChangeFields | "scope"; message: string } | null {
  const { period } = change;
  const isConcurrent = period === "concurrent";
  if (isConcurrent && !concurrentScopes.includes(change.scope)) {
    return { field: "scope", message: "must be workspace, member or key for a limit of concurrent calls" };
  }
  const isMonthly = change.monthlyBudgetUsd !== undefined || change.previousBudgetUsd !== undefined;
  if (isMonthly && period !== "month") {
    return { field: "period", message: "must be month with monthlyBudgetUsd; send limitUsd for other periods" };
  }
  const required: (keyof ChangeFields)[] = isConcurrent
    ? ["maxCalls", "previousMaxCalls"]
    : isMonthly
      ? ["monthlyBudgetUsd", "previousBudgetUsd"]
      : ["limitUsd", "previousLimitUsd"];
  const missing = required.find((name) => change[name] === undefined);
  if (missing) return { field: missing, message: "is required" };
  const amounts = ["limitUsd", "previousLimitUsd", "maxCalls", "previousMaxCalls"] as const;
  const refused = [
    ...amounts.filter((name) => !required.includes(name)),
    ...(isConcurrent ? (["timeZone", "thresholds", "reservesExpected"] as const) : []),
    ...(period === "total" ? (["timeZone"] as const) : []),
  ].find((name) => change[name] !== undefined);
  if (!refused) return null;
  const other = isMonthly ? "monthlyBudgetUsd" : `period ${period}`;
  return { field: refused, message: `is not supported with ${other}` };
}

/** What a change sets, and what the member saw. Null removes a budget, or stands for none. */
export interface BudgetValues {
  period: BudgetPeriod;
  limitUsd: string | null;
  maxCalls: number | null;
  readUsd: string | null;
  readMaxCalls: number | null;
  /** Undefined: unchanged. */
  timeZone?: string | undefined;
  thresholds?: number[] | undefined;
  reservesExpected?: boolean | undefined;
  /** Undefined: not compared. */
  readTimeZone?: string | undefined;
  readThresholds?: number[] | undefined;
  readReservesExpected?: boolean | undefined;
}

/** Returns the values of a request body. */
export function valuesOf(change: ChangeFields): BudgetValues {
  const { period, timeZone, thresholds, reservesExpected } = change;
  return {
    period,
    limitUsd: change.limitUsd ?? change.monthlyBudgetUsd ?? null,
    readUsd: change.previousLimitUsd ?? change.previousBudgetUsd ?? null,
    maxCalls: change.maxCalls ?? null,
    readMaxCalls: change.previousMaxCalls ?? null,
    timeZone,
    thresholds,
    reservesExpected,
  };
}

const changedMeanwhile = z.object({
  outcome: z.literal("changed_meanwhile"),
  limitUsd: amountSchema,
  maxCalls: z.number().nullable(),
  timeZone: z.string(),
  thresholds: z.array(z.number()),
  reservesExpected: z.boolean(),
});
const invalid = z.object({ outcome: z.literal("invalid"), param: z.string(), message: z.string() });
const changeAnswer = z.union([
  z.object({ outcome: z.enum(["changed", "unchanged"]) }),
  z.object({ outcome: z.literal("not_found") }),
  changedMeanwhile,
  invalid,
  notAllowedAnswer,
]);
export type ChangedMeanwhile = z.infer<typeof changedMeanwhile>;

/**
 * Sets or removes one budget, unless it has changed since the member saw it.
 * @throws Response 403 FORBIDDEN, 404 NOT_FOUND, 503 UNAVAILABLE
 */
export async function changeBudget(
  context: AppLoadContext,
  { of, values, member }: { member: StudioMember; of: BudgetSubject; values: BudgetValues },
): Promise<{ outcome: "changed" | "unchanged" } | ChangedMeanwhile | z.infer<typeof invalid>> {
  const { requestId } = context;
  const subject = of.scope === "label" ? { subject: null, label: of.label } : { subject: of.subjectId };
  const args = {
    scope: of.scope,
    ...subject,
    period: values.period,
    limit_usd: values.limitUsd,
    read_limit_usd: values.readUsd,
    max_calls: values.maxCalls,
    read_max_calls: values.readMaxCalls,
    time_zone: values.timeZone ?? null,
    read_time_zone: values.readTimeZone ?? null,
    thresholds: values.thresholds ?? null,
    read_thresholds: values.readThresholds ?? null,
    reserves_expected: values.reservesExpected ?? null,
    read_reserves_expected: values.readReservesExpected ?? null,
  };
  const answer = await callAsMember(context, { member, name: "change_budget", args, schema: changeAnswer });
  if (answer.outcome === "not_allowed") throw problem("FORBIDDEN", { requestId, detail: notAllowedDetail });
  if (answer.outcome === "not_found") throw problem("NOT_FOUND", { requestId });
  return answer;
}
