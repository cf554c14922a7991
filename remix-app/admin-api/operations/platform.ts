import { z } from "zod";
import { labelPattern } from "#shared/labels.ts";
import { budgetPeriod, maxCallsSchema, thresholdsSchema } from "../../studio/budgets/budget-schema.ts";
import { policyFields } from "../../studio/policy/ai-policy.ts";
import { callFunction } from "../../supabase/data-api.ts";
import { requireAdminScope } from "../caller.ts";
import { changeBody, defineChange, defineRead } from "../define.ts";

/** An export reads the whole catalogue, and every workspace with settings. */
const exportTimeoutMs = 30_000;
const maxWorkspaces = 100;

const workspaceIds = z
  .string()
  .default("")
  .transform((text) => text.split(",").filter(Boolean))
  .pipe(z.array(z.uuid()).max(maxWorkspaces));

const lastChange = z.object({ by: z.string().nullable(), at: z.string(), serviceAccountId: z.uuid().nullable() });
const exportSchema = z.object({
  at: z.string().describe("The platform’s time, in UTC to the second."),
  platform: z.looseObject({ apiVersion: z.string() }).describe("The form of platform.yaml, with all defaults."),
  targets: z
    .record(
      z.string(),
      z.object({
        version: z.string().nullable().describe("What changes of the object name as version or seen."),
        prices: z
          .string()
          .nullable()
          .describe("Changes with the prices of a model, and when one begins. Null for other objects."),
        last: lastChange.nullable().describe("The last entry about the object in the audit log."),
      }),
    )
    .describe("By the object’s name in the audit log, such as “model demo-chat”."),
  deletableModels: z.array(z.string()).describe("The models that were never enabled."),
});

export const platformReads = {
  getPlatform: defineRead({
    summary: "Export the platform’s configuration",
    description: `What gatehouse export writes. Has the workspaces with another plan than free, a policy or a budget, and those that workspaces names: at most ${maxWorkspaces} IDs with commas between them. Also needs the scopes admin:apps:read and admin:workspaces:read.`,
    query: z.object({ workspaces: workspaceIds }),
    answer: exportSchema,
    read({ context, caller }, { workspaces }) {
      const { requestId } = context;
      for (const scope of ["apps:read", "workspaces:read"] as const) requireAdminScope(caller, { scope, requestId });
      return callFunction(context, {
        name: "private.export_platform",
        args: { workspace_ids: workspaces },
        schema: exportSchema,
        timeoutMs: exportTimeoutMs,
      });
    },
  }),
};

/** All settings of a budget. One of limitUsd and maxCalls is null. */
const budgetSettings = z.strictObject({
  limitUsd: z
    .string()
    .regex(/^\d{1,12}(\.\d{1,12})?$/, "must be an amount in USD as text, such as “50”")
    .nullable()
    .describe("US dollars per period. Null for concurrent."),
  maxCalls: maxCallsSchema.nullable().describe("The maximum number of concurrent calls. Null for other periods."),
  timeZone: z.string().min(1).max(64),
  thresholds: thresholdsSchema,
  reservesExpected: z.boolean(),
});
const budgetExample = { limitUsd: "50", maxCalls: null, timeZone: "UTC", thresholds: [80], reservesExpected: false };

export const workspaceSettingChanges = {
  changeWorkspacePolicy: defineChange({
    summary: "Change a workspace’s AI policy",
    description: "Changes only the given fields of policy. seen is the version of the workspace in the export.",
    body: changeBody.extend({
      seen: z.iso.datetime().nullable(),
      policy: policyFields.omit({ monthlyBudgetUsd: true, appBudgets: true }),
    }),
    example: { seen: null, policy: { contentRetentionDays: 7 }, reason: "Data protection" },
    change: ({ uuid }, { seen, policy }) => ({ workspace: uuid("workspaceId"), seen, policy }),
  }),
  changeWorkspaceBudget: defineChange({
    summary: "Set or remove a budget of a workspace",
    description:
      "The budget of the workspace, or of an app or label in it; subject is the app’s name or the label. seen is the budget that you read, or null. A budget of null removes it.",
    body: changeBody.extend({
      scope: z.enum(["workspace", "app", "label"]),
      subject: z.string().regex(labelPattern).nullable().default(null),
      period: budgetPeriod,
      seen: budgetSettings.nullable(),
      budget: budgetSettings.nullable(),
    }),
    example: { scope: "workspace", period: "month", seen: null, budget: budgetExample, reason: "Contract signed" },
    change: ({ uuid }, { scope, subject, period, seen, budget }) => ({
      ...{ workspace: uuid("workspaceId"), scope, subject, period, seen, budget },
    }),
  }),
};
