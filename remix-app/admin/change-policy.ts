import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { timeText } from "../http/date-text.ts";
import { problem } from "../http/problem.ts";
import { type Account, readAccount } from "./accounts.ts";
import { type ConsoleChange, confirmedChangeSchema } from "./console-change.ts";
import { count, policyLabels } from "./labels.ts";
import {
  type AccountPolicy,
  changePolicy,
  type PolicyChange,
  readAccountPolicy,
  resetAuthenticators,
} from "./mfa-policy.ts";
import type { PolicyStep } from "./policy-step.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

/** The form of a policy change. `generation` belongs to the policy that the admin saw. */
export const policyChangeSchema = confirmedChangeSchema.extend({ generation: z.coerce.number().int().min(0) });

/**
 * Returns the account that a page of the console is about, with its policy.
 * @throws Response 404 for an unknown account
 */
export async function requireSubject(
  context: AppLoadContext,
  { admin, subjectId }: { admin: InfrastructureAdmin; subjectId: string | undefined },
): Promise<{ account: Account; policy: AccountPolicy }> {
  const id = z.uuid().safeParse(subjectId);
  if (id.success) {
    const [account, policy] = await Promise.all([
      readAccount(context, id.data),
      readAccountPolicy(context, { admin, subjectId: id.data }),
    ]);
    if (account && policy) return { account, policy };
  }
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This account doesn’t exist." });
}

/** Applies a policy step. */
export function takePolicyStep(
  context: AppLoadContext,
  { step, ...change }: PolicyChange & { admin: InfrastructureAdmin; step: PolicyStep },
): Promise<ConsoleChange> {
  if (step === "reset") return resetAuthenticators(context, change);
  return changePolicy(context, { ...change, step: step === "require" ? "require" : "make_optional" });
}

/** Describes what a change will do, to which account, and what applied before. */
export function effectsOf(
  step: PolicyStep,
  { account, policy }: { account: Account; policy: AccountPolicy },
): string[] {
  const name = account.email ?? account.id;
  const apps = count(policy.authenticators, "authenticator");
  const sessions = count(account.sessionCount, "session");
  switch (step) {
    case "require":
      return [
        `Once you confirm, ${name} must use MFA everywhere, and verify again on every device.`,
        policy.authenticators > 0
          ? `They have ${apps}. Wherever they are signed in (${sessions} now), they must enter a code again.`
          : `They have no authenticator. Wherever they are signed in (${sessions} now), they must set one up first.`,
        describeLastChange(policy),
      ];
    case "make-optional":
      return [
        `Once you confirm, ${name} can remove their authenticators and sign in without them.`,
        policy.authenticators > 0
          ? `Their ${apps} ${policy.authenticators === 1 ? "stays" : "stay"} enrolled, and codes are still asked for.`
          : "They have no authenticator, so one factor is enough immediately.",
        describeLastChange(policy),
      ];
    case "reset":
      return [
        `${name} is signed out everywhere (${sessions} now), and ${apps} ${policy.authenticators === 1 ? "is" : "are"} removed for good.`,
        "The account is locked until all of them are removed. If this stops halfway, it stays locked until you run it again.",
        policy.state === "optional"
          ? "They can then sign in with one factor, because MFA is optional for them."
          : "They must sign in again and set up an authenticator first.",
        "We’ll email them about it.",
        describeLastChange(policy),
      ];
  }
}

function describeLastChange({ state, lastChange }: AccountPolicy): string {
  const now = `MFA is ${policyLabels[state].toLowerCase()} now`;
  if (!lastChange) return `${now}. This setting has never been changed.`;
  return `${now}. Last changed on ${timeText(lastChange.at)} by ${lastChange.actorEmail ?? "someone"}.`;
}
