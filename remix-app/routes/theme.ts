import { type ActionFunctionArgs, redirect } from "@remix-run/node";
import { readForm } from "../http/form.ts";
import { problem } from "../http/problem.ts";
import { redirectTarget } from "../http/redirect-target.ts";
import { themeSchema, writeTheme } from "../ui/theme.ts";

/** Saves the chosen appearance and redirects back. */
export async function action({ request, context }: ActionFunctionArgs) {
  const form = await readForm(request, context);
  const theme = themeSchema.safeParse(form.get("theme"));
  if (!theme.success) throw problem("INVALID_REQUEST", { requestId: context.requestId });
  writeTheme(context, theme.data);
  throw redirect(redirectTarget(form.get("returnTo"), { context, fallback: "/" }), 303);
}
