import type { LoaderFunctionArgs } from "@remix-run/node";
import { requireBook } from "../../books/require-book.ts";
import { downloadDocument } from "../../studio/invoices/invoice-document.ts";

/** Downloads the original document of an invoice. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requireBook(context, { request, params });
  return downloadDocument(context, { member, invoiceId: params.invoiceId });
}
