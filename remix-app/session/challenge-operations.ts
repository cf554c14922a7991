import { z } from "zod";
import type { Operation } from "#shared/operation.ts";
import type { ProblemCode } from "../http/problem.ts";
import { approvingDevice } from "./challenge.ts";

/** Requests and responses of the calls about challenges (docs/mobile.md). */

/** The query that authenticates a poll. */
const challengeQuery = z.object({ secret: z.string() });

const newChallenge = { id: z.uuid(), secret: z.string(), expiresAt: z.iso.datetime() };
/** `payload` is the text of the QR code: a link with the secret in its fragment. */
export const newHandoff = z.object({ ...newChallenge, payload: z.url() });
export type NewHandoff = z.output<typeof newHandoff>;
/** `pairCodeSchema` is only for the requesting page. */
export const newApprovalRequest = z.object({ ...newChallenge, pairCode: z.string().regex(/^\d{6}$/) });
export type NewApprovalRequest = z.output<typeof newApprovalRequest>;

const secretSchema = z.string().min(1).max(128);
export const handoffApproval = z.strictObject({ secret: secretSchema, device: approvingDevice });
export const handoffRejection = z.strictObject({ secret: secretSchema });
const approvedResponse = z.object({ status: z.literal("approved") });
const rejectedResponse = z.object({ status: z.literal("rejected") });

/** `session` is present only if this request consumed the challenge. The response then also sets the cookies. */
export const qrHandoffStatusSchema = z.object({
  status: z.enum(["created", "approved", "consumed", "rejected", "expired"]),
  session: z.object({ userId: z.uuid(), expiresAt: z.iso.datetime() }).optional(),
});
export type HandoffProgress = z.output<typeof qrHandoffStatusSchema>;

/** A request that waits for a phone, with the requesting device, its address and the time. */
const requestForPhone = z.object({
  id: z.uuid(),
  device: z.string(),
  address: z.string(),
  createdAt: z.iso.datetime(),
  expiresAt: z.iso.datetime(),
});
/** A QR request as shown to the phone that read the code. */
const handoffRequest = requestForPhone.extend({ status: qrHandoffStatusSchema.shape.status });
export type HandoffRequest = z.output<typeof handoffRequest>;

const pairCodeSchema = z.string().regex(/^\d{6}$/);
/**
 * Rejecting needs no code. The code is on the requesting page, which a person who did not make the request cannot see.
 */
export const approvalDecision = z.discriminatedUnion("decision", [
  z.strictObject({ decision: z.literal("approve"), pairCode: pairCodeSchema, device: approvingDevice }),
  z.strictObject({
    decision: z.literal("reject"),
    pairCode: pairCodeSchema.or(z.literal("")).default(""),
    device: approvingDevice,
  }),
]);
const decisionResponse = z.object({ status: z.enum(["approved", "rejected"]) });

/** `validUntil` is the time at which a bound approval expires. */
const approvalProgress = z.object({
  status: z.enum(["created", "approved", "bound", "rejected", "locked", "expired"]),
  validUntil: z.iso.datetime().optional(),
});

/** The requests that wait for the phone. There are at most 20, so one page holds them. */
export const approvalList = z.object({ approvals: z.array(requestForPhone), nextCursor: z.null() });
export type ApprovalList = z.output<typeof approvalList>;

const qr = "QR handoff";
const mobile = "Mobile MFA approval";
const device = { name: "Ada's phone", platform: "ios", appLock: true, localAuthentication: "biometric" };
const exampleSecret = "q4mvXr0y7GZ0m3Z1l0o9Wb8Qv2m7Yd4JkX9tF5sN1cE";

