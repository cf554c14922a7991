import type { LoaderFunctionArgs } from "@remix-run/node";
import { listProviderUsage, providerUsageColumns } from "../../admin/provider-usage.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { createCsvResponse } from "../../http/csv.ts";
import { rangeDays, readFileRange } from "../../studio/range.ts";

/** Downloads the usage table of the Providers page as CSV. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const range = readFileRange(request, context);
  const { first, last } = rangeDays(range);
  const pages = [await listProviderUsage(context, range)];
  return createCsvResponse(providerUsageColumns, { name: `providers ${first} ${last}`, pages });
}
