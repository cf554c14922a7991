import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { takeForm } from "../session/saved-form.ts";
import type { Confirmation } from "./confirmation.ts";
import { isConfirmed, notConfirmed } from "./console-change.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

/** A change that was not made: the message above the form, the errors at its fields, and the input to restore. */
export interface FailedChange {
  message: string | null;
  fields: Record<string, string[] | undefined>;
  typed: Record<string, string>;
}

/** Returns the validation errors of a form by field. */
export function failWithErrors(error: z.ZodError, form: FormData): FailedChange {
  const { fieldErrors, formErrors } = z.flattenError(error);
  return { message: formErrors[0] ?? null, fields: fieldErrors, typed: textsOf(form) };
}

/**
 * Returns the result for a valid form whose change was refused. The message appears at the field that caused the
 * refusal, or above the form if no field did.
 */
export function failWithRefusal(
  { message, field }: { message: string; field?: string | undefined },
  form: FormData,
): FailedChange {
  const typed = textsOf(form);
  return field ? { message: null, fields: { [field]: [message] }, typed } : { message, fields: {}, typed };
}

/** Returns what to correct in the form of a change that destroys something; undefined if the text was typed. */
export function failUnconfirmed(form: FormData, destroys: Confirmation | null): FailedChange | undefined {
  if (!destroys || isConfirmed(String(form.get("confirmation") ?? ""), destroys.text)) return undefined;
  return failWithRefusal(
    { ...notConfirmed, message: `Type “${destroys.text}” to confirm. Nothing was changed.` },
    form,
  );
}

/**
 * Restores the form that an admin sent after their step-up had expired, except for the confirmation. The admin sees the
 * effects of the change and confirms it again.
 */
export function restoreChange(
  context: AppLoadContext,
  { request, admin }: { request: Request; admin: Pick<InfrastructureAdmin, "id"> },
): FailedChange | undefined {
  const { confirmation, ...typed } = takeForm(context, { request, userId: admin.id });
  return Object.keys(typed).length === 0 ? undefined : { message: null, fields: {}, typed };
}

function textsOf(form: FormData): Record<string, string> {
  return Object.fromEntries([...form].filter((entry): entry is [string, string] => typeof entry[1] === "string"));
}
