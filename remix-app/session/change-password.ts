import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import { getAttemptOutcome, guardAttempt } from "../abuse/attempts.ts";
import { recordEvent } from "../activity/record-event.ts";
import { problem } from "../http/problem.ts";
import { type AuthFailure, mapAuthError, mapGeneralError, mapMailError } from "../supabase/auth-errors.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { newPasswordSchema } from "./credentials.ts";
import { findPasswordFault } from "./password-fault.ts";
import type { User } from "./user.ts";

export const changePasswordSchema = z.object({
  password: newPasswordSchema,
  /** The current password, if the backend requires it. */
  currentPassword: z.string().optional(),
  /** The emailed code, if the backend requires it. */
  code: z
    .string()
    .transform((typed) => typed.replaceAll(/\s/g, ""))
    .pipe(z.string().regex(/^\d{6,10}$/, "Enter only the digits from the email."))
    .optional(),
});

/** The additional proof that the backend requires. */
export type PasswordProof = "currentPassword" | "code";

export type PasswordChange =
  | { status: "changed" }
  | {
      status: "refused";
      httpStatus: AuthFailure["status"];
      formErrors?: string[];
      fieldErrors?: Partial<Record<"password" | PasswordProof, string[]>>;
      /** The proof that the form must ask for from now on. Null if the backend requires no new proof. */
      ask: PasswordProof | null;
    };

/** The fields of errors that are not about the new password. */
const proofFields: Record<string, PasswordProof> = {
  current_password_required: "currentPassword",
  current_password_invalid: "currentPassword",
  reauthentication_not_valid: "code",
};

/** The backend's error codes for a wrong proof. */
const wrongProofCodes = new Set(["current_password_invalid", "reauthentication_not_valid"]);

/**
 * Changes the password of this request's user and notifies the owner by email. The identity backend then ends the
 * account's other sessions.
 * @param change.first whether the account had no password before
 */
export async function changePassword(
  context: AppLoadContext,
  change: z.infer<typeof changePasswordSchema> & { user: Pick<User, "id" | "email" | "displayName">; first: boolean },
): Promise<PasswordChange> {
  const { password, currentPassword, code, user, first } = change;
  const userId = user.id;
  const attempt = await guardAttempt(context, {
    action: code ? "code" : currentPassword ? "password" : "credential",
    userId,
  });
  if (!attempt.admitted) {
    return { status: "refused", httpStatus: attempt.status, formErrors: [attempt.message], ask: null };
  }
  const fault = await findPasswordFault(context, { password, email: user.email, name: user.displayName });
  if (fault) {
    await attempt.settle("void");
    return { status: "refused", httpStatus: 400, fieldErrors: { password: [fault] }, ask: null };
  }
  const { auth } = context.session.sessionClient();
  const { error } = await auth.updateUser({
    password,
    ...(currentPassword ? { current_password: currentPassword } : {}),
    ...(code ? { nonce: code } : {}),
  });
  // A weak-password error doesn't show whether the code was right, so the attempt stays counted.
  if (!error || wrongProofCodes.has(error.code ?? "") || mapGeneralError(error))
    await attempt.settle(getAttemptOutcome(error));
  if (!error) {
    await recordEvent(context, { userId, kind: first ? "password_added" : "password_changed" });
    return { status: "changed" };
  }
  if (error.code === "reauthentication_needed") return sendReauthenticationCode(context);
  const { status: httpStatus, message } = mapAuthError(error, "This password wasn’t accepted. Choose another one.");
  if (mapGeneralError(error)) return { status: "refused", httpStatus, formErrors: [message], ask: null };
  const ask = proofFields[error.code ?? ""] ?? null;
  return { status: "refused", httpStatus, fieldErrors: { [ask ?? "password"]: [message] }, ask };
}

/** Requests an emailed code from the identity backend. A recently sent code remains valid. */
async function sendReauthenticationCode(context: AppLoadContext): Promise<PasswordChange> {
  const { error } = await context.session.sessionClient().auth.reauthenticate();
  const failure = mapMailError(error);
  if (failure) return { status: "refused", httpStatus: failure.status, formErrors: [failure.message], ask: null };
  const message = "You signed in more than a day ago, so we emailed you a code. Enter it with your new password.";
  return { status: "refused", httpStatus: 400, formErrors: [message], ask: "code" };
}

/**
 * Returns whether an account has a password to sign in with.
 * @throws Response 503 UNAVAILABLE if the database did not answer
 */
export async function hasPassword({ env, requestId }: AppLoadContext, userId: string): Promise<boolean> {
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("list_sign_in_methods", { subject_id: userId });
  const methods = z.object({ password: z.boolean() }).safeParse(data);
  if (!error && methods.success) return methods.data.password;
  logError(`the sign-in methods could not be read: ${error?.code ?? "answer"}`, { requestId });
  throw problem("UNAVAILABLE", { requestId });
}
