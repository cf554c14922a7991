import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../../http/problem.ts";
import { type Budget, budgetScope, budgetsAnswer } from "../budgets/budget-schema.ts";
import { budgetPageOf } from "../budgets/budgets.ts";
import { isBudgetSet } from "../budgets/open-budget.ts";
import { approvalAnswer } from "../keys/approval.ts";
import { listedKeys } from "../keys/keys.ts";
import { type Range, readRange } from "../range.ts";
import { callAsMember, refusal, type StudioMember } from "../studio-reader.ts";
import {
  chooseDaysPerColumn,
  getMaxRows,
  type Overview,
  overviewAnswer,
  overviewArguments,
  overviewOf,
} from "../usage/overview.ts";

/** A workspace's progress towards its first request, for members who manage its keys. */
export interface KeySetup {
  /** `none`: not requested yet, or withdrawn. */
  approval: "approved" | "requested" | "declined" | "none";
  /** Whether a key was ever created. */
  hasKey: boolean;
}

/** The data of a workspace's Overview for members who may use the studio. */
export interface WorkspaceHome {
  /** The last 30 days. */
  range: Range;
  /** The usage by model. */
  overview: Overview;
  /** The budgets nearest to their limit. */
  budgets: Budget[];
  /** Null for members who cannot manage keys. */
  setup: KeySetup | null;
  /** Whether setup steps remain, such as creating a key or making the first request. */
  isGettingStarted: boolean;
}

const budgetsRead = 50;
const budgetsShown = 4;

const homeAnswer = z.object({
  overview: z.union([overviewAnswer, refusal]),
  budgets: budgetsAnswer,
  keys: listedKeys,
  approval: approvalAnswer,
});

/** Reads the data of a workspace's Overview. @throws Response 403 FORBIDDEN, 503 UNAVAILABLE */
export async function readWorkspaceHome(
  context: AppLoadContext,
  { member, now }: { member: StudioMember; now: Date },
): Promise<WorkspaceHome> {
  const range = readRange(new URL(context.env.BASE_URL), { now });
  const by = "model";
  const query = { range, by, daysEach: chooseDaysPerColumn(range, by) } as const;
  const found = await callAsMember(context, {
    member,
    name: "read_workspace_home",
    args: {
      ...overviewArguments(query),
      max_rows: getMaxRows(by),
      max_budgets: budgetsRead,
      budget_scopes: budgetScope.options,
      all_periods: true,
    },
    schema: homeAnswer,
  });
  const { budgets } = budgetPageOf(context, { answer: found.budgets, limit: budgetsRead });
  if (found.overview.outcome !== "listed") throw problem("FORBIDDEN", { requestId: context.requestId });
  const overview = overviewOf(found.overview, query);
  const setup = keySetupOf(found);
  const isGettingStarted = !overview.everUsed || (setup !== null && !setup.hasKey);
  return { range, overview, budgets: nearestToLimit(budgets), setup, isGettingStarted };
}

function keySetupOf({ keys, approval }: Pick<z.output<typeof homeAnswer>, "keys" | "approval">): KeySetup | null {
  if (keys.outcome !== "listed" || approval.outcome !== "read") return null;
  const hasKey = keys.keys.length > 0;
  if (keys.approval) return { approval: "approved", hasKey };
  const states = { open: "requested", declined: "declined", withdrawn: "none", approved: "none" } as const;
  return { approval: approval.request ? states[approval.request.state] : "none", hasKey };
}

/** Returns the live budgets and limits with the largest share used, used-up ones first. */
export function nearestToLimit(budgets: readonly Budget[]): Budget[] {
  return budgets
    .filter((budget) => isBudgetSet(budget) && budget.live)
    .toSorted((a, b) => percentUsed(b) - percentUsed(a) || 0)
    .slice(0, budgetsShown);
}

function percentUsed({ usedUp, spentPercent, maxCalls, calls }: Budget): number {
  if (maxCalls !== null) return maxCalls === 0 ? Number.POSITIVE_INFINITY : ((calls ?? 0) * 100) / maxCalls;
  return usedUp ? Number.POSITIVE_INFINITY : Number(spentPercent ?? 0);
}
