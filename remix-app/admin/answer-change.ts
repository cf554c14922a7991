import { type AppLoadContext, data, redirect } from "@remix-run/node";
import type { z } from "zod";
import { readForm } from "../http/form.ts";
import type { Confirmation } from "./confirmation.ts";
import type { ConsoleChange } from "./console-change.ts";
import { failUnconfirmed, failWithErrors, failWithRefusal } from "./failed-change.ts";

type Changed = Extract<ConsoleChange, { outcome: "changed" }>;

/**
 * Makes the change that an admin sent with a form, then redirects. If the form is invalid or the change is refused,
 * returns what to correct.
 * @param options.destroys what the admin must type, if the change destroys something
 * @param options.to the path to redirect to
 */
export async function answerChange<Change extends object>(
  context: AppLoadContext,
  {
    request,
    schema,
    destroys = null,
    change,
    to,
  }: {
    request: Request;
    schema: z.ZodType<Change>;
    destroys?: Confirmation | null;
    change: (values: Change) => Promise<ConsoleChange>;
    to: (changed: Changed, values: Change) => string;
  },
) {
  const form = await readForm(request, context);
  const parsed = schema.safeParse(Object.fromEntries(form));
  if (!parsed.success) return data(failWithErrors(parsed.error, form), { status: 400 });
  const unconfirmed = failUnconfirmed(form, destroys);
  if (unconfirmed) return data(unconfirmed, { status: 400 });
  const result = await change(parsed.data);
  if (result.outcome === "refused") return data(failWithRefusal(result, form), { status: result.status });
  throw redirect(to(result, parsed.data), 303);
}
