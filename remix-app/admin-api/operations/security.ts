import { z } from "zod";
import { changePolicy, resetAuthenticators } from "../../admin/mfa-policy.ts";
import {
  createOverride,
  findRecovery,
  overrideSchema,
  overviewSchema,
  revokeOverride,
  sendRecovery,
} from "../../admin/recovery.ts";
import { problem } from "../../http/problem.ts";
import { emailSchema } from "../../session/credentials.ts";
import { callFunction } from "../../supabase/data-api.ts";
import { changeBody, defineAct, defineRead, reasonOnly, requireAdmin } from "../define.ts";

const requiredMfaSchema = z.object({
  state: z.enum(["optional", "required", "recovery_in_progress", "malformed"]),
  /** The next change must send it. */
  generation: z.number().int(),
  authenticators: z.number().int(),
  /** Whether the database enforces the policy. */
  enforced: z.boolean(),
  lastChange: z.object({ action: z.string(), actorEmail: z.string().nullable(), at: z.string() }).nullable(),
});

export const securityReads = {
  getRequiredMfa: defineRead({
    summary: "Get an account’s MFA policy",
    answer: requiredMfaSchema,
    async read({ context, uuid }) {
      const policy = await callFunction(context, {
        name: "private.required_mfa_of",
        args: { subject_id: uuid("userId") },
        schema: requiredMfaSchema.nullable(),
      });
      if (policy) return policy;
      throw problem("NOT_FOUND", { requestId: context.requestId });
    },
  }),
  getRecovery: defineRead({
    summary: "Get what locks an email, and its recovery overrides",
    description: "The email may have no account.",
    query: z.object({ email: emailSchema }),
    answer: overviewSchema,
    read: ({ context }, { email }) => findRecovery(context, email.toLowerCase()),
  }),
};

const generation = z.number().int().min(0).describe("The generation that you read.");

export const securityActs = {
  changeRequiredMfa: defineAct({
    summary: "Require MFA of an account, or make it optional",
    description: "Refused with 409 if the policy has changed since its generation.",
    body: changeBody.extend({ required: z.boolean(), generation }),
    example: { required: true, generation: 0, reason: "Handles payments" },
    act: (call, { required, ...change }) =>
      changePolicy(call.context, {
        ...change,
        admin: requireAdmin(call),
        subjectId: call.uuid("userId"),
        step: required ? "require" : "make_optional",
      }),
  }),
  resetAuthenticators: defineAct({
    summary: "Remove an account’s authenticators",
    description: "The account is locked until all are removed. If the answer is 503, repeat the request.",
    body: changeBody.extend({ generation }),
    example: { generation: 1, reason: "Lost phone, identity checked by video" },
    act: (call, change) =>
      resetAuthenticators(call.context, { ...change, admin: requireAdmin(call), subjectId: call.uuid("userId") }),
  }),
  createRecoveryOverride: defineAct({
    summary: "Create a recovery override for an email",
    body: z.strictObject(overrideSchema.shape),
    example: { email: "ada@example.com", normalLogin: true, recoveryEmail: true, reason: "Ticket 4711" },
    act: (call, values) => createOverride(call.context, { ...values, admin: requireAdmin(call) }),
  }),
  sendRecoveryEmail: defineAct({
    summary: "Send the recovery email of an override",
    description: "Earlier links and codes stop working. The answer contains neither.",
    ...reasonOnly,
    act: (call, { reason }) =>
      sendRecovery(call.context, { admin: requireAdmin(call), overrideId: call.uuid("overrideId"), reason }),
  }),
  revokeRecoveryOverride: defineAct({
    summary: "Revoke a recovery override",
    ...reasonOnly,
    act: (call, { reason }) =>
      revokeOverride(call.context, { admin: requireAdmin(call), overrideId: call.uuid("overrideId"), reason }),
  }),
};
