import type { Claims } from "#shared/claims.ts";

/** Methods of a second factor in `amr`. */
const secondFactors: ReadonlySet<string> = new Set(["totp", "mfa/phone", "mfa/webauthn"]);

/**
 * When a session last proved who it is by what counts for its account: by the second factor where one is enrolled, else
 * by a sign-in. A refresh proves nothing, and neither does a factor that is gone.
 * @returns the beginning of 1970 where it never did
 */
export function provenAt(amr: Claims["amr"], { enrolled }: { enrolled: boolean }): Date {
  const counting = amr.filter(({ method }) => secondFactors.has(method) === enrolled);
  return new Date(Math.max(0, ...counting.map(({ timestamp }) => timestamp)) * 1000);
}
