import { type ActionFunctionArgs, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { logError } from "#shared/log.ts";
import { createExportClient, exportAccount } from "../../account-data/export-account.ts";
import { recordEvent } from "../../activity/record-event.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { requireFreshUser, requireUser } from "../../session/user.ts";

/**
 * After a step-up, the browser returns here by GET and is redirected to the settings page. Only the button's POST
 * downloads the data.
 */
export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireUser(context, request);
  throw redirect("/settings/security#your-data");
}

/** Downloads all data that we hold about the signed-in account. */
export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireFreshUser(context, request);
  await readForm(request, context);
  const { requestId } = context;
  const document = await exportAccount(createExportClient(context.env), { userId: user.id }).catch((error: unknown) => {
    logError(error instanceof Error ? error.message : String(error), { requestId });
    throw problem("UNAVAILABLE", { requestId });
  });
  if (!document) throw problem("NOT_FOUND", { requestId });
  await recordEvent(context, { userId: user.id, kind: "account_export" });
  const day = new Date().toISOString().slice(0, 10);
  return new Response(document, {
    headers: {
      "Content-Type": "application/json",
      "Content-Disposition": `attachment; filename="gatehouse-account-${day}.json"`,
      "Cache-Control": "private, no-store",
    },
  });
}
