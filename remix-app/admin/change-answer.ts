import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { takeForm } from "../session/kept-form.ts";
import type { ConsoleRefusal } from "./console-change.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

/** A change that was not made: what to say above the form and at its fields, and what was typed, to go on from. */
export interface FailedChange {
  message: string | null;
  fields: Record<string, string[] | undefined>;
  typed: Record<string, string>;
}

/** What is wrong with a form, field by field. */
export function unreadable(error: z.ZodError, form: FormData): FailedChange {
  const { fieldErrors, formErrors } = z.flattenError(error);
  return { message: formErrors[0] ?? null, fields: fieldErrors, typed: textsOf(form) };
}

/** What refused a form that was readable: at the field that it is about, or above the form. */
export function refused({ message, field }: Pick<ConsoleRefusal, "message" | "field">, form: FormData): FailedChange {
  const typed = textsOf(form);
  return field ? { message: null, fields: { [field]: [message] }, typed } : { message, fields: {}, typed };
}

/** What an admin sent when their proof was too old, to go on from. What confirms it is typed anew, below what will happen. */
export function keptChange(
  context: AppLoadContext,
  { request, admin }: { request: Request; admin: Pick<InfrastructureAdmin, "id"> },
): FailedChange | undefined {
  const { confirmation, ...typed } = takeForm(context, { request, userId: admin.id });
  return confirmation === undefined ? undefined : { message: null, fields: {}, typed };
}

function textsOf(form: FormData): Record<string, string> {
  return Object.fromEntries([...form].filter((entry): entry is [string, string] => typeof entry[1] === "string"));
}
