import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { parseExactJson } from "#shared/exact-json.ts";
import { enteredInvoice } from "#shared/provider-records.ts";
import { readJson } from "../../http/json-body.ts";
import { readPageQuery } from "../../http/list-page.ts";
import { listProviderInvoices } from "../../studio/costs/book.ts";
import { recordInvoice } from "../../studio/invoices/record-invoice.ts";
import { requireStudioReader } from "../../studio/studio-reader.ts";
import { convertAmountsToJsonNumbers } from "../../ui/format-amount.ts";
import { requireWorkspaceCaller } from "../../workspaces/workspace-caller.ts";

/** `GET /api/v1/workspaces/{wsId}/ai/provider-invoices`: lists all stored invoices. Accepts app sessions. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const reader = await requireStudioReader(context, { request, params });
  const { limit, cursor } = readPageQuery(request, context);
  return Response.json(
    convertAmountsToJsonNumbers(await listProviderInvoices(context, { reader, query: { limit, cursor } })),
  );
}

/** `POST /api/v1/workspaces/{wsId}/ai/provider-invoices`: records an invoice that a member enters. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { member } = await requireWorkspaceCaller(context, { request, params, permission: "use_ai_studio" });
  const { requestId } = context;
  const invoice = await readJson(request, { schema: enteredInvoice, requestId, parse: parseExactJson });
  return Response.json(await recordInvoice(context, { member, invoice }));
}
