import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { askedWorkspace, type Caller, callAsApp } from "../satellites/app-caller.ts";
import { renameWorkspace, workspaceNameSchema } from "./create-workspace.ts";
import { workspaceProblem } from "./failures.ts";
import { listWorkspaces, type WorkspacePageQuery, workspacePage, workspacePosition } from "./list-workspaces.ts";
import { getWorkspace, workspacePermissions } from "./permission.ts";

const listed = z.object({
  id: z.uuid(),
  name: z.string(),
  planId: z.string(),
  personal: z.boolean(),
  role: z.string(),
});
/** A page of a list. */
export const workspaceList = z.object({
  workspaces: z.array(listed),
  /** Where the next page begins; null at the end. */
  nextCursor: z.string().nullable(),
});
/** One workspace alone. */
export const workspaceShown = listed.extend({ permissions: z.array(z.enum(workspacePermissions)) });

/** A workspace as the central API shows it to someone who belongs to it. */
export type ApiWorkspace = z.infer<typeof workspaceShown>;

/** What PATCH takes. */
export const workspaceChange = z.strictObject({ name: workspaceNameSchema });

/**
 * A page of the caller's workspaces, their personal one first.
 * @throws Response a problem where they may not, the cursor is none of ours, or the database did not answer
 */
export async function listApiWorkspaces(
  context: AppLoadContext,
  { caller, ...query }: { caller: Caller } & WorkspacePageQuery,
): Promise<z.infer<typeof workspaceList>> {
  const { requestId } = context;
  if (caller.kind === "user") return workspaceList.parse(await listWorkspaces(caller.user, { ...query, requestId }));
  const args = { after: workspacePosition(query, context), page_size: query.limit + 1 };
  const schema = workspaceList.pick({ workspaces: true });
  const { workspaces } = await callAsApp(context, { caller, name: "list_workspaces_by_app_session", args, schema });
  return workspacePage(workspaces, query);
}

/**
 * A workspace of the caller's. One of others and one that does not exist get one answer.
 * @throws Response 404 NOT_FOUND; as {@link listApiWorkspaces}
 */
export async function readApiWorkspace(
  context: AppLoadContext,
  { caller, workspaceId }: { caller: Caller; workspaceId: string | undefined },
): Promise<ApiWorkspace> {
  if (caller.kind === "user") {
    const id = requireId(context, workspaceId);
    const found = await getWorkspace(caller.user, { workspaceId: id, requestId: context.requestId });
    if (!found) throw problem("NOT_FOUND", { requestId: context.requestId });
    return workspaceShown.parse(found);
  }
  const schema = z.object({ workspace: workspaceShown });
  const args = { workspace_id: askedWorkspace(workspaceId) };
  return (await callAsApp(context, { caller, name: "read_workspace_by_app_session", args, schema })).workspace;
}

/**
 * Lets pass who may give a workspace another name, whatever name that will be.
 * @throws Response 403 FORBIDDEN where their role does not allow it; as {@link readApiWorkspace}
 */
export async function requireRenaming(
  context: AppLoadContext,
  { caller, workspaceId }: { caller: Caller; workspaceId: string | undefined },
): Promise<void> {
  if (caller.kind === "app") {
    const args = { workspace_id: askedWorkspace(workspaceId) };
    await callAsApp(context, { caller, name: "can_rename_by_app_session", args, schema: z.strictObject({}) });
    return;
  }
  const { permissions } = await readApiWorkspace(context, { caller, workspaceId });
  if (!permissions.includes("manage_workspace_settings")) throw notAllowed(context);
}

/**
 * Gives a workspace of the caller's another name.
 * @throws Response as {@link requireRenaming}
 */
export async function renameApiWorkspace(
  context: AppLoadContext,
  { caller, workspaceId, name }: { caller: Caller; workspaceId: string | undefined; name: string },
): Promise<ApiWorkspace> {
  if (caller.kind === "app") {
    const schema = z.object({ workspace: workspaceShown });
    const args = { workspace_id: askedWorkspace(workspaceId), name };
    return (await callAsApp(context, { caller, name: "rename_workspace_by_app_session", args, schema })).workspace;
  }
  const id = requireId(context, workspaceId);
  const error = await renameWorkspace(caller.user, { workspaceId: id, name });
  // Row-level security would not have it changed: their role has become another.
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
