import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { JsonNumber } from "#shared/exact-json.ts";
import { labelPattern } from "#shared/labels.ts";
import type { CsvColumn } from "../../http/csv.ts";
import { buildPage, parseCursor, readKeyCursor, writeKeyCursor } from "../../http/list-page.ts";
import { problem } from "../../http/problem.ts";
import { amountText } from "../../ui/format-amount.ts";
import type { WorkspacePermission } from "../../workspaces/permission.ts";
import { callAsMember, type StudioMember } from "../studio-reader.ts";
import { budgetAmount } from "./budget-amount.ts";

export const budgetScope = z.enum(["workspace", "app", "key", "member", "label"]);
export type BudgetScope = z.infer<typeof budgetScope>;

export const budgetPermissions: Record<BudgetScope, WorkspacePermission> = {
  workspace: "manage_ai_policy",
  app: "manage_ai_policy",
  key: "manage_ai_keys",
  member: "manage_ai_policy",
  label: "manage_ai_policy",
};

const amountSchema = amountText.nullable();
const budget = z.object({
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
  /** Null if the subject has no budget. */
  limitUsd: amountSchema,
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
});

/** A monthly budget, or a subject that could have one. Amounts are exact strings in USD, null if hidden. */
export type Budget = z.infer<typeof budget>;

/** A page of budgets, as returned by the API. */
export const budgetPage = z.object({
  endsAt: z.string(),
  costVisible: z.boolean(),
  keysVisible: z.boolean(),
  budgets: z.array(budget),
  nextCursor: z.string().nullable(),
});

const notAllowedAnswer = z.object({ outcome: z.literal("not_allowed") });
export const budgetsAnswer = z.union([
  z.object({
    outcome: z.literal("read"),
    endsAt: z.string(),
    costVisible: z.boolean(),
    keysVisible: z.boolean(),
    budgets: z.array(budget.extend({ position: z.array(z.string()) })),
  }),
  notAllowedAnswer,
]);
const changeAnswer = z.union([
  z.object({ outcome: z.enum(["changed", "unchanged", "not_found"]) }),
  z.object({ outcome: z.literal("changed_meanwhile"), limitUsd: amountSchema }),
  notAllowedAnswer,
]);

const readPosition = (cursor: string) => readKeyCursor(cursor, { length: 3 });

/**
 * Returns a page of a workspace's budgets with their usage in the current UTC month. The order is stable: budgets are
 * sorted by scope, then labels by their text and other subjects by when they were created. Budgets of keys require
 * manage_ai_keys or manage_ai_policy.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function readBudgets(
  context: AppLoadContext,
  { limit, cursor, ...member }: StudioMember & { limit: number; cursor?: string | undefined },
) {
  const after = parseCursor(cursor, { read: readPosition, requestId: context.requestId });
  const args = { after, page_size: limit + 1, scopes: budgetScope.options };
  const answer = await callAsMember(context, { member, name: "read_budgets", args, schema: budgetsAnswer });
  return budgetPageOf(context, { answer, limit });
}

/** Returns the page of budgets in an answer. @throws Response 403 FORBIDDEN */
export function budgetPageOf(
  context: AppLoadContext,
  { answer, limit }: { answer: z.output<typeof budgetsAnswer>; limit: number },
) {
  const { outcome: _, budgets: found, ...page } = requireAllowed(context, answer);
  const { records, nextCursor } = buildPage(found, { limit, cursorOf: ({ position }) => writeKeyCursor(position) });
  const budgets: Budget[] = records.map(({ position: __, ...budget }) => budget);
  return { ...page, budgets, nextCursor };
}