/** API operations between a browser and a phone of the same account. */
export const challengeOperations: readonly Operation<ProblemCode>[] = [
  {
    id: "beginHandoff",
    method: "POST",
    path: "/api/v1/auth/qr-login/challenges",
    tag: qr,
    summary: "Start a QR handoff",
    description:
      "Asks a phone to renew the browser's session. Show the payload as a QR code. The challenge expires after 2 minutes, and an earlier pending one expires now.",
    credentials: ["session"],
    answers: [{ status: 201, description: "The challenge, with its secret.", schema: newHandoff }],
    problems: ["FORBIDDEN", "MFA_REQUIRED", "CONFLICT", "RATE_LIMITED"],
  },
  {
    id: "pollHandoff",
    method: "GET",
    path: "/api/v1/auth/qr-login/challenges/{id}",
    tag: qr,
    summary: "Get a QR handoff",
    description:
      "For the session that started it, the first poll that finds it approved consumes it and gives the browser a new session. HEAD only reads the status. For a phone signed in to the same account, returns the requesting device to show before approval, and changes nothing.",
    credentials: ["session", "bearer"],
    query: challengeQuery.partial(),
    answers: [
      {
        status: 200,
        description:
          "The status. The browser also gets the new session if this poll consumed the challenge. A phone also gets the requesting device, its IP address and the time.",
        schema: z.union([qrHandoffStatusSchema, handoffRequest]),
      },
    ],
    problems: ["FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND", "CONFLICT"],
  },
  {
    id: "approveHandoff",
    method: "POST",
    path: "/api/v1/auth/qr-login/challenges/{id}/approve",
    tag: qr,
    summary: "Approve a QR handoff from a phone",
    description:
      "For the app of the same account. The app lock must be on, and the user must have authenticated on the phone.",
    credentials: ["bearer"],
    body: { schema: handoffApproval, example: { secret: exampleSecret, device } },
    answers: [{ status: 200, description: "The handoff is approved.", schema: approvedResponse }],
    problems: ["INVALID_REQUEST", "FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND", "CONFLICT", "GONE"],
  },
  {
    id: "rejectHandoff",
    method: "POST",
    path: "/api/v1/auth/qr-login/challenges/{id}/reject",
    tag: qr,
    summary: "Reject a QR handoff from a phone",
    credentials: ["bearer"],
    body: { schema: handoffRejection, example: { secret: exampleSecret } },
    answers: [{ status: 200, description: "The handoff is rejected.", schema: rejectedResponse }],
    problems: ["INVALID_REQUEST", "FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND", "CONFLICT", "GONE"],
  },
  {
    id: "requestApproval",
    method: "POST",
    path: "/api/v1/auth/mfa/mobile/challenges",
    tag: mobile,
    summary: "Ask a phone to approve the second step",
    description: "Show the pair code only on the page. The request expires after 5 minutes.",
    credentials: ["session"],
    answers: [{ status: 201, description: "The request, with its secret and pair code.", schema: newApprovalRequest }],
    problems: ["FORBIDDEN", "CONFLICT", "RATE_LIMITED"],
  },
  {
    id: "pollApproval",
    method: "GET",
    path: "/api/v1/auth/mfa/mobile/challenges/{id}",
    tag: mobile,
    summary: "Get an approval request",
    description: "For the session that sent the request. Once it is approved, the response sets the approval cookie.",
    credentials: ["session"],
    query: challengeQuery.partial(),
    answers: [{ status: 200, description: "The status of the request.", schema: approvalProgress }],
    problems: ["FORBIDDEN", "NOT_FOUND"],
  },
  {
    id: "decideApproval",
    method: "POST",
    path: "/api/v1/auth/mfa/mobile/challenges/{id}/approve",
    tag: mobile,
    summary: "Approve or reject a request from a phone",
    description:
      "Call it from another session of the same account that has completed its second step. The fifth wrong code locks the request.",
    credentials: ["bearer"],
    body: { schema: approvalDecision, example: { decision: "approve", pairCode: "428913", device } },
    answers: [{ status: 200, description: "The decision.", schema: decisionResponse }],
    problems: ["INVALID_REQUEST", "FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND", "CONFLICT", "GONE"],
  },
  {
    id: "listApprovals",
    method: "GET",
    path: "/api/v1/auth/mfa/mobile/approvals",
    tag: mobile,
    summary: "List pending approval requests",
    credentials: ["bearer"],
    answers: [
      {
        status: 200,
        description: "The requesting devices, with their IP addresses and times. The pair codes are not included.",
        schema: approvalList,
      },
    ],
    problems: ["FORBIDDEN", "MFA_REQUIRED"],
  },
];
