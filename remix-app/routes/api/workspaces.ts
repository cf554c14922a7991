import type { LoaderFunctionArgs } from "@remix-run/node";
import { readPageQuery } from "../../http/list-page.ts";
import { requireCaller } from "../../satellites/app-caller.ts";
import { listApiWorkspaces } from "../../workspaces/workspace-api.ts";

/** `GET /api/v1/workspaces`: lists the workspaces of the signed-in user, or of the person behind an app session. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const caller = await requireCaller(context, request);
  return Response.json(await listApiWorkspaces(context, { caller, ...readPageQuery(request, context) }));
}
