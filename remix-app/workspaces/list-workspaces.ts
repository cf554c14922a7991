import { z } from "zod";
import { buildPage, parseCursor, readKeyCursor, writeKeyCursor } from "../http/list-page.ts";
import type { UserDataReader } from "../session/user.ts";
import { workspaceProblem } from "./failures.ts";

const rows = z.array(
  z
    .object({ id: z.uuid(), name: z.string(), plan_id: z.string(), personal: z.boolean(), role: z.string() })
    .transform(({ plan_id, ...workspace }) => ({ ...workspace, planId: plan_id })),
);

/**
 * A workspace as shown to one of its members. `personal` is true for the member's own personal workspace, and `role` is
 * the member's role.
 */
export type Workspace = z.output<typeof rows>[number];

/** Selects a page of a list of workspaces. */
export interface WorkspacePageQuery {
  limit: number;
  cursor?: string | undefined;
}

/**
 * Returns the position at which a page of workspaces begins. @throws Response 400 INVALID_REQUEST for an invalid cursor
 */
export function readWorkspacePosition(
  { cursor }: WorkspacePageQuery,
  { requestId }: { requestId: string },
): string[] | null {
  return parseCursor(cursor, { read: readWorkspaceCursor, requestId });
}

/** Returns the first `limit` of the given workspaces, and the cursor of the next page if there are more. */
export function paginateWorkspaces<Found extends { id: string; name: string; personal: boolean }>(
  found: readonly Found[],
  { limit }: WorkspacePageQuery,
): { workspaces: Found[]; nextCursor: string | null } {
  const { records, nextCursor } = buildPage(found, {
    limit,
    cursorOf: ({ id, name, personal }) => writeKeyCursor([String(personal), name, id]),
  });
  return { workspaces: records, nextCursor };
}

const personalPart = z.enum(["true", "false"]);
const idPart = z.uuid();

function readWorkspaceCursor(cursor: string): string[] | null {
  const position = readKeyCursor(cursor, { length: 3 });
  const valid = personalPart.safeParse(position?.[0]).success && idPart.safeParse(position?.[2]).success;
  return valid ? position : null;
}

/**
 * Returns a page of the workspaces that row-level security lets the user see. The user's personal workspace comes
 * first. The others are sorted by name.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE if the Data API did not answer
 */
export async function listWorkspaces(
  { data }: UserDataReader,
  { requestId, ...query }: WorkspacePageQuery & { requestId: string },
): Promise<{ workspaces: Workspace[]; nextCursor: string | null }> {
  const after = readWorkspacePosition(query, { requestId });
  const { data: found, error } = await data.rpc("list_workspaces", { after, page_size: query.limit + 1 });
  if (error) throw workspaceProblem(error, { requestId });
  return paginateWorkspaces(rows.parse(found), query);
}
