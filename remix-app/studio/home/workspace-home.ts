import type { AppLoadContext } from "@remix-run/node";
import { type Budget, readBudgets } from "../budgets/budgets.ts";
import { readApproval } from "../keys/approval.ts";
import { listKeys } from "../keys/keys.ts";
import { type Range, readRange } from "../range.ts";
import type { StudioMember } from "../studio-reader.ts";
import { daysEachOf, type Overview, readOverview, shownRows } from "../usage/overview.ts";

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

/** Reads the data of a workspace's Overview. @throws Response 403, 503 like readStudio */
export async function readWorkspaceHome(
  context: AppLoadContext,
  { member, managesKeys, now }: { member: StudioMember; managesKeys: boolean; now: Date },
): Promise<WorkspaceHome> {
  const range = readRange(new URL(context.env.BASE_URL), { now });
  const by = "model";
  const [overview, { budgets }, setup] = await Promise.all([
    readOverview(context, { reader: member, range, by, daysEach: daysEachOf(range, by), maxRows: shownRows(by) }),
    readBudgets(context, { ...member, limit: budgetsRead }),
    managesKeys ? readKeySetup(context, member) : null,
  ]);
  const isGettingStarted = !overview.everUsed || (setup !== null && !setup.hasKey);
  return { range, overview, budgets: nearestToLimit(budgets), setup, isGettingStarted };
}

async function readKeySetup(context: AppLoadContext, member: StudioMember): Promise<KeySetup> {
  const { approval, keys } = await listKeys(context, { ...member, limit: 1 });
  const hasKey = keys.length > 0;
  if (approval) return { approval: "approved", hasKey };
  const { request } = await readApproval(context, member);
  const states = { open: "requested", declined: "declined", withdrawn: "none", approved: "none" } as const;
  return { approval: request ? states[request.state] : "none", hasKey };
}

/** Returns the live budgets with the largest share spent, used-up ones first. */
export function nearestToLimit(budgets: readonly Budget[]): Budget[] {
  const share = ({ usedUp, spentPercent }: Budget) => (usedUp ? Number.POSITIVE_INFINITY : Number(spentPercent ?? 0));
  return budgets
    .filter(({ limitUsd, live }) => limitUsd !== null && live)
    .toSorted((a, b) => share(b) - share(a) || 0)
    .slice(0, budgetsShown);
}
