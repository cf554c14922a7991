import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { getUser } from "../session/user.ts";
import { budgetPeriod } from "../studio/budgets/budget-schema.ts";
import { callFunction } from "../supabase/data-api.ts";
import { amountText } from "../ui/format-amount.ts";
import { requestsSchema } from "./key-approvals.ts";
import { maxTroubledRoutes } from "./overview-words.ts";
import { providerTroubleSchema } from "./provider-trouble.ts";

/** How many rows of a kind need a person, up to 1,001, and since when: the earliest time or day, or null if unknown. */
const kindSchema = z.object({ count: z.number(), since: z.string().nullable() });
const menuSchema = z.object({
  approvals: kindSchema,
  months: kindSchema,
  importers: kindSchema,
  recoveries: kindSchema,
  deletions: kindSchema,
  machines: kindSchema,
  providers: kindSchema,
});
type MenuAttention = z.infer<typeof menuSchema>;
const attentionSchema = menuSchema.extend({
  budgets: kindSchema,
  credits: kindSchema,
  mails: kindSchema,
  jobs: kindSchema,
});
export type Attention = z.infer<typeof attentionSchema>;

const budgetSchema = z.object({
  workspaceId: z.uuid(),
  workspace: z.string(),
  scope: z.enum(["key", "app", "member", "label", "workspace"]),
  subjectId: z.uuid(),
  /** Null if the subject was deleted. */
  name: z.string().nullable(),
  period: budgetPeriod,
  limitUsd: amountText,
  refusedAt: z.string(),
});
export type UsedUpBudget = z.infer<typeof budgetSchema>;

const creditsSchema = z.object({
  payer: z.enum(["workspace", "member"]),
  ownerId: z.uuid(),
  name: z.string().nullable(),
  available: amountText,
  refusedAt: z.string(),
});

const importerSchema = z.object({
  provider: z.string(),
  failures: z.number(),
  lastError: z.string().nullable(),
  lastCompleteDay: z.iso.date().nullable(),
  missedDays: z.number(),
});
export type FailingImporter = z.infer<typeof importerSchema>;

const jobSchema = z.object({ job: z.enum(["sweep", "sums"]), since: z.string().nullable() });
export type LateJob = z.infer<typeof jobSchema>;

const recoverySchema = z.object({
  kind: z.enum(["reset", "override"]),
  userId: z.uuid().nullable(),
  email: z.string().nullable(),
  since: z.string(),
  endsAt: z.string().nullable(),
});

const deletionSchema = z.object({
  userId: z.uuid(),
  email: z.string().nullable(),
  dueAt: z.string(),
  /** How many workspaces would be left without an owner, and the names of the first three. */
  blockers: z.number(),
  workspaces: z.array(z.string()),
});
export type BlockedDeletion = z.infer<typeof deletionSchema>;

const machineSchema = z.object({
  id: z.uuid(),
  name: z.string(),
  expiresAt: z.string(),
  /** Whether the person who created it no longer has a role in the console. */
  creatorLeft: z.boolean(),
});

/** What the console's overview shows. The lists have at most 10 rows; `attention` counts all. */
export const overviewSchema = z.object({
  attention: attentionSchema,
  providers: providerTroubleSchema,
  approvals: requestsSchema,
  budgets: z.array(budgetSchema),
  credits: z.array(creditsSchema),
  months: z.array(z.string().regex(/^\d{4}-\d\d$/)),
  importers: z.array(importerSchema),
  mails: z.object({ failed: z.number(), waiting: z.number() }),
  jobs: z.array(jobSchema),
  recoveries: z.array(recoverySchema),
  deletions: z.array(deletionSchema),
  machines: z.array(machineSchema),
  /** Since midnight UTC. */
  today: z.object({ calls: z.number(), failed: z.number(), refused: z.number(), costUsd: amountText }),
  /** What is usual by this time of this weekday. Null before a week has been counted. */
  usual: z
    .object({ runs: z.number(), failedRuns: z.number(), refusedCalls: z.number(), costUsd: amountText })
    .nullable(),
});
export type Overview = z.infer<typeof overviewSchema>;

/** The providers whose costs this server imports automatically. */
type CostProviders = { costProviders: readonly string[] };

/** Returns what needs a person, and the day so far. @throws Response 503 UNAVAILABLE */
export async function readOverview(context: AppLoadContext, { costProviders }: CostProviders): Promise<Overview> {
  const args = { cost_providers: costProviders };
  const overview = await callFunction(context, { name: "private.read_overview", args, schema: overviewSchema });
  const providers = overview.providers.map((one) => ({ ...one, routes: one.routes.slice(0, maxTroubledRoutes) }));
  return { ...overview, providers };
}

/** The kinds that the menu counts, each in the section in which people decide about it. */
const menuKinds: Readonly<Record<string, readonly (keyof MenuAttention)[]>> = {
  "/admin/accounts": ["deletions"],
  "/admin/recovery": ["recoveries"],
  "/admin/approvals": ["approvals"],
  "/admin/service-accounts": ["machines"],
  "/admin/providers": ["providers"],
  "/admin/books": ["months", "importers"],
};

/** Sections of the menu with the number of rows that need a person. */
export type MenuCounts = Readonly<Record<string, number>>;

/** The maximum time that a page waits for the counts of its menu. */
const countTimeoutMs = 1_000;

/**
 * Returns the counts that the visitor's menu shows: all to admins, those of the books to finance people, and none to
 * others. Never throws. Without an answer in time, the menu has no counts.
 */
export async function readMenuCounts(context: AppLoadContext, { costProviders }: CostProviders): Promise<MenuCounts> {
  try {
    const user = await getUser(context);
    if (!user?.consoleRole || !user.mfa.satisfied || !user.mfa.enrolled || user.aal === "aal1") return {};
    const attention = await callFunction(context, {
      name: "private.read_attention",
      args: { cost_providers: costProviders, in_menu: true },
      schema: menuSchema,
      timeoutMs: countTimeoutMs,
    });
    const counts = countSections(attention);
    return user.consoleRole === "finance" ? { "/admin/books": counts["/admin/books"] ?? 0 } : counts;
  } catch {
    // The frame must not fail a page. The failed call is in the log.
    return {};
  }
}

/** Returns how many rows of each section of the menu need a person. */
export function countSections(attention: MenuAttention): MenuCounts {
  return Object.fromEntries(
    Object.entries(menuKinds).map(([section, kinds]) => [
      section,
      kinds.reduce((sum, kind) => sum + attention[kind].count, 0),
    ]),
  );
}
