import type { LoaderFunctionArgs } from "@remix-run/node";
import { ofNoApp } from "../../admin/books/book-files.ts";
import { listPlatformCosts } from "../../admin/books/platform-costs.ts";
import { listPlatformShares } from "../../admin/books/platform-invoices.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import { focusFile } from "../../studio/costs/focus-export.ts";
import { readFileMonth } from "../../studio/costs/month.ts";

/** Downloads one month of the platform's costs and invoice shares as a FOCUS file. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const { month } = readFileMonth(request, context);
  const limit = recordsPerRead;
  return focusFile({
    month,
    costs: eachPage(async (cursor) => ofNoApp(await listPlatformCosts(context, { month, filter: {}, limit, cursor }))),
    invoices: eachPage(async (cursor) => ofNoApp(await listPlatformShares(context, { month, limit, cursor }))),
  });
}
