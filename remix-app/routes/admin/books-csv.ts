import type { LoaderFunctionArgs } from "@remix-run/node";
import { reconcilePlatform } from "../../admin/books/platform-month.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { csvFile } from "../../http/csv.ts";
import { cellColumns } from "../../studio/costs/import-files.ts";
import { readFileMonth } from "../../studio/costs/month.ts";
import { cellsOf } from "../../studio/costs/reconciliation.ts";

/** Downloads the platform's reconciliation of a month. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const { month } = readFileMonth(request, context);
  const { records } = await reconcilePlatform(context, month);
  const today = new Date().toISOString().slice(0, 10);
  const cells = records.flatMap((record) => cellsOf(record, { today }));
  return csvFile(cellColumns, { name: `platform-${month}`, pages: [cells] });
}
