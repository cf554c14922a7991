import type { LoaderFunctionArgs } from "@remix-run/node";
import { reconcileCosts } from "../../studio/costs/book.ts";
import { readWindowQuery } from "../../studio/range.ts";
import { requireStudioReader } from "../../studio/studio-reader.ts";
import { convertAmountsToJsonNumbers } from "../../ui/format-amount.ts";

/** `GET /api/v1/workspaces/{wsId}/ai/reconciliation?from&to`. Accepts app sessions. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const reader = await requireStudioReader(context, { request, params });
  const query = readWindowQuery(request, context);
  return Response.json(convertAmountsToJsonNumbers(await reconcileCosts(context, { reader, query })));
}
