import { z } from "zod";
import type { Operation } from "#shared/operation.ts";
import type { ProblemCode } from "../../http/problem.ts";
import { approvingDevice } from "../../session/challenge.ts";

/** The API that lets a phone answer a device's request (docs/mobile.md). */

export const deviceApproval = z.strictObject({ device: approvingDevice });

const deviceRequest = z.object({
  /** The code as the device shows it. */
  userCode: z.string().regex(/^[A-Z]{4}-[A-Z]{4}$/),
  status: z.enum(["pending", "approved", "denied", "expired"]),
  app: z.object({ name: z.string(), displayName: z.string() }),
  scopes: z.array(z.string()),
  /** Descriptions of the scopes. */
  rights: z.array(z.string()),
  device: z.string(),
  address: z.string().nullable(),
  place: z.string().nullable(),
  createdAt: z.iso.datetime(),
  expiresAt: z.iso.datetime(),
});
export type DeviceRequest = z.output<typeof deviceRequest>;

const tag = "Device sign-in";
const exampleDevice = { name: "Ada's phone", platform: "ios", appLock: true, localAuthentication: "biometric" };
const deviceAuthorizationPath = "/api/v1/auth/device-authorizations/{userCode}";

/** Calls that let a signed-in phone read, approve or deny a device's request by its user code (RFC 8628). */
export const deviceOperations: readonly Operation<ProblemCode>[] = [
  {
    id: "readDeviceRequest",
    method: "GET",
    path: deviceAuthorizationPath,
    tag,
    summary: "Get a device's request by its user code",
    description:
      "Which app and device ask, from where and since when. Show it before you ask for an answer. Wrong codes are limited per account and address.",
    credentials: ["bearer"],
    answers: [{ status: 200, description: "The request.", schema: deviceRequest }],
    problems: ["FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND", "RATE_LIMITED"],
  },
  {
    id: "approveDeviceRequest",
    method: "POST",
    path: `${deviceAuthorizationPath}/approve`,
    tag,
    summary: "Approve a device's request from a phone",
    description:
      "With the app lock on, after a local authentication, and at most ten minutes after the phone's sign-in or second factor, because the device's login outlives the phone's session. The device signs in to the app as this account with its next poll.",
    credentials: ["bearer"],
    body: { schema: deviceApproval, example: { device: exampleDevice } },
    answers: [{ status: 200, description: "Approved.", schema: z.object({ status: z.literal("approved") }) }],
    problems: [
      "INVALID_REQUEST",
      "FORBIDDEN",
      "MFA_REQUIRED",
      "STEP_UP_REQUIRED",
      "NOT_FOUND",
      "CONFLICT",
      "GONE",
      "RATE_LIMITED",
    ],
  },
  {
    id: "denyDeviceRequest",
    method: "POST",
    path: `${deviceAuthorizationPath}/deny`,
    tag,
    summary: "Deny a device's request from a phone",
    credentials: ["bearer"],
    answers: [{ status: 200, description: "Denied.", schema: z.object({ status: z.literal("denied") }) }],
    problems: ["FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND", "CONFLICT", "GONE", "RATE_LIMITED"],
  },
];
