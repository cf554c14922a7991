import { z } from "zod";
import { formatDateTime } from "../http/date-text.ts";
import type { ProblemCode } from "../http/problem.ts";

/** What a database function answers to a change. */
export const changeAnswer = z.object({
  refused: z.string().optional(),
  /** The change was made before, with the same idempotency key or reference. */
  repeated: z.boolean().optional(),
  /** What a change that created something without a name of its own created. */
  id: z.uuid().optional(),
  /** What of a setup was refused. */
  part: z.string().optional(),
  last: z.object({ actorEmail: z.string().nullable(), at: z.string() }).nullish(),
});

type Refusal = readonly [code: ProblemCode, detail: string];

/** The problem for each refusal of the database functions, except conflicts. */
const refusals: Readonly<Record<string, Refusal>> = {
  forbidden: ["FORBIDDEN", "Only platform administrators and service accounts with the scope can do this."],
  oneself: ["FORBIDDEN", "Neither you nor your service accounts can do this for yourself. Ask another admin."],
  protected: ["FORBIDDEN", "A service account can’t change an account that has a role in the console."],
  not_found: ["NOT_FOUND", "What the request changes doesn’t exist."],
  key_reused: ["CONFLICT", "The Idempotency-Key was used for another request. Use a new key for each change."],
  taken: ["CONFLICT", "The name, the address or the time is already taken."],
  id_taken: ["CONFLICT", "The ID is already taken."],
  route_taken: ["CONFLICT", "The model already has a route to this provider’s model."],
  default_changed: ["CONFLICT", "Another model became the default of its kind."],
  used: ["CONFLICT", "The model was enabled before, so it can’t be deleted. Disable it instead."],
  started: ["CONFLICT", "The price is in effect, or will be within a minute. Add another price instead."],
  scheduled: ["CONFLICT", "A later price is scheduled."],
  expired: ["CONFLICT", "It has already expired."],
  payer_fixed: ["CONFLICT", "Credit accounts already use the plan, so who pays can’t change."],
  insufficient: ["CONFLICT", "The amount is more than the available balance."],
  reference_used: ["CONFLICT", "The reference was already used for another amount."],
  request_gone: ["CONFLICT", "The request was withdrawn, answered or replaced."],
  deletion: ["CONFLICT", "The account’s deletion is scheduled. Cancel it instead."],
  has_account: ["CONFLICT", "The email already has an account."],
  invited: ["CONFLICT", "The email is already invited."],
  until: ["INVALID_REQUEST", "A ban ends within a year, or has no end."],
  days: ["INVALID_REQUEST", "An account is deleted after 1 to 30 days."],
  past: ["INVALID_REQUEST", "A price can’t take effect in the past."],
  unknown_models: ["INVALID_REQUEST", "The policy names a model that doesn’t exist."],
  no_route: ["INVALID_REQUEST", "The model has no route to this provider."],
  no_plan: ["INVALID_REQUEST", "The plan doesn’t exist, or the workspace already has it."],
  no_grantee: ["INVALID_REQUEST", "The plan or workspace doesn’t exist."],
  no_workspace: ["INVALID_REQUEST", "The workspace doesn’t exist, or the app isn’t external."],
  too_many: ["INVALID_REQUEST", "There are too many or too few entries."],
  invalid: ["INVALID_REQUEST", "The values aren’t valid together."],
};

/** Returns the problem for a refused change. A conflict names who made the last change, if anybody did. */
export function describeRefusal(refused: string, last: z.output<typeof changeAnswer>["last"]): Refusal {
  if (refused === "conflict") {
    const changedBy = last
      ? `${last.actorEmail ?? "Somebody"} changed it on ${formatDateTime(last.at)}.`
      : "It has changed since you read it, or there is nothing to change.";
    return ["CONFLICT", `${changedBy} Nothing was changed. Read it again, then decide.`];
  }
  return refusals[refused] ?? ["CONFLICT", "The change was refused for a reason that this version doesn’t know."];
}
