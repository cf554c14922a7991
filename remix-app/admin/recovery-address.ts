import type { AppLoadContext } from "@remix-run/server-runtime";
import { problem } from "../http/problem.ts";
import { emailSchema } from "../identity/credentials.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

/** The email that a page of the console's recovery is about, off its address; null where it names none. */
export function readRecoveryEmail(request: Request): string | null {
  const email = emailSchema.safeParse(new URL(request.url).searchParams.get("email") ?? "");
  return email.success ? email.data.toLowerCase() : null;
}

/** The same. @throws Response 404 where there is none */
export function requireRecoveryEmail(context: AppLoadContext, request: Request): string {
  const email = readRecoveryEmail(request);
  if (email === null) throw problem("NOT_FOUND", { requestId: context.requestId });
  return email;
}

/** Why this admin can do nothing for an email, or null. */
export function recoveryLock({ email: own }: InfrastructureAdmin, email: string): string | null {
  return own.toLowerCase() === email ? "Nobody recovers their own account here: ask another admin." : null;
}
