import type { LoaderFunctionArgs } from "@remix-run/node";
import { createCsvResponse } from "../../http/csv.ts";
import { eachPage } from "../../http/list-page.ts";
import { keyColumns, listKeys } from "../../studio/keys/keys.ts";
import { rangeFileName } from "../../studio/range.ts";
import { requirePermission } from "../../workspaces/permission.ts";

const keysPerRead = 500;

/** Downloads all of the workspace's keys, never their secrets. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "manage_ai_keys" });
  const pages = eachPage(async (cursor) => {
    const { keys: records, nextCursor } = await listKeys(context, { ...member, limit: keysPerRead, cursor });
    return { records, nextCursor };
  });
  return createCsvResponse(keyColumns, { name: rangeFileName("keys", null), pages });
}
