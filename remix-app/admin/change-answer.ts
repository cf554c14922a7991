import { z } from "zod";
import type { ConsoleRefusal } from "./console-change.ts";

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

function textsOf(form: FormData): Record<string, string> {
  return Object.fromEntries([...form].filter((entry): entry is [string, string] => typeof entry[1] === "string"));
}
