import { z } from "zod";
import { JsonNumber } from "#shared/exact-json.ts";
import { isLabel } from "#shared/labels.ts";
import { budgetAmount } from "./budget-amount.ts";
import { type BudgetSubject, type BudgetValues, labelSchema, subjectSchema } from "./budget-change.ts";
import { amountSchema, budgetPeriod, maxCallsSchema, thresholdsSchema } from "./budget-schema.ts";
import type { BudgetField, TypedBudget } from "./open-budget.ts";
import { readTimeZone } from "./time-zone.ts";

const trimToNull = (text: unknown) => (typeof text === "string" && text.trim() !== "" ? text.trim() : null);
const numberOrNull = (text: unknown) => (trimToNull(text) === null ? null : Number(text));

/** The fields of one budget's form. */
export const budgetForm = z.intersection(
  z.discriminatedUnion("scope", [subjectSchema, labelSchema]),
  z.object({
    period: budgetPeriod.default("month"),
    intent: z.enum(["save", "remove"]),
    /** The values when the form was rendered, or empty if there were none. */
    readUsd: z.preprocess(trimToNull, amountSchema),
    readMaxCalls: z.preprocess(numberOrNull, maxCallsSchema.nullable()),
    readTimeZone: z.string().optional(),
    readThresholds: z.string().transform(readThresholds).pipe(thresholdsSchema).optional(),
    /** Absent if the form doesn't offer the choice. An unchecked box is not sent. */
    readReservesExpected: z.stringbool().optional(),
    limitUsd: z.string().default(""),
    maxCalls: z.string().default(""),
    timeZone: z.string().trim().optional(),
    thresholds: z.string().optional(),
    reservesExpected: z.literal("on").optional(),
  }),
);
type BudgetForm = z.infer<typeof budgetForm>;

/** Reads a submitted form: its subject, the values to set, and the errors of its fields. */
export function readBudgetForm(form: BudgetForm): {
  of: BudgetSubject;
  values: BudgetValues;
  typed: TypedBudget;
  errors: Partial<Record<BudgetField, string>>;
} {
  const { period, intent, readUsd, readMaxCalls, readTimeZone: readZone, readThresholds: readAt, ...rest } = form;
  const { limitUsd, maxCalls, timeZone, thresholds, reservesExpected: box, readReservesExpected, ...of } = rest;
  const reservesExpected = readReservesExpected === undefined ? undefined : box !== undefined;
  const typed = {
    limitUsd,
    maxCalls,
    timeZone,
    thresholds,
    reservesExpected,
    label: of.scope === "label" ? of.label : undefined,
  };
  const isConcurrent = period === "concurrent";
  const isSaved = intent === "save";
  const amount = isSaved && !isConcurrent ? readBudgetAmount(limitUsd) : null;
  const calls = isSaved && isConcurrent ? readMaxCount(maxCalls) : null;
  const percents = isSaved && thresholds !== undefined ? thresholdsSchema.safeParse(readThresholds(thresholds)) : null;
  const zone = isSaved && timeZone ? readTimeZone(timeZone) : undefined;
  const errors: [BudgetField, string | false][] = [
    ["label", of.scope === "label" && !isLabel(of.label) && labelFault(of.label)],
    ["limitUsd", isSaved && !isConcurrent && amount === null && "Enter an amount in dollars, such as 50 or 12.50"],
    ["maxCalls", isSaved && isConcurrent && calls === null && "Enter a number of calls, such as 10"],
    ["timeZone", zone === null && timeZoneFault],
    ["thresholds", percents?.success === false && "Enter up to five percentages from 1 to 100, such as 50, 80, 100"],
  ];
  return {
    of,
    typed,
    errors: Object.fromEntries(errors.filter(([, message]) => message)),
    values: {
      period,
      limitUsd: amount,
      maxCalls: calls,
      readUsd,
      readMaxCalls,
      timeZone: zone ?? undefined,
      thresholds: percents?.data,
      reservesExpected: isSaved ? reservesExpected : undefined,
      readTimeZone: readZone,
      readThresholds: readAt,
      readReservesExpected,
    },
  };
}

const timeZoneFault = "Enter an IANA time zone, such as Europe/Berlin or UTC";

/** Returns the exact amount, or null if the text is not an amount. */
export function readBudgetAmount(typed: string): string | null {
  const parsed = budgetAmount.safeParse(new JsonNumber(typed.trim().replace(/^\$\s*/, "")));
  return parsed.success ? parsed.data : null;
}

function readMaxCount(typed: string): number | null {
  const count = typed.trim().replaceAll(",", "");
  return /^\d+$/.test(count) ? (maxCallsSchema.safeParse(Number(count)).data ?? null) : null;
}

/** Splits percentages such as "50, 80 and 100%", in ascending order. */
function readThresholds(typed: string): number[] {
  const texts = typed.split(/[\s,;%]+|\band\b/).filter(Boolean);
  return [...new Set(texts.map(Number))].toSorted((a, b) => a - b);
}

function labelFault(typed: string): string {
  return typed === ""
    ? "Enter a label, such as customer:7"
    : "Use up to 128 letters, digits, dots, underscores, colons and hyphens, such as customer:7";
}
