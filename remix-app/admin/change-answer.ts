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

/** What refused a form that was readable. */
export function refused({ message }: Pick<ConsoleRefusal, "message">, form: FormData): FailedChange {
  return { message, fields: {}, typed: textsOf(form) };
}

function textsOf(form: FormData): Record<string, string> {
  return Object.fromEntries([...form].filter((entry): entry is [string, string] => typeof entry[1] === "string"));
}
