import { z } from "zod";
import { approvingDevice } from "./approving-device.ts";

/** What calls about challenges take and answer (docs/mobile.md). */

/** By what a challenge is asked for. */
export const challengeQuery = z.object({ secret: z.string() });

const begun = { id: z.uuid(), secret: z.string(), expiresAt: z.iso.datetime() };
/** `payload` is the text of the QR code: a link with the secret in its fragment. */
export const handoffBegun = z.object({ ...begun, payload: z.url() });
export type HandoffBegun = z.output<typeof handoffBegun>;
/** `pairCode` is for the page that asked alone. */
export const approvalBegun = z.object({ ...begun, pairCode: z.string().regex(/^\d{6}$/) });
export type ApprovalBegun = z.output<typeof approvalBegun>;

const secret = z.string().min(1).max(128);
export const handoffApproval = z.strictObject({ secret, device: approvingDevice });
export const handoffRejection = z.strictObject({ secret });
export const handoffApproved = z.object({ status: z.literal("approved") });
export const handoffRejected = z.object({ status: z.literal("rejected") });

/** `session` is in the one answer that consumes the challenge, which also sets the cookies. */
export const handoffProgress = z.object({
  status: z.enum(["created", "approved", "consumed", "rejected", "expired"]),
  session: z.object({ userId: z.uuid(), expiresAt: z.iso.datetime() }).optional(),
});
export type HandoffProgress = z.output<typeof handoffProgress>;

const pairCode = z.string().regex(/^\d{6}$/);
/** Who rejects needs no code: the page that shows it may be an attacker's. */
export const approvalDecision = z.discriminatedUnion("decision", [
  z.strictObject({ decision: z.literal("approve"), pairCode, device: approvingDevice }),
  z.strictObject({
    decision: z.literal("reject"),
    pairCode: pairCode.or(z.literal("")).default(""),
    device: approvingDevice,
  }),
]);
export const approvalDecided = z.object({ status: z.enum(["approved", "rejected"]) });

/** `validUntil` says until when a bound approval counts. */
export const approvalProgress = z.object({
  status: z.enum(["created", "approved", "bound", "rejected", "locked", "expired"]),
  validUntil: z.iso.datetime().optional(),
});

/** What waits for the phone: who asks, from where, since when. There are 20 at most, so there is no next page. */
export const approvalList = z.object({
  approvals: z.array(
    z.object({
      id: z.uuid(),
      device: z.string(),
      address: z.string(),
      createdAt: z.iso.datetime(),
      expiresAt: z.iso.datetime(),
    }),
  ),
  nextCursor: z.null(),
});
export type ApprovalList = z.output<typeof approvalList>;
