import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { type Caller, callAsApp, workspaceIdOrUnknown } from "../satellites/app-caller.ts";
import { renameWorkspace, workspaceNameSchema } from "./create-workspace.ts";
import { workspaceProblem } from "./failures.ts";
import {
  listWorkspaces,
  paginateWorkspaces,
  readWorkspacePosition,
  type WorkspacePageQuery,
} from "./list-workspaces.ts";
import { getWorkspace, workspacePermissions } from "./permission.ts";

const workspaceListItem = z.object({
  id: z.uuid(),
  name: z.string(),
  planId: z.string(),
  personal: z.boolean(),
  role: z.string(),
});
export const workspaceList = z.object({
  workspaces: z.array(workspaceListItem),
  /** The cursor of the next page, or null at the end. */
  nextCursor: z.string().nullable(),
});
export const workspaceShown = workspaceListItem.extend({ permissions: z.array(z.enum(workspacePermissions)) });

/** A workspace as the central API returns it to a member. */
export type ApiWorkspace = z.infer<typeof workspaceShown>;

export const workspaceChange = z.strictObject({ name: workspaceNameSchema });

/**
 * Returns a page of the caller's workspaces, their personal one first.
 * @throws Response a problem if the caller is not allowed, the cursor is invalid, or the database did not answer
 */
export async function listApiWorkspaces(
  context: AppLoadContext,
  { caller, ...query }: { caller: Caller } & WorkspacePageQuery,
): Promise<z.infer<typeof workspaceList>> {
  const { requestId } = context;
  if (caller.kind === "user") return workspaceList.parse(await listWorkspaces(caller.user, { ...query, requestId }));
  const args = { after: readWorkspacePosition(query, context), page_size: query.limit + 1 };
  const schema = workspaceList.pick({ workspaces: true });
  const { workspaces } = await callAsApp(context, { caller, name: "list_workspaces_by_app_session", args, schema });
  return paginateWorkspaces(workspaces, query);
}

/**
 * Returns one of the caller's workspaces. Another person's workspace and a missing one get the same response.
 * @throws Response 404 NOT_FOUND; like {@link listApiWorkspaces}
 */
export async function readApiWorkspace(
  context: AppLoadContext,
  { caller, workspaceId }: { caller: Caller; workspaceId: string | undefined },
): Promise<ApiWorkspace> {
  if (caller.kind === "user") {
    const id = requireId(context, workspaceId);
    const found = await getWorkspace(context, { user: caller.user, workspaceId: id });
    if (!found) throw problem("NOT_FOUND", { requestId: context.requestId });
    return workspaceShown.parse(found);
  }
  const schema = z.object({ workspace: workspaceShown });
  const args = { workspace_id: workspaceIdOrUnknown(workspaceId) };
  return (await callAsApp(context, { caller, name: "read_workspace_by_app_session", args, schema })).workspace;
}

/**
 * Requires that the caller may rename a workspace, regardless of the new name.
 * @throws Response 403 FORBIDDEN if their role does not allow it; like {@link readApiWorkspace}
 */
export async function requireRenaming(
  context: AppLoadContext,
  { caller, workspaceId }: { caller: Caller; workspaceId: string | undefined },
): Promise<void> {
  if (caller.kind === "app") {
    const args = { workspace_id: workspaceIdOrUnknown(workspaceId) };
    await callAsApp(context, { caller, name: "can_rename_by_app_session", args, schema: z.strictObject({}) });
    return;
  }
  const { permissions } = await readApiWorkspace(context, { caller, workspaceId });
  if (!permissions.includes("manage_workspace_settings")) throw notAllowed(context);
}

/**
 * Renames one of the caller's workspaces.
 * @throws Response like {@link requireRenaming}
 */
export async function renameApiWorkspace(
  context: AppLoadContext,
  { caller, workspaceId, name }: { caller: Caller; workspaceId: string | undefined; name: string },
): Promise<ApiWorkspace> {
  if (caller.kind === "app") {
    const schema = z.object({ workspace: workspaceShown });
    const args = { workspace_id: workspaceIdOrUnknown(workspaceId), name };
    return (await callAsApp(context, { caller, name: "rename_workspace_by_app_session", args, schema })).workspace;
  }
  const id = requireId(context, workspaceId);
  const error = await renameWorkspace(caller.user, { workspaceId: id, name });
  // Row-level security refused the change, because the caller's role has changed since the check.
  if (error?.code === "PT404") throw notAllowed(context);
  if (error) throw workspaceProblem(error, context);
  return readApiWorkspace(context, { caller, workspaceId: id });
}

function notAllowed({ requestId }: AppLoadContext): Response {
  return problem("FORBIDDEN", { requestId, detail: "Your role doesn’t allow you to change the name." });
}

function requireId({ requestId }: AppLoadContext, id: string | undefined): string {
  const parsed = z.uuid().safeParse(id);
  if (!parsed.success) throw problem("NOT_FOUND", { requestId });
  return parsed.data.toLowerCase();
}
