import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { isReadable } from "../http/readable.ts";
import { callFunction } from "../supabase/data-api.ts";
import { reasonedChangeSchema } from "./confirmation.ts";
import { applyConsoleChange, type ConsoleChange } from "./console-change.ts";
import { creditAmount } from "./credits.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

export const planSchema = z.object({
  id: z.string(),
  name: z.string(),
  payer: z.enum(["member", "workspace"]),
  /** Exact decimal text, like the credits below. */
  markup: z.string(),
  initialCredits: z.string(),
  /** Null for the default; `warnsBelow` has the effective value. */
  lowCredits: z.string().nullable(),
  warnsBelow: z.string(),
  requestsPerMinute: z.number().nullable(),
  tokensPerMinute: z.number().nullable(),
  workspaces: z.number(),
  /** Number of models that the plan grants. */
  models: z.number(),
  /** Whether a credit account pays for the plan, so that its payer cannot change. */
  payerFixed: z.boolean(),
  version: z.string(),
});
export type Plan = z.infer<typeof planSchema>;

/** A plan in the list of all plans, which does not look for the accounts that pay. */
export const listedPlanSchema = planSchema.omit({ payerFixed: true });
export type ListedPlan = z.infer<typeof listedPlanSchema>;

/** Labels of a plan's payer. */
export const payerLabels = { member: "Each member", workspace: "The workspace" } as const;

/** Accepts a whole number from 1 to `max`, or an empty text for no limit. */
export const createCountSchema = (max: number) =>
  z
    .string()
    .trim()
    .transform((text, context) => {
      if (text === "") return null;
      const number = Number(text);
      if (/^\d{1,16}$/.test(text) && number >= 1 && number <= max) return number;
      context.addIssue({
        code: "custom",
        message: `Enter a whole number from 1 to ${max.toLocaleString("en")}, or leave it empty`,
      });
      return z.NEVER;
    });

const planFields = reasonedChangeSchema.extend({
  name: z
    .string()
    .trim()
    .min(1, "Enter a name")
    .max(80, "Enter at most 80 characters")
    .refine(isReadable, "Use one line of characters that can be seen"),
  payer: z.enum(["member", "workspace"]),
  markup: z
    .string()
    .trim()
    .regex(/^\d{1,3}(\.\d{1,6})?$/, "Enter a factor below 1,000 with at most 6 decimals, such as 1.2"),
  initialCredits: creditAmount,
  lowCredits: z
    .literal("")
    .transform(() => null)
    .or(creditAmount),
  requestsPerMinute: createCountSchema(2_147_483_647),
  tokensPerMinute: createCountSchema(Number.MAX_SAFE_INTEGER),
});

/** The form that edits a plan. `seen` is the version that the admin saw. */
export const editedPlanSchema = planFields.extend({ seen: z.string().min(1) });
/** The form that adds a plan. */
export const newPlanSchema = planFields.extend({
  plan: z
    .string()
    .trim()
    .regex(/^[a-z][a-z0-9_]{0,31}$/, "Enter an ID: 1 to 32 characters (a–z, 0–9 and _), starting with a letter")
    .refine((id) => id !== "new", "new is reserved. Choose another ID"),
});

/** @throws Response 503 UNAVAILABLE */
export function listPlans(context: AppLoadContext): Promise<ListedPlan[]> {
  return callFunction(context, { name: "private.list_plans", schema: z.array(listedPlanSchema) });
}

/** @throws Response 404 if the plan does not exist */
export async function requirePlan(context: AppLoadContext, id: string): Promise<Plan> {
  const args = { only_id: id };
  const [plan] = await callFunction(context, { name: "private.list_plans", args, schema: z.array(planSchema) });
  if (plan) return plan;
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This plan doesn’t exist." });
}

/** Adds a plan, or edits the plan whose version is `seen`. */
export function savePlan(
  context: AppLoadContext,
  {
    admin,
    ...change
  }: z.output<typeof planFields> & {
    admin: InfrastructureAdmin;
    plan: string;
    seen: string | null;
  },
): Promise<ConsoleChange> {
  return applyConsoleChange(context, { admin, name: "save_plan", change, refusals });
}

const refusals = {
  not_found: { status: 404, message: "This plan doesn’t exist." },
  taken: { status: 409, message: "A plan with this ID already exists. Choose another ID." },
  payer_fixed: {
    status: 409,
    message: "Credit accounts already use this plan, so you can’t change who pays. Add another plan instead.",
  },
} as const;

/** Describes the effects of saving a plan, one sentence each. */
export function planEffects(plan: Plan | null): string[] {
  if (plan === null) {
    return ["Once you confirm, you can move workspaces to this plan. It has no models until you grant it some."];
  }
  const { workspaces } = plan;
  return [
    `${workspaces.toLocaleString("en")} ${workspaces === 1 ? "workspace has" : "workspaces have"} this plan.`,
    "The markup and limits apply to requests that start after you confirm. Requests in progress keep their markup.",
    "Initial credits apply only to credit accounts opened after this change. Existing balances don’t change.",
  ];
}
