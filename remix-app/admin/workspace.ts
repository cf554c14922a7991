import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";
import { formatExactCredits } from "../ui/format-amount.ts";
import { reasonedChangeSchema } from "./confirmation.ts";
import { applyConsoleChange, type ConsoleChange } from "./console-change.ts";
import { type ListedPlan, listedPlanSchema } from "./plans.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

export const workspaceSchema = z.object({
  id: z.uuid(),
  name: z.string(),
  createdAt: z.string(),
  personalUserId: z.uuid().nullable(),
  planId: z.string(),
  /** Null if the plan doesn't exist; calls are then refused. */
  plan: listedPlanSchema.nullable(),
  members: z.number(),
  owners: z.array(z.object({ id: z.uuid(), email: z.string().nullable() })),
  /** The credit account of the workspace itself, not of its members. Null until the account is opened. */
  account: z.object({ balance: z.string(), reserved: z.string(), available: z.string() }).nullable(),
  /** The usage since the month began in UTC, with amounts as exact text. */
  thisMonth: z.object({
    requests: z.number(),
    failed: z.number(),
    costUsd: z.string(),
    billedCredits: z.string(),
  }),
  approvedAt: z.string().nullable(),
  approvedBy: z.string().nullable(),
  liveKeys: z.number(),
});
export type ConsoleWorkspace = z.infer<typeof workspaceSchema>;

/** @throws Response 404 if the workspace does not exist */
export async function requireConsoleWorkspace(
  context: AppLoadContext,
  workspaceId: string | undefined,
): Promise<ConsoleWorkspace> {
  const id = z.uuid().safeParse(workspaceId);
  if (id.success) {
    const args = { workspace: id.data };
    const schema = workspaceSchema.nullable();
    const found = await callFunction(context, { name: "private.read_console_workspace", args, schema });
    if (found) return found;
  }
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This workspace doesn’t exist." });
}

/** Returns why this admin cannot move a workspace to another plan, or null. */
export function getMoveRestriction({ id }: InfrastructureAdmin, { personalUserId }: ConsoleWorkspace): string | null {
  return personalUserId === id ? ownAccountRefusal.message : null;
}

/** The form of a move. `seen` is the plan that the admin saw. */
export const moveSchema = reasonedChangeSchema.extend({ plan: z.string(), seen: z.string() });

/** Moves a workspace from the plan that the admin saw to another plan. */
export function moveWorkspaceToPlan(
  context: AppLoadContext,
  { admin, ...change }: { admin: InfrastructureAdmin; workspace: string; plan: string; seen: string; reason: string },
): Promise<ConsoleChange> {
  return applyConsoleChange(context, { admin, name: "move_workspace", change, refusals });
}

const ownAccountRefusal = {
  status: 403,
  message: "You can’t change the plan of your own personal workspace. Ask another admin.",
} as const;

const refusals = {
  oneself: ownAccountRefusal,
  not_found: { status: 404, message: "This workspace doesn’t exist." },
  no_plan: { status: 400, message: "This plan doesn’t exist, or the workspace is already on it. Choose another plan." },
} as const;

/** Describes the effects of a move to another plan, mainly on balances, one sentence each. */
export function moveEffects({ name, plan, account }: ConsoleWorkspace, to: ListedPlan): string[] {
  return [
    `Once you confirm, ${name} gets the models, limits and markup (×${to.markup}) of the ${to.name} plan. Requests in progress keep their current markup.`,
    ...balanceEffects({ from: plan?.payer ?? null, to, balance: account?.balance ?? null }),
    ...(to.models === 0 ? [`The ${to.name} plan has no models. Requests are refused until you grant it some.`] : []),
  ];
}

function balanceEffects({
  from,
  to,
  balance,
}: {
  from: ListedPlan["payer"] | null;
  to: ListedPlan;
  balance: string | null;
}): string[] {
  const initial = formatExactCredits(to.initialCredits);
  if (to.payer === from)
    return ["Balances don’t change, and requests are still paid from them. Initial credits aren’t granted again."];
  if (to.payer === "workspace") {
    return [
      balance === null
        ? `The workspace pays for all requests from its own balance. It gets ${initial} credits with its first request.`
        : `The workspace pays for all requests from its own balance, which is ${formatExactCredits(balance)} credits.`,
      "Members keep their balances, but this workspace no longer uses them.",
    ];
  }
  return [
    `Each member pays for their requests from their own balance. Members without one get ${initial} credits with their first request.`,
    balance === null
      ? "The workspace has no balance."
      : `The workspace keeps its balance of ${formatExactCredits(balance)} credits, but doesn’t use it on this plan.`,
  ];
}
