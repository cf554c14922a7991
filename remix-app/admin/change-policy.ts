import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { formatDateTime } from "../http/date-text.ts";
import { buildPage, parseCursor, readCursor, writeCursor } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";
import { type Account, accountSchema, type TimelineEntry, timelineSchema } from "./accounts.ts";
import { type AddressBlock, blockSchema, blocksPerPage } from "./address-blocks.ts";
import { reasonedChangeSchema } from "./confirmation.ts";
import type { ConsoleChange } from "./console-change.ts";
import { formatQuantity, policyLabels } from "./labels.ts";
import {
  type AccountPolicy,
  changePolicy,
  type PolicyChange,
  policySchema,
  resetAuthenticators,
  withLocks,
} from "./mfa-policy.ts";
import type { PolicyStep } from "./policy-step.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

/** The form of a policy change. `generation` belongs to the policy that the admin saw. */
export const policyChangeSchema = reasonedChangeSchema.extend({ generation: z.coerce.number().int().min(0) });

/** The account that a page of the console is about, with its policy. */
interface Subject {
  account: Account;
  policy: AccountPolicy;
}

type SubjectQuery = { admin: InfrastructureAdmin; subjectId: string | undefined };

const subjectSchema = z.object({ account: accountSchema.nullable(), policy: policySchema.nullable() });
const accountPage = subjectSchema.extend({ timeline: timelineSchema, blocks: z.array(blockSchema) });
const entriesPerPage = 30;

/** @throws Response 404 for an unknown account, 503 UNAVAILABLE */
export async function requireSubject(context: AppLoadContext, { admin, subjectId }: SubjectQuery): Promise<Subject> {
  const args = { subject_id: requireId(context, subjectId) };
  const found = await callFunction(context, { name: "private.read_subject", args, schema: subjectSchema });
  return subjectOf(context, { admin, found });
}

/**
 * Returns an account with a page of its timeline, newest first, and the active blocks of its recent addresses.
 * @throws Response 404 for an unknown account, 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function requireAccountPage(
  context: AppLoadContext,
  { admin, subjectId, cursor }: SubjectQuery & { cursor: string | null },
): Promise<
  Subject & { timeline: { entries: TimelineEntry[]; nextCursor: string | null }; blocks: readonly AddressBlock[] }
> {
  const args = {
    subject_id: requireId(context, subjectId),
    timeline_before: parseCursor(cursor, { read: readCursor, requestId: context.requestId }),
    timeline_page_size: entriesPerPage + 1,
    block_page_size: blocksPerPage,
  };
  const found = await callFunction(context, { name: "private.read_account_page", args, schema: accountPage });
  const { records: entries, nextCursor } = buildPage(found.timeline, { limit: entriesPerPage, cursorOf: writeCursor });
  return { ...subjectOf(context, { admin, found }), timeline: { entries, nextCursor }, blocks: found.blocks };
}

function subjectOf(
  context: AppLoadContext,
  { admin, found: { account, policy } }: { admin: InfrastructureAdmin; found: z.output<typeof subjectSchema> },
): Subject {
  if (account && policy) return { account, policy: withLocks(context, { admin, policy }) };
  throw noSuchAccount(context);
}

function requireId(context: AppLoadContext, subjectId: string | undefined): string {
  const id = z.uuid().safeParse(subjectId);
  if (!id.success) throw noSuchAccount(context);
  return id.data;
}

function noSuchAccount({ requestId }: AppLoadContext): Response {
  return problem("NOT_FOUND", { requestId, detail: "This account doesn’t exist." });
}

/** Applies a policy step. */
export function applyPolicyStep(
  context: AppLoadContext,
  { step, ...change }: PolicyChange & { admin: InfrastructureAdmin; step: PolicyStep },
): Promise<ConsoleChange> {
  if (step === "reset") return resetAuthenticators(context, change);
  return changePolicy(context, { ...change, step: step === "require" ? "require" : "make_optional" });
}

/** Describes what a change will do, to which account, and what applied before. */
export function describePolicyEffects(
  step: PolicyStep,
  { account, policy }: { account: Account; policy: AccountPolicy },
): string[] {
  const name = account.email ?? account.id;
  const apps = formatQuantity(policy.authenticators, "authenticator");
  const sessions = formatQuantity(account.sessionCount, "session");
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
  return `${now}. Last changed on ${formatDateTime(lastChange.at)} by ${lastChange.actorEmail ?? "someone"}.`;
}
