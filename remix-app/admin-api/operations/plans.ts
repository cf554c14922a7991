import { z } from "zod";
import { creditAmount } from "../../admin/credits.ts";
import { listedPlanSchema, listPlans, planSchema, requirePlan } from "../../admin/plans.ts";
import { changeBody, defineChange, defineRead, pickFields, version, versionExample } from "../define.ts";
import { optionalCount, shortText } from "../fields.ts";

const planFields = {
  name: shortText(),
  payer: z.enum(["member", "workspace"]),
  markup: z.string().regex(/^\d{1,3}(\.\d{1,6})?$/, "must be a factor below 1,000 as text, such as “1.2”"),
  initialCredits: creditAmount,
  lowCredits: creditAmount.nullable(),
  requestsPerMinute: optionalCount(),
  tokensPerMinute: optionalCount(Number.MAX_SAFE_INTEGER),
};

export const planReads = {
  listPlans: defineRead({
    summary: "List plans",
    answer: z.object({ plans: z.array(listedPlanSchema) }),
    read: async ({ context }) => ({ plans: await listPlans(context) }),
  }),
  getPlan: defineRead({
    summary: "Get a plan",
    answer: z.object({ plan: planSchema }),
    read: async ({ context, param }) => ({ plan: await requirePlan(context, param("planId")) }),
  }),
};

export const planChanges = {
  createPlan: defineChange({
    summary: "Add a plan",
    description: "It has no models until you grant it some.",
    body: changeBody.extend({
      id: z.string().regex(/^(?!new$)[a-z][a-z0-9_]{0,31}$/),
      ...planFields,
      lowCredits: planFields.lowCredits.default(null),
      requestsPerMinute: planFields.requestsPerMinute.default(null),
      tokensPerMinute: planFields.tokensPerMinute.default(null),
    }),
    example: {
      id: "team",
      name: "Team",
      payer: "workspace",
      markup: "1.2",
      initialCredits: "1000",
      reason: "New price list",
    },
    change: (_, { id, ...fields }) => ({ ...fields, plan: id, seen: null }),
  }),
  changePlan: defineChange({
    summary: "Change a plan",
    description: "Changes only the given fields, unless the plan has changed since its version.",
    body: changeBody.extend({ version, ...z.strictObject(planFields).partial().shape }),
    example: { version: versionExample, markup: "1.25", reason: "New price list" },
    async change({ context, param }, { version: seen, ...changed }) {
      const plan = await requirePlan(context, param("planId"));
      return { ...pickFields(plan, planFields), ...changed, plan: plan.id, seen };
    },
  }),
};