/** The columns of the budgets' CSV file. Amounts are exact. */
export const budgetColumns: readonly CsvColumn<Budget>[] = [
  { name: "scope", value: ({ scope }) => scope },
  { name: "name", value: ({ name }) => name },
  { name: "id", value: ({ subjectId }) => subjectId },
  { name: "live", value: ({ live }) => String(live) },
  { name: "limit_usd", value: ({ limitUsd }) => limitUsd },
  { name: "spent_usd", value: ({ spentUsd }) => spentUsd },
  { name: "reserved_usd", value: ({ reservedUsd }) => reservedUsd },
  { name: "remaining_usd", value: ({ remainingUsd }) => remainingUsd },
  { name: "spent_percent", value: ({ spentPercent }) => spentPercent },
  { name: "used_up", value: ({ usedUp }) => String(usedUp) },
  { name: "warned_percent", value: ({ warned }) => warned?.threshold },
  { name: "warned_at", value: ({ warned }) => warned?.at },
  { name: "enforced", value: ({ enforced }) => String(enforced) },
];

const trimToNull = (text: unknown) => (typeof text === "string" && text.trim() !== "" ? text.trim() : null);
const limitFieldSchema = z.preprocess(trimToNull, amountSchema);

const subjectSchema = z.object({ scope: budgetScope.exclude(["label"]), subjectId: z.uuid() });
/** The database derives a label's id from its text. */
const labelSchema = z.object({ scope: z.literal("label"), label: z.string().trim() });

const limitsSchema = z.strictObject({
  monthlyBudgetUsd: budgetAmount.nullable(),
  previousBudgetUsd: budgetAmount.nullable(),
});

/** The request body that sets one budget, as parsed by `parseBudgets`. */
export const budgetChange = z.discriminatedUnion("scope", [
  subjectSchema.extend(limitsSchema.shape).strict(),
  labelSchema.extend({ label: z.string().regex(labelPattern), ...limitsSchema.shape }).strict(),
]);

/** The fields of one budget's form. */
export const budgetForm = z.intersection(
  z.discriminatedUnion("scope", [subjectSchema, labelSchema]),
  z.object({
    /** The limit when the form was rendered, or empty if there was none. */
    readUsd: limitFieldSchema,
    intent: z.enum(["save", "remove"]),
    limitUsd: z.string().default(""),
  }),
);

/** Returns the exact amount, or null if the text is not an amount. */
export function readBudgetAmount(typed: string): string | null {
  const parsed = budgetAmount.safeParse(new JsonNumber(typed.trim().replace(/^\$\s*/, "")));
  return parsed.success ? parsed.data : null;
}

export type BudgetSubject = z.infer<typeof subjectSchema> | z.infer<typeof labelSchema>;

/**
 * Sets or removes one budget, unless it has changed since the member saw it.
 * @throws Response 403 FORBIDDEN, 404 NOT_FOUND, 503 UNAVAILABLE
 */
export async function changeBudget(
  context: AppLoadContext,
  change: StudioMember & { of: BudgetSubject; readUsd: string | null; limitUsd: string | null },
): Promise<{ outcome: "changed" | "unchanged" } | { outcome: "changed_meanwhile"; limitUsd: string | null }> {
  const { of, limitUsd: limit_usd, readUsd: read_limit_usd, ...member } = change;
  const subject = of.scope === "label" ? { subject: null, label: of.label } : { subject: of.subjectId };
  const args = { scope: of.scope, ...subject, limit_usd, read_limit_usd };
  const answer = requireAllowed(
    context,
    await callAsMember(context, { member, name: "change_budget", args, schema: changeAnswer }),
  );
  if (answer.outcome === "changed_meanwhile") return answer;
  const { outcome } = answer;
  if (outcome !== "not_found") return { outcome };
  throw problem("NOT_FOUND", { requestId: context.requestId });
}

function requireAllowed<Answer extends { outcome: string }>(
  { requestId }: AppLoadContext,
  answer: Answer,
): Exclude<Answer, { outcome: "not_allowed" }> {
  if (answer.outcome === "not_allowed") {
    throw problem("FORBIDDEN", { requestId, detail: "Your role in this workspace doesn’t allow this." });
  }
  return answer as Exclude<Answer, { outcome: "not_allowed" }>;
}
