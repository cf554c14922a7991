import type { AppLoadContext } from "@remix-run/node";
import { requirePlatformBooks } from "../admin/require-admin.ts";
import { platformBookId } from "../studio/costs/platform-book.ts";
import type { StudioMember } from "../studio/studio-reader.ts";
import { requirePermission } from "../workspaces/permission.ts";
import { type Book, platformBook, workspaceBook } from "./book.ts";

/**
 * Returns the book of a URL and the person who uses it: the book of the workspace that the URL names, otherwise the
 * platform's.
 * @throws Response like {@link requirePermission} for a workspace's book, and like {@link requirePlatformBook}
 */
export async function requireBook(
  context: AppLoadContext,
  { request, params }: { request: Request; params: { workspaceId?: string | undefined } },
): Promise<{ book: Book; member: StudioMember }> {
  if (params.workspaceId === undefined) {
    return { book: platformBook, member: await requirePlatformBook(context, request) };
  }
  const { workspace, member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  return { book: workspaceBook(workspace), member };
}

/**
 * Returns the admin or finance person who makes this request, with the platform's book.
 * @throws Response like {@link requirePlatformBooks}
 */
export async function requirePlatformBook(context: AppLoadContext, request: Request): Promise<StudioMember> {
  const { id } = await requirePlatformBooks(context, request);
  return { userId: id, workspaceId: platformBookId };
}
