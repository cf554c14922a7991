import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { formatDateTime } from "../http/date-text.ts";
import { problem } from "../http/problem.ts";
import { removeFactors } from "../mfa/remove-factors.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { type ConsoleChange, callConsole, unavailable } from "./console-change.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

export const policySchema = z.object({
  id: z.uuid(),
  email: z.string().nullable(),
  state: z.enum(["optional", "required", "recovery_in_progress", "malformed"]),
  generation: z.number().int(),
  authenticators: z.number().int(),
  enforced: z.boolean(),
  lastChange: z.object({ action: z.string(), actorEmail: z.string().nullable(), at: z.coerce.date() }).nullable(),
});

/** An account's MFA policy as the console shows it. Each change sends the policy's `generation`. */
export type AccountPolicy = z.infer<typeof policySchema> & {
  /** Why this admin cannot change the policy or reset the authenticators now; null if they can. */
  locks: { policy: string | null; reset: string | null };
};

/** A change to an account, as entered in the console's form. */
export interface PolicyChange {
  subjectId: string;
  /** The policy's generation when the admin read the policy. If the policy has changed since, the change is refused. */
  generation: number;
  reason: string;
}

/**
 * Returns an account's policy as the console shows it; null if the account does not exist.
 * @throws Response 503 UNAVAILABLE
 */
export async function readAccountPolicy(
  context: AppLoadContext,
  { admin, subjectId }: { admin: InfrastructureAdmin; subjectId: string },
): Promise<AccountPolicy | null> {
  const { data, error } = await callConsole(context, { name: "required_mfa_of", args: { subject_id: subjectId } });
  const account = policySchema.nullable().safeParse(data);
  if (error || !account.success) throw problem("UNAVAILABLE", { requestId: context.requestId });
  return account.data && withLocks(context, { admin, policy: account.data });
}

/** Adds why this admin cannot change a policy. */
export function withLocks(
  context: AppLoadContext,
  { admin, policy }: { admin: InfrastructureAdmin; policy: z.infer<typeof policySchema> },
): AccountPolicy {
  return { ...policy, locks: getPolicyLocks(context, { admin, account: policy }) };
}

/**
 * Makes MFA required or optional for an account. REQUIRED_MFA_POLICY_ENABLED is enforced here: the database doesn't
 * know the setting, and only our server can call the function that changes a policy.
 */
export async function changePolicy(
  context: AppLoadContext,
  { admin, step, ...change }: PolicyChange & { admin: InfrastructureAdmin; step: "require" | "make_optional" },
): Promise<ConsoleChange> {
  const account = await readAccountPolicy(context, { admin, subjectId: change.subjectId });
  if (!account) return refusals.not_found;
  if (!context.env.REQUIRED_MFA_POLICY_ENABLED)
    return { outcome: "refused", status: 403, message: policyDisabledMessage };
  const done = await submitStep(context, { ...change, admin, step });
  return done.outcome === "refused" ? done : { outcome: "changed" };
}

/**
 * Removes an account's authenticators: closes the account, deletes them through the admin API, and opens the account
 * again once none is left. If a step fails, the account stays closed, and another reset completes it. A reset doesn't
 * change the policy, so it works even if policy changes are switched off.
 */
export async function resetAuthenticators(
  context: AppLoadContext,
  { admin, ...change }: PolicyChange & { admin: InfrastructureAdmin },
): Promise<ConsoleChange> {
  const account = await readAccountPolicy(context, { admin, subjectId: change.subjectId });
  if (!account) return refusals.not_found;
  const reset = await submitStep(context, { ...change, admin, step: "begin_reset" });
  if (reset.outcome === "refused") return reset;
  if (!(await removeFactors(createServiceClient(context.env), account.id))) return refusals.factors_left;
  const done = await submitStep(context, { ...change, generation: reset.generation, admin, step: "finish_reset" });
  if (done.outcome === "refused") return done;
  return { outcome: "changed" };
}

const answerSchema = z.union([
  z.object({ policy: z.object({ generation: z.number().int() }) }),
  z.object({
    refused: z.enum([
      "forbidden",
      "oneself",
      "not_enforced",
      "not_found",
      "conflict",
      "in_progress",
      "unchanged",
      "factors_left",
    ]),
  }),
]);

async function submitStep(
  context: AppLoadContext,
  {
    admin,
    step,
    subjectId,
    generation,
    reason,
  }: PolicyChange & {
    admin: InfrastructureAdmin;
    step: "require" | "make_optional" | "begin_reset" | "finish_reset";
  },
): Promise<{ outcome: "taken"; generation: number } | Extract<ConsoleChange, { outcome: "refused" }>> {
  const { requestId, clientAddress } = context;
  const { data, error } = await callConsole(context, {
    name: "change_required_mfa",
    args: {
      change: { actor: admin.id, subject: subjectId, step, generation, reason, requestId, ip: clientAddress },
    },
  });
  const answer = answerSchema.safeParse(data);
  if (error || !answer.success) return unavailable;
  if ("policy" in answer.data) return { outcome: "taken", generation: answer.data.policy.generation };
  const { refused } = answer.data;
  return refused === "conflict" ? refuseConflict(context, { admin, subjectId }) : refusals[refused];
}

/** Refuses a change that came too late, and says who made the change before it. */
async function refuseConflict(context: AppLoadContext, subject: { admin: InfrastructureAdmin; subjectId: string }) {
  const last = (await readAccountPolicy(context, subject))?.lastChange;
  const changedBy = last
    ? `${last.actorEmail ?? "Someone"} changed it on ${formatDateTime(last.at)}`
    : "It was changed";
  const message = `${changedBy}, after you opened this page. Nothing was changed. Review it again.`;
  return { outcome: "refused", status: 409, message } as const;
}

const policyDisabledMessage =
  "Changes to the required-MFA policy are switched off on this server (REQUIRED_MFA_POLICY_ENABLED).";

function getPolicyLocks(
  { env }: AppLoadContext,
  { admin, account }: { admin: InfrastructureAdmin; account: z.infer<typeof policySchema> },
): AccountPolicy["locks"] {
  const lock =
    account.id === admin.id ? refusals.oneself.message : account.enforced ? null : refusals.not_enforced.message;
  return { policy: lock ?? (env.REQUIRED_MFA_POLICY_ENABLED ? null : policyDisabledMessage), reset: lock };
}

const refusals = {
  forbidden: refusal(403, "Only platform administrators can use the admin console."),
  oneself: refusal(403, "You can’t change your own account here. Ask another admin."),
  not_enforced: refusal(
    403,
    "The database doesn’t enforce the policy yet: a migration is missing or was undone. Ask an operator to apply it.",
  ),
  not_found: refusal(404, "This account doesn’t exist."),
  in_progress: refusal(409, "A reset of this account’s authenticators isn’t finished. Finish it first."),
  unchanged: refusal(409, "The account already has this setting. Nothing was changed."),
  factors_left: refusal(
    503,
    "Some authenticators couldn’t be removed. The account stays locked until you run the reset again.",
  ),
} as const;

function refusal<Status extends 403 | 404 | 409 | 503>(status: Status, message: string) {
  return { outcome: "refused", status, message } as const;
}
