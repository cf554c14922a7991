import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { requireFormAccount } from "../http/form.ts";
import { problem } from "../http/problem.ts";
import { requireUser, type User, type UserDataReader } from "../session/user.ts";
import { workspaceProblem } from "./failures.ts";
import { permissionWords } from "./roles.ts";

export const workspacePermissions = [
  "manage_workspace_settings",
  "manage_members",
  "manage_ai_keys",
  "manage_ai_policy",
  "use_ai_studio",
] as const;

export type WorkspacePermission = (typeof workspacePermissions)[number];

const anyId = z.uuid();

/** A workspace with the caller's permissions in it. */
const workspaceAccess = z
  .object({
    id: z.uuid(),
    name: z.string(),
    planId: z.string(),
    /** Whether the workspace is the caller's own personal workspace. */
    personal: z.boolean(),
    createdAt: z.string(),
    role: z.string(),
    isOwner: z.boolean(),
    permissions: z.array(z.enum(workspacePermissions)),
  })
  .transform(({ permissions, ...workspace }) => ({
    ...workspace,
    permissions: workspace.isOwner ? workspacePermissions : (permissions as readonly WorkspacePermission[]),
  }));

export type WorkspaceAccess = z.output<typeof workspaceAccess>;

/** The result of `public.read_workspace` for a member. Only the frame of pages needs the optional fields. */
const workspaceRead = z.object({
  workspace: workspaceAccess,
  /** Other workspaces to switch to. */
  others: z.array(z.object({ id: z.uuid(), name: z.string() })).default([]),
  /** Set if the credits for the member's requests are low or used up. */
  creditNotice: z
    .object({
      level: z.enum(["low", "empty"]),
      /** Exact decimal string. */
      available: z.string(),
    })
    .nullable()
    .default(null),
  /** Whether an app is linked, or costs or invoices were recorded. */
  usesCostBook: z.boolean().default(false),
});

/** Null if row-level security does not show the workspace to the user as a member. */
const workspaceAnswer = workspaceRead.nullable();
type WorkspaceAnswer = z.output<typeof workspaceAnswer>;

/**
 * Returns a workspace if row-level security shows it to the user as a member, otherwise null.
 * @throws Response 503 UNAVAILABLE if the Data API did not answer
 */
export async function getWorkspace(
  context: AppLoadContext,
  { user, workspaceId }: { user: UserDataReader; workspaceId: string },
): Promise<WorkspaceAccess | null> {
  const known = await readWithSession(context, { workspaceId, withFrame: false });
  const read = known === undefined ? await readWorkspace(context, { user, workspaceId, withFrame: false }) : known;
  return read?.workspace ?? null;
}

type ReadQuery = { workspaceId: string; withFrame: boolean };

/**
 * Returns a workspace that was read together with the session's state. Undefined if it was not read, because the request
 * changes something.
 */
async function readWithSession(
  { session }: AppLoadContext,
  { workspaceId, withFrame }: ReadQuery,
): Promise<WorkspaceAnswer | undefined> {
  const state = await session.state();
  const known = state.status === "alive" ? state.workspace : undefined;
  const answers = known?.id === workspaceId && (known.withFrame || !withFrame);
  return answers ? workspaceAnswer.parse(known.read) : undefined;
}

/** Reads a workspace. Without what surrounds it if only that fails, so that the page still loads. */
async function readWorkspace(
  context: AppLoadContext,
  { user, workspaceId, withFrame }: ReadQuery & { user: UserDataReader },
): Promise<WorkspaceAnswer> {
  const { requestId } = context;
  if (!anyId.safeParse(workspaceId).success) return null;
  const args = { workspace_id: workspaceId, with_frame: withFrame };
  const { data: found, error } = await user.data.rpc("read_workspace", args);
  if (error && withFrame) return readWorkspace(context, { user, workspaceId, withFrame: false });
  if (error) throw workspaceProblem(error, { requestId });
  return workspaceAnswer.parse(found);
}

/** A request with the workspace id in its URL. */
type WorkspaceRequest = { request: Request; params: { workspaceId?: string | undefined } };

export interface FoundWorkspace {
  user: User;
  workspace: WorkspaceAccess;
  /** The ids of the user and the workspace, for reads and changes on the user's behalf. */
  member: { userId: string; workspaceId: string };
}

/**
 * Returns the signed-in user and one of their workspaces. Another person's workspace and a missing one get the same
 * response.
 * @throws Response like requireUser; 404 NOT_FOUND if the user is not a member, 409 if the form is from another
 * account's page
 */
export async function requireWorkspace(context: AppLoadContext, asked: WorkspaceRequest): Promise<FoundWorkspace> {
  const { user, workspace } = await readForRequest(context, { ...asked, withFrame: false });
  return { user, workspace, member: { userId: user.id, workspaceId: workspace.id } };
}

/**
 * Returns a workspace with what surrounds the content of its pages.
 * @throws Response like {@link requireWorkspace}
 */
export function requireWorkspaceFrame(context: AppLoadContext, asked: WorkspaceRequest) {
  return readForRequest(context, { ...asked, withFrame: true });
}

async function readForRequest(
  context: AppLoadContext,
  { request, params, withFrame }: WorkspaceRequest & { withFrame: boolean },
) {
  const user = await requireUser(context, request);
  const { workspaceId = "" } = params;
  let read = await readWithSession(context, { workspaceId, withFrame });
  if (read === undefined) {
    read = await (request.method === "GET"
      ? readOnce(context, { user, workspaceId })
      : readWorkspace(context, { user, workspaceId, withFrame }));
  }
  if (read) return { ...read, user };
  await requireFormAccount(context, request);
  throw problem("NOT_FOUND", { requestId: context.requestId });
}

/** The workspaces of the pages being loaded. */
const pageReads = new WeakMap<AppLoadContext, Promise<WorkspaceAnswer>>();

/**
 * Reads the workspace of a page that answers an action, once for the loaders of the page and of its frames, which run at
 * the same time. It is not known from the session's state, because the action may have changed it.
 */
function readOnce(
  context: AppLoadContext,
  { user, workspaceId }: { user: User; workspaceId: string },
): Promise<WorkspaceAnswer> {
  const reading = pageReads.get(context) ?? readWorkspace(context, { user, workspaceId, withFrame: true });
  pageReads.set(context, reading);
  return reading;
}

/**
 * Does the same as {@link requireWorkspace}, and requires a permission.
 * @throws Response 403 FORBIDDEN if the member's role does not include the permission
 */
export async function requirePermission(
  context: AppLoadContext,
  options: WorkspaceRequest & { permission: WorkspacePermission },
): Promise<FoundWorkspace> {
  const found = await requireWorkspace(context, options);
  if (found.workspace.permissions.includes(options.permission)) return found;
  await requireFormAccount(context, options.request);
  const detail = `Your role in this workspace doesn’t allow this. Ask an owner for the “${permissionWords[options.permission].name}” permission.`;
  throw problem("FORBIDDEN", { requestId: context.requestId, detail });
}
