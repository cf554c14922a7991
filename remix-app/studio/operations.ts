import { z } from "zod";
import type { Operation } from "#shared/operation.ts";
import { enteredInvoice, invoiceReceipt } from "#shared/provider-records.ts";
import { pageQuery } from "../http/list-page.ts";
import type { ProblemCode } from "../http/problem.ts";
import { agentOperations } from "./agents/agent-operations.ts";
import { budgetChange } from "./budgets/budget-change.ts";
import { budgetPage } from "./budgets/budget-schema.ts";
import { budgetQuery } from "./budgets/budgets.ts";
import { costPage, invoicePage, reconciliationPage } from "./costs/provider-import-schema.ts";
import { envelopeOperations } from "./envelopes/envelope-operations.ts";
import { issuedKey, keyChangeSchema, keyPage, keySummary, newKeySchema, rotationSchema } from "./keys/key-schema.ts";
import { aiPolicy, policyChange } from "./policy/ai-policy.ts";
import { windowQuery } from "./range.ts";
import { runPage, runQuery, runWithSteps } from "./runs/run-schema.ts";
import { creditsPage, usagePage, usageQuery } from "./usage/usage.ts";

const operationTag = "AI studio";
const basePath = "/api/v1/workspaces/{workspaceId}/ai";
const memberFields = { tag: operationTag, credentials: ["session", "bearer", "service"] } as const;
const memberOrAppFields = { tag: operationTag, credentials: ["session", "bearer", "service", "appSession"] } as const;
const commonProblems = ["FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND"] as const satisfies ProblemCode[];
const rangeDescription =
  "The range is half-open, in UTC days or times, and defaults to the last 30 days. Amounts are exact JSON numbers in USD.";

