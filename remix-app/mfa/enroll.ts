import type { AppLoadContext } from "@remix-run/node";
import type { User } from "../session/user.ts";
import { type AuthFailure, mapGeneralError } from "../supabase/auth-errors.ts";
import { type Authenticator, defaultName, listAuthenticators } from "./authenticators.ts";
import { encodeQrCode, type QrCode } from "./qr-code.ts";

const maxAuthenticators = 10;

/** An authenticator whose first code hasn't been verified yet, with the details that its setup page shows. */
export interface Enrollment {
  factorId: string;
  secret: string;
  name: string;
  /** The key URI, for an authenticator app on the same device. */
  uri: string;
  qrCode: QrCode;
}

export type EnrollmentResult = { started: true; enrollment: Enrollment } | ({ started: false } & AuthFailure);

/**
 * Starts the enrollment of an authenticator app, and drops any unfinished enrollment.
 * @param options.name chosen by the owner; defaults to an unused name
 * @throws Response 503 AUTH_UNAVAILABLE, as {@link listAuthenticators}
 */
export async function startEnrollment(
  context: AppLoadContext,
  { user, name }: { user: User; name: string | undefined },
): Promise<EnrollmentResult> {
  const existing = await listAuthenticators(context, user.id);
  const verified = existing.filter((authenticator) => authenticator.verified);
  if (verified.length >= maxAuthenticators) {
    return refuse(`You can have at most ${maxAuthenticators} authenticator apps. Remove one first.`);
  }
  if (verified.some((other) => other.name === name)) return refuse(duplicateName);
  const issuer = context.env.BRAND_NAME;
  const { mfa } = context.session.sessionClient().auth;
  for (const { id } of existing.filter((authenticator) => !authenticator.verified))
    await mfa.unenroll({ factorId: id });
  const friendlyName = name ?? unusedName(verified);
  const { data, error } = await mfa.enroll({ factorType: "totp", friendlyName, issuer });
  if (error) {
    const failure = mapGeneralError(error);
    if (failure) return { started: false, ...failure };
    return refuse(error.code === "mfa_factor_name_conflict" ? duplicateName : "We couldn’t set this up. Try again.");
  }
  const { secret } = data.totp;
  return {
    started: true,
    enrollment: buildEnrollment({ factorId: data.id, secret, name: friendlyName, user, issuer }),
  };
}

interface EnrollmentFields {
  factorId: string;
  secret: string;
  name: string;
  user: User;
  /** The product's name, under which authenticator apps list the account. */
  issuer: string;
}

/** Rebuilds the page of a started enrollment from its form's fields. */
export function buildEnrollment({ factorId, secret, name, user, issuer }: EnrollmentFields): Enrollment {
  const uri = keyUri(secret, { account: user.email, issuer });
  return { factorId, secret, name, uri, qrCode: encodeQrCode(uri) };
}

/** Builds the URI in the "Key Uri Format" that authenticator apps read. */
function keyUri(secret: string, { account, issuer }: { account: string; issuer: string }): string {
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(account)}`;
  const query = new URLSearchParams({ secret, issuer, algorithm: "SHA1", digits: "6", period: "30" });
  return `otpauth://totp/${label}?${query}`;
}

function unusedName(authenticators: readonly Authenticator[]): string {
  const names = new Set(authenticators.map(({ name }) => name));
  let name = defaultName;
  for (let number = 2; names.has(name); number += 1) name = `${defaultName} ${number}`;
  return name;
}

const duplicateName = "You already have an authenticator app with this name. Choose another name.";

function refuse(message: string): EnrollmentResult {
  return { started: false, status: 400, message };
}
