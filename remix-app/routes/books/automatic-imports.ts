import { type ActionFunctionArgs, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { platformBook } from "../../books/book.ts";
import { confirmMissedDays, requestCostImport } from "../../books/importer/cost-importers.ts";
import { requirePlatformBook } from "../../books/require-book.ts";
import { readForm } from "../../http/form.ts";

/** Redirects to the card with the importers, such as after a second factor that the action asked for. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  await requirePlatformBook(context, request);
  throw redirect(`${platformBook.reconciliation}#automatic-imports`, 303);
}

/** Requests an import of a provider's costs, or records that days that an import missed had none. */
export async function action({ request, context }: ActionFunctionArgs) {
  const { userId } = await requirePlatformBook(context, request);
  const form = await readForm(request, context);
  const provider = String(form.get("provider") ?? "");
  if (form.get("step") === "confirm_missed") {
    await confirmMissedDays(context, { provider, actor: userId, lastDay: String(form.get("lastDay") ?? "") });
    throw redirect(`${platformBook.reconciliation}#automatic-imports`, 303);
  }
  await requestCostImport(context, { provider, actor: userId });
  const requested = new URLSearchParams({ requested: provider });
  throw redirect(`${platformBook.reconciliation}?${requested}#automatic-imports`, 303);
}