/** API operations about a workspace's AI: keys, policy, runs and money. */
export const studioOperations: readonly Operation<ProblemCode>[] = [
  {
    ...memberFields,
    id: "listKeys",
    method: "GET",
    path: `${basePath}/keys`,
    summary: "List API keys",
    description: "Requires the manage_ai_keys permission.",
    query: pageQuery,
    answers: [{ status: 200, description: "A page of keys, without their secrets.", schema: keyPage }],
    problems: ["INVALID_REQUEST", ...commonProblems],
  },
  {
    ...memberFields,
    id: "createKey",
    method: "POST",
    path: `${basePath}/keys`,
    summary: "Create an API key",
    description:
      "Requires the manage_ai_keys permission, the platform's approval for the workspace, and a recent identity confirmation. The secret is only in this response. allowedModels takes model IDs exactly as requests send them; an unknown ID is refused by name.",
    body: {
      schema: newKeySchema,
      example: { name: "Backend", environment: "live", allowedModels: ["demo-chat"], monthlyBudgetUsd: 25 },
    },
    answers: [{ status: 201, description: "The key and its secret.", schema: issuedKey }],
    problems: ["INVALID_REQUEST", "STEP_UP_REQUIRED", "CONFLICT", ...commonProblems],
  },
  {
    ...memberFields,
    id: "changeKey",
    method: "PATCH",
    path: `${basePath}/keys/{keyId}`,
    summary: "Change an API key",
    description:
      "Changes only the given settings of a key that works; null removes a limit. Requires the manage_ai_keys permission and a recent identity confirmation. If the key would allow more than before, also requires the platform's approval for the workspace. With version, a key that has changed since is refused with 409. The entity label and the app never change.",
    body: { schema: keyChangeSchema, example: { name: "Backend", expiresAt: "2027-06-30T00:00:00Z" } },
    answers: [{ status: 200, description: "The changed key.", schema: z.object({ key: keySummary }) }],
    problems: ["INVALID_REQUEST", "STEP_UP_REQUIRED", "CONFLICT", ...commonProblems],
  },
  {
    ...memberFields,
    id: "rotateKey",
    method: "POST",
    path: `${basePath}/keys/{keyId}/rotate`,
    summary: "Rotate an API key",
    description: "The new key keeps the limits, bindings and spent amounts. The old key works until the overlap ends.",
    body: { schema: rotationSchema, example: { overlapSeconds: 3600 }, optional: true },
    answers: [{ status: 201, description: "The new key and its secret.", schema: issuedKey }],
    problems: ["INVALID_REQUEST", "STEP_UP_REQUIRED", "CONFLICT", ...commonProblems],
  },
  {
    ...memberFields,
    id: "revokeKey",
    method: "DELETE",
    path: `${basePath}/keys/{keyId}`,
    summary: "Revoke an API key",
    description: "Takes effect immediately. Requires the manage_ai_keys permission, but no approval.",
    answers: [{ status: 204, description: "The key is revoked." }],
    problems: [...commonProblems],
  },
  ...agentOperations,
  {
    ...memberFields,
    id: "getPolicy",
    method: "GET",
    path: `${basePath}/policy`,
    summary: "Get the AI policy",
    answers: [
      { status: 200, description: "The workspace's policy, and the spending of its budgets.", schema: aiPolicy },
    ],
    problems: [...commonProblems],
  },
  {
    ...memberFields,
    id: "changePolicy",
    method: "PATCH",
    path: `${basePath}/policy`,
    summary: "Change the AI policy",
    description:
      "Changes only the given fields; null removes a limit. Requires the manage_ai_policy permission. A list that adds an unknown model is refused by that model's name; unknown names that are already in the policy are kept. allowedRegions limits calls to providers in these regions. modelLimits replaces all limits by model.",
    body: { schema: policyChange, example: { monthlyBudgetUsd: 500, contentCapture: false } },
    answers: [{ status: 200, description: "The changed policy.", schema: aiPolicy }],
    problems: ["INVALID_REQUEST", ...commonProblems],
  },
  {
    ...memberFields,
    id: "listBudgets",
    method: "GET",
    path: `${basePath}/budgets`,
    summary: "List budgets",
    description:
      "Budgets of the workspace, its apps, keys, members and entity labels, with their spending in the current window. Lists monthly budgets; with period=all, all budgets, several for a subject, and limits of concurrent calls. Without a budget, limitUsd and maxCalls are null. For a label, name is the label. enforced is false for a label that no active key has: its budget only warns. Budgets of keys require the manage_ai_keys or manage_ai_policy permission.",
    query: budgetQuery,
    answers: [{ status: 200, description: "A page of budgets.", schema: budgetPage }],
    problems: ["INVALID_REQUEST", ...commonProblems],
  },
  {
    ...memberFields,
    id: "setBudget",
    method: "PATCH",
    path: `${basePath}/budgets`,
    summary: "Set a budget",
    description:
      "Send limitUsd and previousLimitUsd, or for the period concurrent maxCalls and previousMaxCalls. A limit of null removes the budget. The previous value is the one that you last read, or null for none; if it has changed since, nothing is set and the response is 409. Concurrent calls can be limited for the workspace, a member or a key. Requires the manage_ai_policy permission, or manage_ai_keys for a key.",
    body: {
      schema: budgetChange,
      example: {
        scope: "label",
        label: "customer:7",
        period: "day",
        limitUsd: 5,
        previousLimitUsd: null,
        timeZone: "Europe/Berlin",
      },
    },
    answers: [{ status: 204, description: "The budget is set." }],
    problems: ["INVALID_REQUEST", "CONFLICT", ...commonProblems],
  },
  ...envelopeOperations,
  {
    ...memberFields,
    id: "getWorkspaceUsage",
    method: "GET",
    path: `${basePath}/usage`,
    summary: "Get usage",
    description: `${rangeDescription} groupBy is a comma-separated list of day, model, feature, executionMode, provider, key, app, member; or label (X-Platform-Entity-Id), alone or with day. provider is null if the workspace hides provider cost. The label * is the sum of a day's labels beyond the 10,000 most expensive.`,
    query: usageQuery,
    answers: [{ status: 200, description: "Sums for each group, and in total.", schema: usagePage }],
    problems: ["INVALID_REQUEST", ...commonProblems],
  },
  {
    ...memberFields,
    id: "listRuns",
    method: "GET",
    path: `${basePath}/runs`,
    summary: "List runs",
    description:
      "With any filter except requestId, a page searches 10,000 runs. It may then have fewer runs than limit, or none, and still have a nextCursor: continue until that is null. A keyId, appId, memberId or provider that does not exist returns 400, as does provider if the workspace hides provider cost. A sort other than time is possible in a range of at most 10,000 runs; otherwise the response is 400. Refused calls are not runs, and are not listed. pricing explains the cost of each run (docs/pricing.md).",
    query: runQuery,
    answers: [{ status: 200, description: "A page of runs, newest or largest first.", schema: runPage }],
    problems: ["INVALID_REQUEST", ...commonProblems],
  },
  {
    ...memberFields,
    id: "getRun",
    method: "GET",
    path: `${basePath}/runs/{runId}`,
    summary: "Get a run with its steps and provider requests",
    answers: [{ status: 200, description: "The run, without prompts and answers.", schema: runWithSteps }],
    problems: [...commonProblems],
  },
  {
    ...memberFields,
    id: "getCredits",
    method: "GET",
    path: `${basePath}/credits`,
    summary: "Get balances and the ledger",
    description: rangeDescription,
    query: windowQuery,
    answers: [
      { status: 200, description: "Balances, a page of the ledger, and the credits used.", schema: creditsPage },
    ],
    problems: ["INVALID_REQUEST", ...commonProblems],
  },
  {
    ...memberOrAppFields,
    id: "listProviderCosts",
    method: "GET",
    path: `${basePath}/provider-costs`,
    summary: "List imported provider costs",
    description: rangeDescription,
    query: windowQuery,
    answers: [{ status: 200, description: "A page of records, and totals for the whole range.", schema: costPage }],
    problems: ["INVALID_REQUEST", ...commonProblems],
  },
  {
    ...memberOrAppFields,
    id: "listProviderInvoices",
    method: "GET",
    path: `${basePath}/provider-invoices`,
    summary: "List provider invoices",
    query: pageQuery,
    answers: [{ status: 200, description: "A page of invoices, and the total of all.", schema: invoicePage }],
    problems: ["INVALID_REQUEST", ...commonProblems],
  },
  {
    ...memberFields,
    id: "enterProviderInvoice",
    method: "POST",
    path: `${basePath}/provider-invoices`,
    summary: "Enter a reviewed provider invoice",
    description:
      "For an enabled external app that is linked to the workspace. A recorded invoice never changes: sending it again returns the same receipt, and sending it with different values is refused.",
    body: {
      schema: enteredInvoice,
      example: {
        appId: "5f0c7c1e-9a0b-4f0e-8f5d-0b9a3c2d1e4f",
        provider: "openai",
        reference: "INV-2026-09",
        issuedOn: "2026-10-01",
        reviewedAt: "2026-10-02T09:30:00Z",
        amountUsd: 1234.56,
        periodStart: "2026-09-01",
        periodEnd: "2026-09-30",
      },
    },
    answers: [{ status: 200, description: "The invoice is recorded.", schema: invoiceReceipt }],
    problems: ["INVALID_REQUEST", "CONFLICT", ...commonProblems],
  },
  {
    ...memberOrAppFields,
    id: "reconcileCosts",
    method: "GET",
    path: `${basePath}/reconciliation`,
    summary: "Compare metered, imported and invoiced cost",
    description:
      "By month, provider and account. Defaults to the last 12 months, including this one. clashes lists records that differ only in the spelling of their provider's name; only one of them counts.",
    query: windowQuery,
    answers: [
      { status: 200, description: "A page of months, and totals for the whole range.", schema: reconciliationPage },
    ],
    problems: ["INVALID_REQUEST", ...commonProblems],
  },
];
