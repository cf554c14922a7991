import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { guardAttempt, type RefusedAttempt } from "../../abuse/attempts.ts";
import { deviceName } from "../../activity/device-name.ts";
import { describeEvent } from "../../activity/record-event.ts";
import { problem } from "../../http/problem.ts";
import { buildDatabaseClaims } from "../../session/approval-proof.ts";
import { createRefusalResponse } from "../../session/challenge.ts";
import type { User } from "../../session/user.ts";
import { callFunction } from "../../supabase/data-api.ts";
import { describeScopeRights } from "../client-rights.ts";
import { readUserCode } from "./user-code.ts";

const isoTimeSchema = z.coerce.date().transform((date) => date.toISOString());
const storedRequest = z.object({
  userCode: z.string(),
  state: z.enum(["pending", "approved", "denied", "expired"]),
  app: z.object({ name: z.string(), displayName: z.string() }),
  scopes: z.array(z.string()),
  userAgent: z.string(),
  address: z.string().nullable(),
  place: z.string().nullable(),
  createdAt: isoTimeSchema,
  expiresAt: isoTimeSchema,
});

/** A device's request to sign in, for the person who entered its user code. */
export interface DeviceAuthorization extends Omit<z.output<typeof storedRequest>, "userAgent"> {
  /** Words from a closed list, such as "curl on Linux". */
  device: string;
  /** Descriptions of the scopes. */
  rights: string[];
}

/** Why a user code leads to no request. */
export interface MissingAuthorization {
  code: RefusedAttempt["code"] | "NOT_FOUND";
  status: number;
  message: string;
}

const unknownCodeError: MissingAuthorization = {
  code: "NOT_FOUND",
  status: 404,
  message: "We don’t know this code. Check it on your device, or start again there to get a new one.",
};

/**
 * Finds the authorization request that a user code identifies. A wrong code counts against the account and the address
 * (RFC 8628 section 5.1).
 * @param options.typed the user code as typed
 * @throws Response 503 UNAVAILABLE
 */
export async function findDeviceAuthorization(
  context: AppLoadContext,
  { user, typed }: { user: User; typed: string },
): Promise<DeviceAuthorization | MissingAuthorization> {
  const userCode = readUserCode(typed);
  if (userCode === null) return unknownCodeError;
  const attempt = await guardAttempt(context, { action: "user_code", userId: user.id });
  if (!attempt.admitted) return attempt;
  const request = await callFunction(context, {
    name: "private.find_device_authorization",
    args: { user_code: userCode, reader_id: user.id, attempt_id: attempt.id },
    schema: storedRequest.nullable(),
  });
  if (!request) return unknownCodeError;
  const { userAgent, ...facts } = request;
  return { ...facts, device: deviceName(userAgent), rights: deviceRights(facts.scopes, context.env.BRAND_NAME) };
}

/**
 * Describes the scopes of a device's login. `offline_access` has its own text, because signing out of this product does
 * not end a device's login.
 */
function deviceRights(scopes: readonly string[], product: string): string[] {
  const withoutRenewal = scopes.filter((scope) => scope !== "offline_access");
  const rights = describeScopeRights({ scopes: withoutRenewal }, product);
  return scopes.includes("offline_access") ? [...rights, "Stay signed in on the device for up to 30 days"] : rights;
}

/**
 * Like {@link findDeviceAuthorization}, for APIs.
 * @throws Response 404 NOT_FOUND, 429 RATE_LIMITED, 503
 */
export async function requireDeviceAuthorization(
  context: AppLoadContext,
  options: { user: User; typed: string },
): Promise<DeviceAuthorization> {
  const found = await findDeviceAuthorization(context, options);
  if (!("code" in found)) return found;
  throw problem(found.code, { requestId: context.requestId, detail: found.message });
}

const decisionOutcomeSchema = z.enum([
  ...["approved", "denied", "not_found", "expired", "conflict"],
  ...["unauthenticated", "mfa_required", "unavailable"],
] as const);

/**
 * Approves or denies a request, which can be answered only once. An approval is recorded in the account's activity and
 * emailed to its owner.
 * @param options.request the result of findDeviceAuthorization for the signed-in user
 * @throws Response 409 CONFLICT if it was answered before, 410 GONE if it expired, 401, 403 MFA_REQUIRED, 404, 503
 */
export async function decideDeviceAuthorization(
  context: AppLoadContext,
  { user, request, approve }: { user: User; request: DeviceAuthorization; approve: boolean },
): Promise<"approved" | "denied"> {
  const { session, requestId } = context;
  if (session.auth.status !== "authenticated") throw problem("UNAUTHENTICATED", { requestId });
  const { app, device, address, place } = request;
  const requester = [device, address, place].filter(Boolean).join(", ");
  const details = { app: app.displayName, requester };
  const decided = await callFunction(context, {
    name: "private.decide_device_authorization",
    args: {
      user_code: request.userCode,
      claims: buildDatabaseClaims(context, session.auth.claims),
      approve,
      event: describeEvent(context, { userId: user.id, kind: "device_approved", details }),
    },
    schema: decisionOutcomeSchema,
  });
  switch (decided) {
    case "approved":
    case "denied":
      return decided;
    case "unauthenticated":
      throw problem("UNAUTHENTICATED", { requestId });
    case "unavailable":
      throw problem("AUTH_UNAVAILABLE", { requestId });
    default:
      throw createRefusalResponse(decided, context);
  }
}
