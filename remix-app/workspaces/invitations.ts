import { createHash, randomBytes } from "node:crypto";
import type { PostgrestError } from "@supabase/supabase-js";
import { z } from "zod";
import { buildPage, parseCursor, readCursor, writeCursor } from "../http/list-page.ts";
import type { User } from "../session/user.ts";
import { workspaceProblem } from "./failures.ts";

const openRow = z.object({
  id: z.uuid(),
  email: z.string(),
  created_at: z.string(),
  expires_at: z.string(),
  role: z.object({ name: z.string() }),
});

const preview = z.object({
  workspaceId: z.uuid(),
  workspaceName: z.string(),
  role: z.string(),
  email: z.string(),
  invitedBy: z.string().nullable(),
  expiresAt: z.string(),
  state: z.enum(["open", "accepted", "expired", "withdrawn"]),
  forYou: z.boolean(),
});

/** An invitation's offer, as shown to anyone who has its link. */
export type InvitationPreview = z.infer<typeof preview>;

export interface OpenInvitation {
  id: string;
  email: string;
  role: string;
  sentAt: string;
  expiresAt: string;
}

/**
 * Returns the token's hash, which the database stores instead of the token. Only the email and the answer to the inviter
 * contain the token.
 */
function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

/** The token of an invitation's link. */
export const invitationTokenSchema = z.string().regex(/^[A-Za-z0-9_-]{43}$/);

/** Returns the hash of the token in an invitation's link, or null for any other path on our origin. */
export function hashTokenOfLink(path: string): string | null {
  const link = URL.parse(path, "http://localhost");
  const token = invitationTokenSchema.safeParse(link?.searchParams.get("token"));
  return link?.pathname === "/invitation" && token.success ? hashToken(token.data) : null;
}

/**
 * Returns a page of open invitations, newest first; those of one sender if `invitedBy` is given.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function listInvitations(
  { data }: User,
  {
    workspaceId,
    requestId,
    limit,
    cursor,
    invitedBy,
  }: { workspaceId: string; requestId: string; limit: number; cursor: string | null; invitedBy?: string },
): Promise<{ invitations: OpenInvitation[]; nextCursor: string | null }> {
  const before = parseCursor(cursor, { read: readCursor, requestId });
  let query = data
    .from("workspace_invitations")
    .select("id, email, created_at, expires_at, role:workspace_roles!inner(name)")
    .eq("workspace_id", workspaceId)
    .is("accepted_at", null)
    .order("created_at", { ascending: false })
    .order("id", { ascending: false })
    .limit(limit + 1);
  if (invitedBy) query = query.eq("invited_by", invitedBy);
  if (before) {
    const { createdAt, id } = before;
    query = query.or(`created_at.lt.${createdAt},and(created_at.eq.${createdAt},id.lt.${id})`);
  }
  const { data: rows, error } = await query;
  if (error) throw workspaceProblem(error, { requestId });
  const { records, nextCursor } = buildPage(z.array(openRow).parse(rows), {
    limit,
    cursorOf: ({ created_at, id }) => writeCursor({ createdAt: created_at, id }),
  });
  const invitations = records.map(({ id, email, role, created_at, expires_at }) => ({
    id,
    email,
    role: role.name,
    sentAt: created_at,
    expiresAt: expires_at,
  }));
  return { invitations, nextCursor };
}

/**
 * Creates an invitation. Replaces an open invitation for the same email, so that only the newest email works.
 * @returns the token for the email's link, or the failure: 23505 if the open invitation is too recent to be replaced,
 * PT429 after too many invitations by one inviter, with the seconds until the next one in `details`
 */
export async function createInvitation(
  { data }: User,
  { workspaceId, email, roleId }: { workspaceId: string; email: string; roleId: string },
): Promise<{ token: string } | { error: PostgrestError }> {
  const token = randomBytes(32).toString("base64url");
  const { error } = await data.from("workspace_invitations").insert({
    workspace_id: workspaceId,
    email: email.toLowerCase(),
    role_id: roleId,
    token_hash: `\\x${hashToken(token)}`,
  });
  return error ? { error } : { token };
}

/** Returns the email and the role of an open invitation, or null. @throws Response 503 UNAVAILABLE */
export async function readInvitation(
  { data }: User,
  { workspaceId, invitationId, requestId }: { workspaceId: string; invitationId: string; requestId: string },
): Promise<{ email: string; roleId: string } | null> {
  const { data: row, error } = await data
    .from("workspace_invitations")
    .select("email, role_id")
    .eq("workspace_id", workspaceId)
    .eq("id", invitationId)
    .is("accepted_at", null)
    .maybeSingle();
  if (error) throw workspaceProblem(error, { requestId });
  return row && { email: String(row.email), roleId: String(row.role_id) };
}

/** Withdraws an invitation. @returns the failure or null */
export async function withdrawInvitation(
  { data }: User,
  { workspaceId, invitationId }: { workspaceId: string; invitationId: string },
): Promise<Pick<PostgrestError, "code"> | null> {
  const { data: withdrawn, error } = await data
    .from("workspace_invitations")
    .delete()
    .eq("workspace_id", workspaceId)
    .eq("id", invitationId)
    .is("accepted_at", null)
    .select("id");
  return error ?? (withdrawn.length === 0 ? { code: "PT404" } : null);
}

/** Returns a preview of the invitation with this token, or null if there is none. */
export async function previewInvitation(
  { data }: User,
  { token, requestId }: { token: string; requestId: string },
): Promise<InvitationPreview | null> {
  const { data: found, error } = await data.rpc("workspace_invitation", { token_hash: hashToken(token) });
  if (error) throw workspaceProblem(error, { requestId });
  return found === null ? null : preview.parse(found);
}

/**
 * Joins the workspace of an invitation.
 * @returns the workspace's id, or the failure: PT404 if the invitation is no longer open
 */
export async function acceptInvitation(
  { data }: User,
  token: string,
): Promise<{ workspaceId: string } | { error: PostgrestError }> {
  const { data: workspaceId, error } = await data.rpc("accept_workspace_invitation", { token_hash: hashToken(token) });
  return error ? { error } : { workspaceId: z.uuid().parse(workspaceId) };
}
