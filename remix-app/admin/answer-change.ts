import { type AppLoadContext, data, redirect } from "@remix-run/node";
import type { z } from "zod";
import { readForm } from "../http/form.ts";
import { type ConsoleChange, isConfirmed } from "./console-change.ts";
import { failWithErrors, failWithRefusal } from "./failed-change.ts";

type Changed = Extract<ConsoleChange, { outcome: "changed" }>;

/**
 * Makes the change that an admin sent with a form, then redirects. If the form is invalid or the change is refused,
 * returns what to correct.
 * @param options.name what the admin must type to confirm, and what to say about another text. Absent if `change` checks
 * the confirmation.
 * @param options.to the path to redirect to
 */
export async function answerChange<Change extends object>(
  context: AppLoadContext,
  {
    request,
    schema,
    name,
    change,
    to,
  }: {
    request: Request;
    schema: z.ZodType<Change & { confirmation: string }>;
    name?: { of: string | ((values: Change) => string); mismatch: string };
    change: (values: Omit<Change, "confirmation">, confirmation: string) => Promise<ConsoleChange>;
    to: (changed: Changed, values: Omit<Change, "confirmation">) => string;
  },
) {
  const form = await readForm(request, context);
  const parsed = schema.safeParse(Object.fromEntries(form));
  if (!parsed.success) return data(failWithErrors(parsed.error, form), { status: 400 });
  const { confirmation, ...values } = parsed.data;
  const expected = typeof name?.of === "function" ? name.of(parsed.data) : name?.of;
  if (name && !isConfirmed(confirmation, expected ?? "")) {
    return data(failWithRefusal({ message: name.mismatch, field: "confirmation" }, form), { status: 400 });
  }
  const result = await change(values, confirmation);
  if (result.outcome === "refused") return data(failWithRefusal(result, form), { status: result.status });
  throw redirect(to(result, values), 303);
}
