import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { regions } from "#shared/regions.ts";
import { exactUtcText } from "#shared/utc-time.ts";
import { problem } from "../../http/problem.ts";
import { amountText } from "../../ui/format-amount.ts";
import { budgetAmount } from "../budgets/budget-amount.ts";
import { type ModelOptions, modelOptions } from "../model-choice/model-options.ts";
import { callAsMember, type StudioMember } from "../studio-reader.ts";
import { type UnknownModels, unknownModels, unknownModelsProblem } from "../unknown-models.ts";

const rateLimitSchema = z.number().int().min(1).max(1_000_000_000);
const monthlyBudgetUsd = budgetAmount.nullable();
const modelIdSchema = z.string().regex(/^[A-Za-z0-9._:/-]{1,128}$/);
const modelListSchema = z.array(modelIdSchema).max(100);

/** Limits by model. A model has at most one entry, with at least one limit. */
const modelLimitsSchema = z
  .array(
    z
      .strictObject({
        model: modelIdSchema,
        requestsPerMinute: rateLimitSchema.nullish(),
        tokensPerMinute: rateLimitSchema.nullish(),
      })
      .refine(({ requestsPerMinute, tokensPerMinute }) => (requestsPerMinute ?? tokensPerMinute) != null, {
        message: "names no limit",
        path: ["requestsPerMinute"],
      }),
  )
  .max(100)
  .check(({ value, issues }) => {
    for (const [place, { model }] of value.entries()) {
      if (value.findIndex((each) => each.model === model) === place) continue;
      issues.push({ code: "custom", message: "repeats a model", path: [place, "model"], input: model });
    }
  });

/** The fields of a change of a workspace's AI policy. */
export const policyFields = z
  .strictObject({
    allowedModels: modelListSchema.nullable(),
    deniedModels: modelListSchema,
    /** Where providers may process the workspace's calls; null for anywhere. */
    allowedRegions: z.array(z.enum(regions)).min(1).max(regions.length).nullable(),
    requestsPerMinute: rateLimitSchema.nullable(),
    tokensPerMinute: rateLimitSchema.nullable(),
    /** All limits by model, which replace the policy's. */
    modelLimits: modelLimitsSchema,
    monthlyBudgetUsd,
    appBudgets: z.array(z.strictObject({ appId: z.uuid(), monthlyBudgetUsd })).max(100),
    providerCostVisible: z.boolean(),
    contentCapture: z.boolean(),
    contentRetentionDays: z.number().int().min(1).max(365),
  })
  .partial();

/** A change of a workspace's AI policy. Only the given fields change; null removes a limit. */
export const policyChange = policyFields.refine((change) => Object.keys(change).length > 0, "names nothing to change");

const budget = { limitUsd: amountText, spentUsd: amountText.nullable() };
/** A workspace's AI policy. Amounts are exact strings in USD, or null if hidden. Spend covers the current UTC month. */
export const aiPolicy = z.object({
  allowedModels: z.array(z.string()).nullable(),
  deniedModels: z.array(z.string()),
  /**
   * Where providers may process the workspace's calls; null for anywhere, including providers without a region. A later
   * release may have stored regions that this one does not know.
   */
  allowedRegions: z.array(z.string()).nullable(),
  requestsPerMinute: z.number().nullable(),
  tokensPerMinute: z.number().nullable(),
  /** Limits of single models, in addition to those of the workspace. */
  modelLimits: z.array(
    z.object({
      model: z.string(),
      requestsPerMinute: z.number().nullable(),
      tokensPerMinute: z.number().nullable(),
    }),
  ),
  budget: z.object(budget).nullable(),
  appBudgets: z.array(z.object({ appId: z.uuid(), app: z.string(), ...budget })),
  providerCostVisible: z.boolean(),
  contentCapture: z.boolean(),
  contentRetentionDays: z.number(),
  updatedAt: exactUtcText.nullable(),
  updatedBy: z.string().nullable(),
});

export type AiPolicy = z.infer<typeof aiPolicy>;

const answerSchema = z.union([
  z.object({ outcome: z.enum(["read", "changed", "changed_meanwhile"]), policy: aiPolicy }),
  unknownModels,
  z.object({ outcome: z.enum(["not_allowed", "app_not_linked"]) }),
]);

/** @throws Response 403 FORBIDDEN, 503 UNAVAILABLE */
export async function readAiPolicy(context: AppLoadContext, member: StudioMember): Promise<AiPolicy> {
  return requirePolicy(context, await callPolicy(context, { member, name: "read_workspace_policy" })).policy;
}

const policyPage = z.object({
  policy: answerSchema,
  options: z.union([modelOptions, z.object({ outcome: z.literal("not_allowed") })]),
});

/** Returns the policy, and the models and limits that it can select. @throws Response 403 FORBIDDEN, 503 UNAVAILABLE */
export async function readPolicyPage(
  context: AppLoadContext,
  member: StudioMember,
): Promise<{ policy: AiPolicy; options: ModelOptions }> {
  const found = await callAsMember(context, { member, name: "read_policy_page", schema: policyPage });
  const { policy } = requirePolicy(context, found.policy);
  if (found.options.outcome !== "read") throw problem("FORBIDDEN", { requestId: context.requestId });
  const { outcome: _, ...options } = found.options;
  return { policy, options };
}

/**
 * @throws Response 400 INVALID_REQUEST for an app that is not linked or a model that is not in the catalogue,
 * 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function changeAiPolicy(
  context: AppLoadContext,
  { changes, ...member }: StudioMember & { changes: z.output<typeof policyChange> },
): Promise<AiPolicy> {
  const args = { changes };
  return requirePolicy(context, await callPolicy(context, { member, name: "change_workspace_policy", args })).policy;
}

/**
 * Changes a policy like {@link changeAiPolicy}, but only if it has not changed since the member read it.
 * @param options.readAt the `updatedAt` of the policy that the member read
 * @returns the current policy, whether saved now or changed by someone else; or the models that are not in the
 * catalogue
 */
export async function changeReadPolicy(
  context: AppLoadContext,
  options: StudioMember & { changes: z.output<typeof policyChange>; readAt: string | null },
): Promise<{ outcome: "changed" | "changed_meanwhile"; policy: AiPolicy } | UnknownModels> {
  const { changes, readAt, ...member } = options;
  const args = { changes: { ...changes, readAt } };
  const answer = await callPolicy(context, { member, name: "change_workspace_policy", args });
  if (answer.outcome === "unknown_models") return answer;
  const { outcome, policy } = requirePolicy(context, answer);
  return { outcome: outcome === "changed" ? "changed" : "changed_meanwhile", policy };
}

function callPolicy(context: AppLoadContext, call: { member: StudioMember; name: string; args?: object }) {
  return callAsMember(context, { ...call, schema: answerSchema });
}

function requirePolicy(
  { requestId }: AppLoadContext,
  answer: z.output<typeof answerSchema>,
): { outcome: string; policy: AiPolicy } {
  if ("policy" in answer) return answer;
  if (answer.outcome === "unknown_models") throw unknownModelsProblem(answer, { requestId });
  if (answer.outcome === "not_allowed") {
    throw problem("FORBIDDEN", { requestId, detail: "Your role in this workspace doesn’t allow this." });
  }
  const detail = "appBudgets: no enabled external app linked to this workspace.";
  throw problem("INVALID_REQUEST", { requestId, detail, members: { param: "appBudgets" } });
}
